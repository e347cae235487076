"""The command `muster`: a table of subcommands, each a module that is imported when it is called.

A subcommand's module has `HELP` (a line), `add_arguments(parser)` and `run(args) -> int`, the exit code: 0 done,
1 it failed, 2 wrong use; a command that has more says so in its help.
"""

import argparse
import importlib
import os
import sys
import time
from collections.abc import Sequence
from types import ModuleType
from typing import Final, NoReturn

from coordinator import __version__

STARTED: Final = time.monotonic()  # as near to the start of the process as Python code comes

COMMANDS: Final[tuple[str, ...]] = (
    "serve",
    "config",
    "groups",
    "offsets",
    "log",
    "decode",
    "topics",
    "produce",
    "consume",
    "pipeline",
)


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaint is one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    parser = Parser(prog="muster", description="Kafka's group coordinator as a server of its own.")
    parser.add_argument("--version", action="version", version=f"muster {__version__}")
    chosen = next((word for word in words if not word.startswith("-")), None)
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)
    for name in [chosen] if chosen in COMMANDS else COMMANDS:
        assert name is not None, "a chosen command is one of the table"
        module = _module(name)
        sub = subparsers.add_parser(
            name, help=module.HELP, description=module.__doc__ and module.__doc__.split("\n\n")[0]
        )
        module.add_arguments(sub)
        sub.set_defaults(run=module.run)
    args = parser.parse_args(words)
    try:
        code: int = args.run(args)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # whoever read our output has left
        return 0
    return code


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"coordinator.cli.{name}")


def fail(command: str, message: object, code: int = 1) -> int:
    """Say in one line on standard error what went wrong; `code`, to return."""
    print(f"muster {command}: {message}", file=sys.stderr)
    return code
