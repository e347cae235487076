"""The command `muster`: a table of subcommands, each a module that is imported when it is called.

A subcommand's module has `add_arguments(parser)` and `run(args) -> int`, the exit code: 0 done, 1 failed, 2 wrong use.
A subcommand with further exit codes lists them in its help. `EXAMPLES`, if the module has it, ends its help.
"""

import argparse
import errno
import importlib
import io
import os
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from coordinator import __version__
from coordinator.cli.habits import translate
from coordinator.cli.parser import Parser, add_broker_options
from coordinator.cli.style import emphasize_error
from coordinator.control.printable import make_printable

STARTED: Final = time.monotonic()  # as near to the start of the process as Python code comes

COMMANDS: Final[Mapping[str, str]] = {
    "serve": "start the server",
    "config": "list the broker's settings, or explain one",
    "topics": "list, describe, create, alter and delete topics",
    "produce": "write lines to a topic",
    "consume": "print the records of a topic",
    "groups": "list and describe groups, reset offsets, remove members, delete groups",
    "offsets": "show, set and delete a group's committed offsets",
    "acls": "list, add and remove ACLs",
    "users": "list, set and delete SCRAM users",
    "quotas": "list, set and unset quotas of clients",
    "configs": "list, set and unset settings of topics, groups and brokers",
    "events": "print why groups rebalanced, and follow it live",
    "why": "print why a group rebalanced, as a timeline",
    "replay": "feed a journal to a node, and compare its responses",
    "log": "dump, verify, repair or compact logs on disk",
    "decode": "print a frame of Kafka's protocol as JSON",
    "pipeline": "turn group logs into tables and a report (Spark)",
    "tls": "make keys and certificates for development",
    "completion": "print a script that completes this command in a shell",
}
BROKER_COMMANDS: Final = frozenset({
    "topics", "produce", "consume", "groups", "offsets", "acls", "users", "quotas", "configs", "events", "why",
})  # fmt: skip
CANNOT_WRITE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
EXAMPLES: Final = """\
muster serve                                   start a server on 127.0.0.1:9092
muster serve --ephemeral --topic orders:4      keep nothing on disk, and create a topic
muster groups describe shop                    members, committed offsets and lag
muster events shop --follow                    why does this group rebalance?
muster config group.max.size                   explain a setting"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a subcommand and return its exit code."""
    prepare_streams()
    words = list(sys.argv[1:] if argv is None else argv)
    is_completing = "_ARGCOMPLETE" in os.environ
    parser = build_parser(COMMANDS if is_completing else words)
    if is_completing:
        import argcomplete  # the shell asks for completions: nobody else pays for the import

        argcomplete.autocomplete(parser)
    try:
        try:
            return _run(parser, words)
        finally:
            sys.stdout.flush()  # also after help, which ends in SystemExit
    except BrokenPipeError:
        discard_output()  # whoever read our output has left
        return 0
    except OSError as error:
        if error.filename is not None or error.errno not in CANNOT_WRITE:
            raise
        discard_output()
        command = next((word for word in words if word in COMMANDS), "")
        return fail(command, f"cannot write to standard output: {error.strerror}")


def _run(parser: Parser, words: Sequence[str]) -> int:
    if not words:
        parser.print_help()
        return 0
    words, beside = _split_command(words)
    words = translate(words)
    given = argparse.Namespace(bootstrap_server=None, command_config=None, timeout=None, json=False, beside=beside)
    args = parser.parse_args(words, given)
    _refuse_useless_options(parser, args)
    try:
        code: int = args.run(args)
    except KeyboardInterrupt:
        return 130
    return code


def _split_command(words: Sequence[str]) -> tuple[Sequence[str], Sequence[str] | None]:
    """Return the words of `muster serve`, and those of the command after `--` that runs beside it, None without one."""
    if "serve" in words[:1] and "--" in words:
        at = words.index("--")
        return words[:at], words[at + 1 :]
    return words, None


def prepare_streams() -> None:
    """Make standard streams that can be used: Python has none in the place of one that is closed.

    A letter that the encoding of standard output lacks is printed as an escape, as it is on standard error.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # the lowest descriptors that are free are those of the streams
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115  # for the whole process
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def discard_output() -> None:
    """Let nothing that is still to be written fail, when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refuse_useless_options(parser: Parser, args: argparse.Namespace) -> None:
    """An option before the command is read by the outermost parser, which does not know what the command needs."""
    if args.bootstrap_server and args.command not in BROKER_COMMANDS:
        parser.error(f"invalid --bootstrap-server: muster {args.command} connects to no broker")
    if args.command_config and args.command not in {*BROKER_COMMANDS, "pipeline"}:
        parser.error(f"invalid --command-config: muster {args.command} connects to no broker")
    if args.timeout and args.command not in BROKER_COMMANDS:
        parser.error(f"invalid --timeout: muster {args.command} waits for no response")


def _command_parser(**kwargs: Any) -> Parser | None:
    """Return the parser of a subcommand, None of one that is only mentioned: to make it takes time."""
    return Parser(**kwargs) if "description" in kwargs else None


def build_parser(commands: Collection[str]) -> Parser:
    """Build the parser of the whole command. Of those that are not in `commands` it has the names alone."""
    parser = Parser(
        prog="muster",
        description="A standalone Kafka group coordinator, and commands that speak to it or to any Kafka.",
        examples=EXAMPLES,
    )
    parser.add_argument("--version", action="version", version=f"muster {__version__}")
    add_broker_options(parser)
    subparsers: Any = parser.add_subparsers(  # type: ignore[call-overload]  # argparse only calls what makes parsers
        dest="command", metavar="COMMAND", required=True, title="commands", parser_class=_command_parser
    )
    for name, summary in COMMANDS.items():
        if name not in commands:
            subparsers.add_parser(name, help=summary)
            continue
        module = load_module(name)
        sub = subparsers.add_parser(
            name,
            help=summary,
            description=module.__doc__,
            examples=getattr(module, "EXAMPLES", None),
        )
        if name in BROKER_COMMANDS:
            add_broker_options(sub)
        module.add_arguments(sub)
        sub.set_defaults(run=module.run)
    return parser


def load_module(command: str) -> ModuleType:
    """Import the module of a subcommand."""
    return importlib.import_module(f"{__name__}.{command}")


def fail(command: str, message: object, code: int = 1) -> int:
    """Print in one line on standard error what went wrong, and return `code`."""
    name = f"muster {command}".rstrip()
    print(f"{emphasize_error(f'{name}:')} {make_printable(str(message))}", file=sys.stderr)
    return code
