"""The parser of the command line: one-line errors of one form, help with examples, shared options. Not a subcommand.

Every complaint reads `invalid NAME 'value': expected ...`, and ends with the help to read. A type for `add_argument` is
made by `expect`, so that it says what it expects.
"""

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn, TypeVar

from coordinator.cli.style import emphasize_error, emphasize_headings
from coordinator.control.printable import make_printable

T = TypeVar("T")

SECONDS_MAX: Final = 2_000_000
SECONDS: Final = f"a number of seconds above 0, up to {SECONDS_MAX}"

_ESCAPES: Final = {"\\t": "\t", "\\n": "\n", "\\r": "\r", "\\0": "\0", "\\\\": "\\"}
_CHOICE: Final = re.compile(r"argument (\S+): invalid choice: '?(.*?)'? \(choose from (.*)\)", re.DOTALL)
_MISSING: Final = re.compile(r"the following arguments are required|one of the arguments .* is required")
_OPTION: Final = re.compile(r"-[^\d\s]\S*")
_REWRITES: Final = (
    (re.compile(r"the following arguments are required: (.*)"), r"missing \1"),
    (re.compile(r"one of the arguments (.*) is required"), r"missing one of \1"),
    (re.compile(r"argument (\S+): not allowed with argument (\S+)"), r"\1 cannot be combined with \2"),
    (re.compile(r"argument (\S+): ignored explicit argument .*"), r"invalid \1: expected no value"),
    (re.compile(r"argument (\S+): expected (?:one|at least one) argument"), r"invalid \1: expected a value"),
    (re.compile(r"argument (\S+): (.*)", re.DOTALL), r"invalid \1 \2"),
)


class Parser(argparse.ArgumentParser):
    """An argument parser with one-line errors. `parser` in the result is the innermost parser that read a word."""

    def __init__(self, *, examples: str | None = None, **kwargs: Any) -> None:
        if examples:
            kwargs["epilog"] = "examples:\n" + "\n".join(f"  {line}" for line in examples.splitlines())
        super().__init__(**kwargs, formatter_class=_HelpFormatter, allow_abbrev=False)
        self.set_defaults(parser=self)
        self._is_mixing = False
        self._words: Sequence[str] = ()  # that are being parsed

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]  # argparse has two overloads
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            parsed.parser.error(_describe_unknown_argument(unknown[0], parsed.parser))
        return parsed

    def parse_known_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]  # argparse has two overloads
        """Parse words, of which arguments may stand between options: `create a --partitions 2 b`.

        argparse has this for parsers without subcommands, and forgets there what `--` is for.
        """
        if not self._is_mixing:
            self._words = sys.argv[1:] if args is None else args
        if self._is_mixing or self._subparsers is not None or "--" in (args or ()):
            return super().parse_known_args(args, namespace)
        self._is_mixing = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_mixing = False

    def error(self, message: str) -> NoReturn:
        """Print one line on standard error, and exit with 2."""
        unknown = self._find_unknown_option() if _MISSING.match(message) else ""
        complaint = make_printable(unknown or rewrite(message))
        hint = f" See {self.prog} --help" if complaint.endswith("?") else f"; see {self.prog} --help"
        self.exit(2, f"{emphasize_error(f'{self.prog}:')} {complaint}{hint}\n")

    def _find_unknown_option(self) -> str:
        """Return the complaint about the first option that nobody knows: argparse would rather say what is missing."""
        for word in self._words:
            if word == "--" or (not word.startswith("-") and self._subparsers is not None):
                return ""  # what follows is no option, or that of a subcommand
            if _OPTION.fullmatch(word) and word.partition("=")[0] not in self._option_string_actions:
                return _describe_unknown_argument(word, self)
        return ""

    def print_help(self, file: Any = None) -> None:
        stream = file or sys.stdout
        stream.write(emphasize_headings(self.format_help(), stream))


class _HelpFormatter(argparse.HelpFormatter):
    """Examples keep their lines; everything else is wrapped."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("examples:"):
            return text
        return "\n\n".join(super(_HelpFormatter, self)._fill_text(part, width, indent) for part in text.split("\n\n"))


def rewrite(message: str) -> str:
    """Return a complaint of argparse in the form that all of ours have."""
    if choice := _CHOICE.fullmatch(message):
        name, value, choices = _first_name(choice[1]), choice[2], re.findall(r"[^\s,']+", choice[3])
        return f"invalid {name} {value!r}: expected {list_choices(choices)}" + suggest(value, choices)
    for pattern, form in _REWRITES:
        if found := pattern.fullmatch(message):
            return found.expand(form).replace(found[1], _first_name(found[1]), 1)
    return message


def _first_name(names: str) -> str:
    """`--bootstrap-server` of `--bootstrap-server/--bootstrap`."""
    return names.split("/")[0] if names.startswith("-") else names


def _describe_unknown_argument(word: str, parser: argparse.ArgumentParser) -> str:
    if not word.startswith("-"):
        return f"unexpected argument {word!r}"
    name = word.partition("=")[0]
    return f"unknown option {name}" + suggest(name, parser._option_string_actions)


def list_choices(choices: Sequence[str]) -> str:
    """Write `a or b`, `one of a, b, c`."""
    return " or ".join(choices) if len(choices) <= 2 else f"one of {', '.join(choices)}"


def suggest(word: str, known: Any) -> str:
    """`; did you mean X?` for the nearest of the known words; nothing if none is near."""
    import difflib  # only a mistake needs it

    near = difflib.get_close_matches(word, list(known), n=1)
    return f"; did you mean {near[0]}?" if near else ""


def expect(expected: str, parse: Callable[[str], T]) -> Callable[[str], T]:
    """Return a type for `add_argument`: `parse`, whose ValueError becomes `invalid NAME 'text': expected ...`."""

    def parse_or_complain(text: str) -> T:
        try:
            return parse(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r}: expected {expected}") from None

    return parse_or_complain


def parse_integer(text: str) -> int:
    """Return a whole number as people write it: `int` would take `1_0` and the digits of other scripts. Raises
    ValueError."""
    if not re.fullmatch(r"[+-]?[0-9]+", text):
        raise ValueError(text)
    return int(text)


whole_number: Final = expect("a whole number", parse_integer)


def integer(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return a type for `add_argument`: a whole number within bounds."""

    def parse(text: str) -> int:
        number = parse_integer(text)
        if number < least or (most is not None and number > most):
            raise ValueError(text)
        return number

    return expect(f"a whole number from {least}" + ("" if most is None else f" to {most}"), parse)


def one_of(choices: Sequence[str]) -> dict[str, Any]:
    """Keywords for `add_argument`: one of the choices, in upper or lower case, with or without hyphens in it."""

    def spell(text: str) -> str:
        return re.sub("[-_]", "", text.lower())

    canonical = {spell(choice): choice for choice in choices}
    return {"type": lambda text: canonical.get(spell(text), text), "choices": tuple(choices)}


def name_and_value(expected: str, *, is_exact: bool = False) -> Callable[[str], tuple[str, str]]:
    """Return a type for `add_argument`: the two sides of the first `=`, without blanks around them unless exact."""

    def parse(text: str) -> tuple[str, str]:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise ValueError(text)
        return (name, value) if is_exact else (name.strip(), value.strip())

    return expect(expected, parse)


def read_escapes(text: str) -> str:
    """Return a text in which `\\t`, `\\n`, `\\r`, `\\0` and `\\\\` are one character each."""
    return re.sub(r"\\[tnr0\\]", lambda escape: _ESCAPES[escape[0]], text)


def seconds(text: str) -> float:
    """Return a number of seconds, of which requests can hold the milliseconds. Raises ValueError."""
    number = float(text)
    if not 0 < number <= SECONDS_MAX:
        raise ValueError(text)
    return number


def add_broker_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a command that connects to a broker. They may stand anywhere on the line, so that each level
    of parsers has them: what is not given must not be set, lest an inner level hides what an outer one read."""
    from coordinator.addresses import EXPECTED, parse_addresses

    group = parser.add_argument_group("connection, for commands that speak to a broker")
    group.add_argument(
        "--bootstrap-server",
        "--bootstrap",
        type=expect(EXPECTED, parse_addresses),
        metavar="HOST:PORT,...",
        default=argparse.SUPPRESS,
        help="brokers to try in turn ($MUSTER_BOOTSTRAP, or 127.0.0.1:9092); the port may be left out",
    )
    group.add_argument(
        "--command-config",
        metavar="FILE",
        default=argparse.SUPPRESS,
        help="a file with settings of Kafka's clients for TLS and SASL ($MUSTER_COMMAND_CONFIG)",
    )
    add_timeout_option(group)


def add_timeout_option(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--timeout",
        type=expect(SECONDS, seconds),
        metavar="SECONDS",
        default=argparse.SUPPRESS,
        help="how long to wait for a response (10)",
    )


def add_json_option(parser: argparse.ArgumentParser, help: str = "print JSON instead of tables") -> None:
    parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help=help)


def add_actions(parser: argparse.ArgumentParser) -> "argparse._SubParsersAction[Parser]":
    """Return the subcommands of a subcommand, such as `list` of `muster groups`."""
    return parser.add_subparsers(dest="action", metavar="ACTION", required=True, title="actions", parser_class=Parser)
