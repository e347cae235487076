"""Print what happened to groups, and why: each rebalance with its cause.

It asks Muster's admin port, which keeps the latest events. An Apache Kafka has no such thing."""

import argparse
import http.client
import json
import os
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

from coordinator.cli import fail
from coordinator.cli.addresses import parse_addresses
from coordinator.cli.cluster import TIMEOUT_SECONDS, WrongUse
from coordinator.cli.group_log import shorten_id
from coordinator.cli.parser import add_json_option, add_timeout_option, expect, integer
from coordinator.client import ClientError

EXAMPLES: Final = """\
muster events                      the latest events of all groups
muster events shop --follow        those of one group, as they happen
muster events shop --json | jq .cause"""
ADMIN_VARIABLE: Final = "MUSTER_ADMIN"
ADMIN_DEFAULT: Final = "127.0.0.1:8092"
ADMIN_PORT: Final = 8092
EXPECTED: Final = "HOST[:PORT] or http://HOST:PORT"
PAUSE_SECONDS: Final = 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("group", nargs="?", metavar="GROUP", help="only this group; all groups if it is not given")
    parser.add_argument("--follow", action="store_true", help="wait for further events, until Ctrl-C")
    parser.add_argument(
        "--count", type=integer(1), metavar="N", help="only the latest N; with --follow, begin with them"
    )
    parser.add_argument(
        "--admin",
        type=expect(EXPECTED, parse_admin),
        metavar="HOST:PORT",
        help=f"the server's admin address (${ADMIN_VARIABLE}, or {ADMIN_DEFAULT})",
    )
    add_timeout_option(parser)
    add_json_option(parser, "print every field, as a JSON object a line")


def parse_admin(text: str) -> str:
    """`HOST:PORT` of one address. Raises ValueError."""
    (address,) = parse_addresses(text.removeprefix("http://").rstrip("/"), ADMIN_PORT)
    return address


def run(args: argparse.Namespace) -> int:
    try:
        admin = args.admin or _admin_of_environment()
        for number, event in _read_events(admin, args):
            print(json.dumps({"number": number} | event) if args.json else format_event(event), flush=args.follow)
    except KeyboardInterrupt:
        return 0  # the way to end `--follow`
    except WrongUse as error:
        return fail("events", error, 2)
    except ClientError as error:
        return fail("events", error)
    return 0


def _admin_of_environment() -> str:
    text = os.environ.get(ADMIN_VARIABLE, "")
    try:
        return parse_admin(text) if text else ADMIN_DEFAULT
    except ValueError:
        raise WrongUse(f"invalid {ADMIN_VARIABLE} {text!r}: expected {EXPECTED}") from None


def _read_events(admin: str, args: argparse.Namespace) -> Iterator[tuple[int, dict[str, Any]]]:
    """The events that the server has kept, and with --follow those that come. A restart of the server begins anew."""
    kept = list(_read_pages(admin, args, 0))
    yield from kept if args.count is None else kept[-args.count :]
    last = kept[-1][0] if kept else 0
    while args.follow:
        time.sleep(PAUSE_SECONDS)
        page = _get(admin, args, last)
        if page["latest"] < last:
            print("muster events: the server has restarted", file=sys.stderr)
            last = 0
            continue
        for one in page["events"]:
            last = one["number"]
            yield last, one["event"]


def _read_pages(admin: str, args: argparse.Namespace, last: int) -> Iterator[tuple[int, dict[str, Any]]]:
    while events := _get(admin, args, last)["events"]:
        for one in events:
            last = one["number"]
            yield last, one["event"]


def _get(admin: str, args: argparse.Namespace, after: int) -> dict[str, Any]:
    query = {"after": str(after)} | ({} if args.group is None else {"group": args.group})
    seconds = args.timeout or TIMEOUT_SECONDS
    host, _, port = admin.rpartition(":")
    connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=seconds)
    try:
        connection.request("GET", f"/events?{urlencode(query)}")
        response = connection.getresponse()
        body = response.read()
    except TimeoutError:
        raise ClientError(f"http://{admin} does not respond: gave up after {seconds:g} s") from None
    except (OSError, http.client.HTTPException) as error:
        raise ClientError(f"cannot connect to http://{admin}: {getattr(error, 'strerror', None) or error}") from None
    finally:
        connection.close()
    if response.status != 200:
        raise ClientError(f"http://{admin}/events: {response.status} {body.decode(errors='replace').strip()}")
    try:
        page: dict[str, Any] = json.loads(body)
    except ValueError:
        raise ClientError(f"http://{admin} is not the admin port of a Muster") from None
    return page


def format_event(event: dict[str, Any]) -> str:
    """A line for people: the time, the group, the cause, and what it changed."""
    at = datetime.fromtimestamp(event["at_ms"] / 1000, UTC)
    before, after = event.get("before", ""), event.get("after", "")
    parts = [
        at.strftime("%Y-%m-%d %H:%M:%S.") + f"{at.microsecond // 1000:03d}Z",
        event["group"],
        event["cause"].replace("_", " "),
        f"{before} -> {after}" if before and before != after else after,
    ]
    epoch = "epoch" if event.get("type") == "consumer" else "generation"
    parts += [f"{epoch} {event['generation']}"] if event.get("generation", -1) >= 0 else []
    if who := event.get("instance") or shorten_id(event.get("member", "")):
        parts.append(f"member {who}")
    parts += [f"by {event['by']}"] if event.get("by") else []
    parts += [f"reason: {event['reason']}"] if event.get("reason") else []
    if event.get("last_beat_ms", -1) >= 0:
        parts.append(f"last heartbeat {(event['at_ms'] - event['last_beat_ms']) / 1000:.1f} s before")
    return "  ".join(part for part in parts if part)
