"""Print why a group rebalanced: its timeline, each change with its cause.

Without --bootstrap-server it asks Muster's admin port, which knows the causes. With it, the cluster may be any Kafka:
the group's partition of __consumer_offsets is read, and the causes are inferred from what the log shows. A group of a
Muster whose admin port answers has its exact causes then, too. Without GROUP: which groups rebalance most."""

import argparse
import json
import sys
from typing import Final
from urllib.parse import quote

from coordinator.cli import fail
from coordinator.cli.admin import add_admin_options, add_directory_option, find_admin, get, read_directory
from coordinator.cli.cluster import UsageError
from coordinator.cli.parser import expect
from coordinator.cli.since import add_since, is_about_broker
from coordinator.client import ClientError

EXAMPLES: Final = """\
muster why shop
muster why shop --format mermaid > shop.mmd
muster why shop --data-dir muster-data         from the files of a server that does not run
muster why shop --bootstrap-server kafka:9092 --since 2h
muster why shop --bootstrap-server kafka:9092 --command-config client.properties --follow
muster why --bootstrap-server kafka:9092 --since 1d              which groups rebalance most"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "group", nargs="?", type=expect("the id of a group, not empty", _not_empty), metavar="GROUP",
        help="with a broker it may be left out",
    )  # fmt: skip
    parser.add_argument(
        "--format", choices=("text", "json", "mermaid"), default="text", help="text by default; mermaid is a diagram"
    )
    parser.add_argument("--json", dest="format", action="store_const", const="json", help="the same as --format json")
    add_since(parser, "beginning")
    parser.add_argument("--follow", action="store_true", help="with a broker: go on with what happens, until Ctrl-C")
    parser.add_argument(
        "--inferred", action="store_true", help="with a broker: read the log even if an admin port knows the causes"
    )
    add_directory_option(parser)
    add_admin_options(parser)


def _draw(args: argparse.Namespace) -> str:
    """Return the timeline of a group from the events in a directory, as the server draws it. Raises UsageError."""
    from coordinator.control.timeline import as_data, as_mermaid, as_text

    events = list(read_directory(args))
    if not events or args.format == "text":
        return as_text(events)
    if args.format == "mermaid":
        return as_mermaid(args.group, events)
    return json.dumps({"latest": len(events), "events": as_data(events)}) + "\n"


def _not_empty(text: str) -> str:
    """Return the text: no path can name a group whose id is empty. Raises ValueError."""
    if not text:
        raise ValueError(text)
    return text


def run(args: argparse.Namespace) -> int:
    try:
        if is_about_broker(args) or args.follow or args.inferred:
            return _ask_broker(args)
        if args.group is None:
            raise UsageError("missing GROUP: only with --bootstrap-server may it be left out")
        return _show(args, _draw(args) if args.data_dir is not None else _ask_admin(args, find_admin(args)))
    except KeyboardInterrupt:
        return 0  # the way to end `--follow`
    except UsageError as error:
        return fail("why", error, 2)
    except ClientError as error:
        return fail("why", error)


def _ask_broker(args: argparse.Namespace) -> int:
    """Print what the log of a cluster tells. Raises ClientError."""
    from coordinator.cli.why_inferred import tell_inferred  # the rules of causes, which nobody else needs

    if args.data_dir is not None:
        raise UsageError("invalid --data-dir: expected it without a broker")
    return tell_inferred(args, lambda admin: _show(args, _ask_admin(args, admin)))


def _ask_admin(args: argparse.Namespace, admin: str) -> str:
    path = f"/v1/groups/{quote(args.group, safe='', errors='surrogateescape')}/timeline?format={args.format}"
    return get(admin, path, args.timeout).decode(errors="replace")


def _show(args: argparse.Namespace, timeline: str) -> int:
    if not timeline:
        return fail("why", f"no event of a group {args.group!r} is known")
    sys.stdout.write(timeline)
    return 0
