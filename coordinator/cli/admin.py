"""Find the admin port, and send it GET requests, for `muster events` and `muster why`. Not a subcommand."""

import argparse
import http.client
import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from coordinator.addresses import parse_addresses
from coordinator.cli.cluster import TIMEOUT_SECONDS, UsageError
from coordinator.cli.parser import expect
from coordinator.client import ClientError

if TYPE_CHECKING:
    from coordinator.core.events import Event

ADMIN_VARIABLE: Final = "MUSTER_ADMIN"
TOKEN_VARIABLE: Final = "MUSTER_TOKEN"  # noqa: S105  # its name
ADMIN_DEFAULT: Final = "127.0.0.1:8092"
ADMIN_PORT: Final = 8092
EXPECTED: Final = "HOST[:PORT] or http://HOST:PORT"


def add_admin_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say where the admin port is."""
    parser.add_argument(
        "--admin",
        type=expect(EXPECTED, parse_admin),
        metavar="HOST:PORT",
        help=f"the server's admin address (${ADMIN_VARIABLE}, or {ADMIN_DEFAULT})",
    )


def add_directory_option(parser: argparse.ArgumentParser) -> None:
    """Add --data-dir: read the events that a server has written, without asking one."""
    parser.add_argument(
        "--data-dir", metavar="DIR", help="read the events that a server has written there, instead of asking one"
    )


def read_directory(args: argparse.Namespace) -> Iterator[tuple[int, "Event"]]:
    """Yield the events of --data-dir, of the group that is named, with numbers. Raises UsageError."""
    from coordinator.event_files import has_events, read_all_events
    from storage.real_files import RealFiles

    if args.admin:
        raise UsageError("invalid --data-dir: --admin asks a server")
    files = RealFiles()
    if not has_events(files, args.data_dir):
        raise UsageError(f"invalid --data-dir {args.data_dir!r}: expected a data directory with events.jsonl")
    return enumerate(read_all_events(files, args.data_dir, args.group), 1)


def parse_admin(text: str) -> str:
    """Return one address as `HOST:PORT`. Raises ValueError."""
    (address,) = parse_addresses(text.removeprefix("http://").rstrip("/"), ADMIN_PORT)
    return address


def find_admin(args: argparse.Namespace) -> str:
    """Return the admin address from the option, the environment, or the default. Raises UsageError."""
    if args.admin:
        return str(args.admin)
    text = os.environ.get(ADMIN_VARIABLE, "")
    try:
        return parse_admin(text) if text else ADMIN_DEFAULT
    except ValueError:
        raise UsageError(f"invalid {ADMIN_VARIABLE} {text!r}: expected {EXPECTED}") from None


def _authorization() -> dict[str, str]:
    """Return the header with the token of the environment, none if there is no token. Raises UsageError."""
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    if not token.isascii() or not token.isprintable():
        raise UsageError(f"invalid {TOKEN_VARIABLE}: expected printable ASCII characters")
    return {"Authorization": f"Bearer {token}"} if token else {}


def get(admin: str, path: str, timeout: float | None) -> bytes:
    """Return the body of the admin port's response. Raises ClientError."""
    headers = _authorization()
    seconds = timeout or TIMEOUT_SECONDS
    host, _, port = admin.rpartition(":")
    connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=seconds)
    try:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        body = response.read()
    except TimeoutError:
        raise ClientError(f"http://{admin} does not respond: gave up after {seconds:g} s") from None
    except (OSError, http.client.HTTPException) as error:
        hint = f" (the admin port: give --admin or {ADMIN_VARIABLE})" if admin == ADMIN_DEFAULT else ""
        reason = getattr(error, "strerror", None) or error
        raise ClientError(f"cannot connect to http://{admin}: {reason}{hint}") from None
    finally:
        connection.close()
    if response.status == 401:
        raise ClientError(f"http://{admin} wants a token: set {TOKEN_VARIABLE}")
    if response.status != 200:
        where = path.partition("?")[0]
        raise ClientError(f"http://{admin}{where}: {response.status} {_read_sentence(body)}")
    return body


def _read_sentence(body: bytes) -> str:
    """Return why a request is refused: the control API says it in JSON, other paths in a line."""
    try:
        return str(json.loads(body)["error"])
    except (ValueError, KeyError, TypeError):
        return body.decode(errors="replace").strip()


def get_json(admin: str, path: str, timeout: float | None) -> dict[str, Any]:
    """Return the JSON object that the admin port responds with. Raises ClientError."""
    body = get(admin, path, timeout)
    try:
        found = json.loads(body)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ClientError(f"http://{admin} is not the admin port of a Muster")
    return found
