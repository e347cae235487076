"""`--since`: how far back a command looks that reads the log of a cluster. Not a subcommand."""

import argparse
import os
import re
from typing import Final

from msgspec import Struct

from coordinator.cli.admin import ADMIN_VARIABLE
from coordinator.cli.cluster import BOOTSTRAP_VARIABLE
from coordinator.cli.parser import expect
from coordinator.control.printable import format_span

SINCE: Final = "beginning, an offset, or a time such as 90s, 15m, 2h, 3d"
_UNITS_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class Since(Struct, frozen=True):
    """From where on rebalances are shown: so many ms ago, or from an offset on; from the beginning without either."""

    ago_ms: int | None = None
    offset: int | None = None


def parse_since(text: str) -> Since:
    """Return what `--since` says. Raises ValueError."""
    if text == "beginning":
        return Since()
    if text.isascii() and text.isdecimal():
        return Since(offset=int(text))
    match = re.fullmatch(r"([0-9]{1,9})([smhd])", text)
    if match is None:
        raise ValueError(text)
    return Since(ago_ms=int(match[1]) * _UNITS_MS[match[2]])


def add_since(parser: argparse.ArgumentParser, default: str) -> None:
    """Let a command say how far back it looks."""
    parser.add_argument(
        "--since",
        type=expect(SINCE, parse_since),
        metavar="WHEN",
        help=f"with a broker: how far back to look: {SINCE} ({default})",
    )


def is_about_broker(args: argparse.Namespace) -> bool:
    """Return whether the command line names a broker, whose log is to be read, or the environment nothing else."""
    if args.bootstrap_server or args.command_config or args.since:
        return True
    has_admin = args.admin or args.data_dir is not None or os.environ.get(ADMIN_VARIABLE)
    return bool(os.environ.get(BOOTSTRAP_VARIABLE)) and not has_admin


def format_since(since: Since) -> str:
    """Return from where on rebalances are shown, as it is said in a sentence."""
    if since.ago_ms is not None:
        return f"in the last {format_span(since.ago_ms / 1000)}"
    return f"from offset {since.offset} on" if since.offset is not None else "in the log"
