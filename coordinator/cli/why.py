"""Print why a group rebalanced: its timeline, each change of state with its cause.

It asks Muster's admin port. An Apache Kafka has no such thing."""

import argparse
import json
import sys
from typing import Final
from urllib.parse import quote

from coordinator.cli import fail
from coordinator.cli.admin import add_admin_options, add_directory_option, find_admin, get, read_directory
from coordinator.cli.cluster import WrongUse
from coordinator.cli.parser import expect
from coordinator.client import ClientError

EXAMPLES: Final = """\
muster why shop
muster why shop --format mermaid > shop.mmd
muster why shop --data-dir muster-data         from the files of a server that does not run"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("group", type=expect("the id of a group, not empty", _not_empty), metavar="GROUP")
    parser.add_argument(
        "--format", choices=("text", "json", "mermaid"), default="text", help="text by default; mermaid is a diagram"
    )
    parser.add_argument("--json", dest="format", action="store_const", const="json", help="the same as --format json")
    add_directory_option(parser)
    add_admin_options(parser)


def _draw(args: argparse.Namespace) -> str:
    """Return the timeline of a group from the events in a directory, as the server draws it. Raises WrongUse."""
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
        if args.data_dir is not None:
            timeline = _draw(args)
        else:
            path = f"/v1/groups/{quote(args.group, safe='', errors='surrogateescape')}/timeline?format={args.format}"
            timeline = get(find_admin(args), path, args.timeout).decode(errors="replace")
    except WrongUse as error:
        return fail("why", error, 2)
    except ClientError as error:
        return fail("why", error)
    if not timeline:
        return fail("why", f"no event of a group {args.group!r} is known")
    sys.stdout.write(timeline)
    return 0
