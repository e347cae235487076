"""`--since`: how far back a command looks that reads the log of a cluster. Not a subcommand."""

import argparse
import re
from typing import Final

from msgspec import Struct

from coordinator.cli.parser import expect

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
    """Return whether the command line names a broker, whose log is to be read."""
    return bool(args.bootstrap_server or args.command_config or args.since)
