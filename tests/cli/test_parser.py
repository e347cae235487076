"""The parser of the command line: addresses, complaints, help, colours, completion."""

import argparse
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.addresses import parse_addresses
from coordinator.cli import COMMANDS, build_parser
from coordinator.cli.parser import Parser, expect, one_of, rewrite
from coordinator.cli.since import Since, parse_since
from coordinator.cli.style import emphasize_headings, paint


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("a", ("a:9092",)),
        ("a:1", ("a:1",)),
        ("a:1, b,c:65535", ("a:1", "b:9092", "c:65535")),
        ("[::1]:5", ("[::1]:5",)),
        ("[::1]", ("[::1]:9092",)),
        ("::1", ("[::1]:9092",)),
        ("127.0.0.1", ("127.0.0.1:9092",)),
    ],
)
def test_addresses_may_leave_their_port_out(text: str, addresses: tuple[str, ...]) -> None:
    assert parse_addresses(text) == addresses
    other = tuple(address.replace(":9092", ":8092") for address in addresses)
    assert parse_addresses(text, 8092) == other


@pytest.mark.parametrize(
    "text",
    [
        "",
        ",",
        "a,",
        "a:",
        "a:0",
        "a:65536",
        "a:x",
        "a b",
        "http://a",
        "[::1",
        "[::1]x",
        "a:1:2",
        "a..b",
        "a:١",
        "[::1]:",
    ],
)
def test_other_addresses_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_addresses(text)


@pytest.mark.parametrize(
    ("argparse_says", "we_say"),
    [
        ("argument --a/-a: expected one argument", "invalid --a: expected a value"),
        ("argument --a: 'x': expected a number", "invalid --a 'x': expected a number"),
        ("argument --a: not allowed with argument --b", "--a cannot be combined with --b"),
        ("argument --a: ignored explicit argument 'x'", "invalid --a: expected no value"),
        (
            "argument X: invalid choice: 'on' (choose from 'one', 'two')",
            "invalid X 'on': expected one or two; did you mean one?",
        ),
        ("argument X: invalid choice: zzz (choose from a, b, c)", "invalid X 'zzz': expected one of a, b, c"),
        ("the following arguments are required: A, B", "missing A, B"),
        ("something new", "something new"),
    ],
)
def test_complaints_of_argparse_get_our_form(argparse_says: str, we_say: str) -> None:
    """With the quotes of Python 3.11, and without them as in later releases."""
    assert rewrite(argparse_says) == we_say


@pytest.mark.parametrize(
    "words",
    [["--timeout", "3", "groups", "list"], ["groups", "--timeout", "3", "list"], ["groups", "list", "--timeout", "3"]],
)
def test_options_of_a_connection_may_stand_anywhere(words: list[str]) -> None:
    args = build_parser(["groups"]).parse_args(
        words, argparse.Namespace(timeout=None, bootstrap_server=None, command_config=None, json=False)
    )
    assert (args.timeout, args.bootstrap_server, args.json) == (3.0, None, False)


def test_a_type_says_what_it_expects(capsys: pytest.CaptureFixture[str]) -> None:
    parser = Parser(prog="x")
    parser.add_argument("--n", type=expect("a whole number", int))
    parser.add_argument("--c", **one_of(("Stable", "Empty")))
    assert parser.parse_args(["--c", "stable"]).c == "Stable"
    with pytest.raises(SystemExit):
        parser.parse_args(["--n", "many"])
    assert capsys.readouterr().err == "x: invalid --n 'many': expected a whole number; see x --help\n"


def test_colours_are_for_terminals_and_not_for_those_who_want_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert paint("x", "1", Terminal()) == "\x1b[1mx\x1b[0m"
    assert paint("x", "1", io.StringIO()) == "x"
    assert emphasize_headings("usage: x\n\noptions:\n  --a  options: b\n", Terminal()).count("\x1b[1m") == 2
    monkeypatch.setenv("NO_COLOR", "1")
    assert paint("x", "1", Terminal()) == "x"
    monkeypatch.setenv("NO_COLOR", "")
    monkeypatch.setenv("TERM", "dumb")
    assert paint("x", "1", Terminal()) == "x"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("muster gro", {"groups "}),
        ("muster groups ", {"list", "describe", "reset-offsets", "remove-members", "delete"}),
        ("muster groups list --state Sta", {"Stable "}),
        ("muster serve --eph", {"--ephemeral "}),
    ],
)
def test_a_shell_completes_commands_options_and_choices(line: str, expected: set[str], tmp_path: Path) -> None:
    """As the script of argcomplete asks: the line in the environment, the words in a file."""
    environment = os.environ | {
        "_ARGCOMPLETE": "1", "_ARGCOMPLETE_STDOUT_FILENAME": str(tmp_path / "words"), "_ARGCOMPLETE_IFS": "\n",
        "COMP_LINE": line, "COMP_POINT": str(len(line)), "_ARGCOMPLETE_SHELL": "bash",
    }  # fmt: skip
    subprocess.run([sys.executable, "-m", "coordinator"], env=environment, timeout=60, check=False)
    assert expected <= set((tmp_path / "words").read_text().split("\n"))


def test_only_the_modules_of_the_commands_that_are_named_are_imported() -> None:
    program = "import sys, coordinator.cli as c; c.build_parser(['config']); print('trio' in sys.modules, 'protocol' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False False\n"
    assert len(COMMANDS) > 10


@pytest.mark.parametrize(
    ("text", "since"),
    [
        ("beginning", Since()), ("0", Since(offset=0)), ("70", Since(offset=70)), ("90s", Since(90_000)),
        ("15m", Since(900_000)), ("2h", Since(7_200_000)), ("3d", Since(259_200_000)),
        *((text, None) for text in ("", "now", "-1", "1w", "1.5h", "h", "1 h", "٣", "1234567890s")),
    ],
)  # fmt: skip
def test_how_far_back_a_command_looks(text: str, since: Since | None) -> None:
    if since is None:
        with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
            parse_since(text)
    else:
        assert parse_since(text) == since


def inner_parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.values()


def hiding_options(parser: argparse.ArgumentParser, outer: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield the options that an inner parser sets although they are not given: what stood before it would be lost."""
    own = {action.dest: action for action in parser._actions if action.option_strings and action.nargs != 0}
    for name in own.keys() & outer:
        if own[name].default is not argparse.SUPPRESS:
            yield f"{parser.prog}: {name}"
    for inner in inner_parsers(parser):
        yield from hiding_options(inner, outer | own.keys())


def test_an_option_that_stands_before_a_command_is_not_lost_in_any() -> None:
    assert not list(hiding_options(build_parser(COMMANDS)))


@pytest.mark.parametrize("at", range(3))
def test_the_options_of_a_connection_may_stand_anywhere(at: int) -> None:
    words = ["groups", "list"]
    words[at:at] = ["--command-config", "FILE", "--timeout", "7", "--bootstrap", "a"]
    given = build_parser(COMMANDS).parse_args(words)
    assert (given.command_config, given.timeout, given.bootstrap_server) == ("FILE", 7, ("a:9092",))


INT32, INT64 = 2**31 - 1, 2**63 - 1
NUMBERS = {
    ("offsets", "set", "g", "t:{}=0"): (0, INT32),
    ("offsets", "set", "g", "t:0={}"): (0, INT64),
    ("topics", "create", "t", "--partitions", "{}"): (1, INT32),
    ("topics", "create", "t", "--replicas", "{}"): (1, 2**15 - 1),
    ("topics", "alter", "t", "--partitions", "{}"): (1, INT32),
}


@pytest.mark.parametrize("words", NUMBERS, ids=" ".join)
def test_a_number_is_taken_up_to_the_limits_of_its_field_in_kafkas_protocol(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    for number in NUMBERS[words]:
        build_parser(COMMANDS).parse_args([word.format(number) for word in words])
    for number in (NUMBERS[words][0] - 1, NUMBERS[words][1] + 1):
        with pytest.raises(SystemExit):
            build_parser(COMMANDS).parse_args([word.format(number) for word in words])
        assert str(number) in capsys.readouterr().err
