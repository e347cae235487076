"""`--watch`: show something again and again, until Ctrl-C. Not a subcommand."""

import argparse
import sys
import time
from collections.abc import Callable
from typing import Final

from coordinator.cli.parser import SECONDS, expect, seconds

EVERY_SECONDS: Final = 2.0
CLEAR: Final = "\x1b[H\x1b[2J\x1b[3J"


def add_watch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--watch",
        type=expect(SECONDS, seconds),
        nargs="?",
        const=EVERY_SECONDS,
        metavar="SECONDS",
        help=f"show it again every SECONDS ({EVERY_SECONDS:g}), until Ctrl-C",
    )


def watch(every: float | None, show: Callable[[], int]) -> int:
    """Show once if `every` is None; else every so many seconds, on a cleared terminal, until Ctrl-C."""
    if every is None:
        return show()
    try:
        while True:
            if sys.stdout.isatty():
                print(CLEAR, end="")
            show()
            sys.stdout.flush()
            time.sleep(every)
    except KeyboardInterrupt:
        return 0
