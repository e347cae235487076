"""Print why a group rebalanced: its timeline, each change of state with its cause.

It asks Muster's admin port. An Apache Kafka has no such thing."""

import argparse
import sys
from typing import Final
from urllib.parse import quote

from coordinator.cli import fail
from coordinator.cli.admin import add_admin_options, find_admin, get
from coordinator.cli.cluster import WrongUse
from coordinator.cli.parser import expect
from coordinator.client import ClientError

EXAMPLES: Final = """\
muster why shop
muster why shop --format mermaid > shop.mmd"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("group", type=expect("the id of a group, not empty", _not_empty), metavar="GROUP")
    parser.add_argument(
        "--format", choices=("text", "json", "mermaid"), default="text", help="text by default; mermaid is a diagram"
    )
    add_admin_options(parser)


def _not_empty(text: str) -> str:
    """Return the text: no path can name a group whose id is empty. Raises ValueError."""
    if not text:
        raise ValueError(text)
    return text


def run(args: argparse.Namespace) -> int:
    try:
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
