"""Print what happened to groups, and why: each rebalance with its cause.

Without --bootstrap-server it asks Muster's admin port, which keeps the latest events. With it, the cluster may be any
Kafka: its __consumer_offsets is read, and the causes are inferred from what the log shows."""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

from msgspec import to_builtins

from coordinator.cli import fail
from coordinator.cli.admin import add_admin_options, add_directory_option, find_admin, get_json, read_directory
from coordinator.cli.cluster import TIMEOUT_SECONDS, UsageError
from coordinator.cli.group_log import shorten_id
from coordinator.cli.parser import add_json_option, integer
from coordinator.cli.since import add_since, is_about_broker
from coordinator.client import ClientError
from coordinator.control.printable import make_printable

EXAMPLES: Final = """\
muster events                      the latest events of all groups
muster events shop --follow        those of one group, as they happen
muster events --data-dir muster-data   from the files of a server that does not run
muster events shop --json | jq .cause
muster events --bootstrap-server kafka:9092 --since 1h --follow --json"""
PAUSE_SECONDS: Final = 0.5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("group", nargs="?", metavar="GROUP", help="only this group; all groups if it is not given")
    parser.add_argument("--follow", action="store_true", help="wait for further events, until Ctrl-C")
    parser.add_argument(
        "--count", type=integer(1), metavar="N", help="only the latest N; with --follow, begin with them"
    )
    add_since(parser, "beginning, or with --follow what is still to come")
    add_directory_option(parser)
    add_admin_options(parser)
    add_json_option(parser, "print every field, as a JSON object a line")


def run(args: argparse.Namespace) -> int:
    try:
        if is_about_broker(args):
            return _ask_broker(args)
        known = 0
        for number, event in (
            _read_directory(args) if args.data_dir is not None else _read_events(find_admin(args), args)
        ):
            known += 1
            print(json.dumps({"number": number} | event) if args.json else format_event(event), flush=args.follow)
        if args.group is not None and not known:
            return fail("events", f"no event of a group {args.group!r} is known")
    except KeyboardInterrupt:
        return 0  # the way to end `--follow`
    except UsageError as error:
        return fail("events", error, 2)
    except ClientError as error:
        return fail("events", error)
    return 0


def _ask_broker(args: argparse.Namespace) -> int:
    """Print the rebalances that the log of a cluster shows, and with --follow those that come. Raises ClientError."""
    if args.data_dir is not None:
        raise UsageError("invalid --data-dir: expected it without a broker")
    from coordinator.cli.events_inferred import tell_inferred  # the rules of causes, which nobody else needs

    return tell_inferred(args)


def _read_events(admin: str, args: argparse.Namespace) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the events that the server has kept, and with --follow those that come.

    A restart of the server begins anew. One that takes longer than a response may is an end: raises ClientError.
    """
    kept = list(_read_pages(admin, args, None))
    yield from kept if args.count is None else kept[-args.count :]
    last = max(0, kept[-1][0]) if kept else 0
    heard_s = time.monotonic()
    while args.follow:
        time.sleep(PAUSE_SECONDS)
        try:
            page = _get(admin, args, last)
        except ClientError:
            if time.monotonic() - heard_s > (args.timeout or TIMEOUT_SECONDS):
                raise
            continue
        heard_s = time.monotonic()
        if page["latest"] < last:
            print("muster events: the server has restarted", file=sys.stderr)
            last = 0
            continue
        for one in page["events"]:
            last = one["number"]
            yield last, one["event"]


def _read_directory(args: argparse.Namespace) -> Iterator[tuple[int, dict[str, Any]]]:
    """Return the events of a directory. Raises UsageError."""
    if args.follow:
        raise UsageError("invalid --follow: nothing comes with --data-dir")
    events = [(number, to_builtins(event)) for number, event in read_directory(args)]
    return iter(events if args.count is None else events[-args.count :])


def _read_pages(admin: str, args: argparse.Namespace, last: int | None) -> Iterator[tuple[int, dict[str, Any]]]:
    while events := _get(admin, args, last)["events"]:
        for one in events:
            last = one["number"]
            yield last, one["event"]


def _get(admin: str, args: argparse.Namespace, after: int | None) -> dict[str, Any]:
    query = {} if after is None else {"after": str(after)}
    query |= {} if args.group is None else {"group": args.group}
    return get_json(admin, f"/events?{urlencode(query, errors='surrogateescape')}", args.timeout)


def _counts_by(kind: str | None) -> str:
    """Return what groups of a kind count. An event names its kind unless that is the oldest one."""
    if kind is None:
        return "generation"
    from coordinator.core.dispatch import counts_by  # which knows the kinds, and takes a while to import

    return counts_by(kind)


def format_event(event: dict[str, Any]) -> str:
    """Return a line for people: the time, the group, the cause, and what it changed."""
    at = datetime.fromtimestamp(event["at_ms"] / 1000, UTC)
    before, after = event.get("before", ""), event.get("after", "")
    parts = [
        at.strftime("%Y-%m-%d %H:%M:%S.") + f"{at.microsecond // 1000:03d}Z",
        event["group"],
        event["cause"].replace("_", " "),
        f"{before} -> {after}" if before and before != after else after,
    ]
    parts += [f"{_counts_by(event.get('type'))} {event['generation']}"] if event.get("generation", -1) >= 0 else []
    if who := event.get("instance") or shorten_id(event.get("member", "")):
        parts.append(f"member {who}")
    parts += [f"by {event['by']}"] if event.get("by") else []
    parts += [f"reason: {event['reason']}"] if event.get("reason") else []
    if event.get("last_beat_ms", -1) >= 0:
        parts.append(f"last heartbeat {(event['at_ms'] - event['last_beat_ms']) / 1000:.1f} s before")
    return "  ".join(make_printable(part) for part in parts if part)
