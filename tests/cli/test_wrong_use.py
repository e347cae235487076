"""Wrong use of every command and subcommand: one line on standard error, exit code 2, nothing else.

The lines are made of the parsers themselves, so that a new command, option or type is asked as well.
"""

import argparse
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest

from coordinator.cli import BROKER_COMMANDS, COMMANDS, build_parser, main

NOTHING: Final = "no\athing, of the kind"  # neither a number, an address, a name of any list nor hex digits
EXAMPLES: Final = {
    "TOPIC:PARTITION=OFFSET": "t:0=1",
    "FILE": "-",
    "SHELL": "bash",
    "HEX|FILE": "00",
}  # other texts do not do
WRONG: Final = {("produce", "--key-separator"): "", ("pipeline", "--topic"): ""}  # where any other text does
ACCEPTED: Final = {("why", "GROUP")}  # of the arguments with a type: what takes any text
COMPLAINT: Final = re.compile(
    r"muster[ \w-]*: (invalid .+: expected .+|unknown option .+|missing .+|unexpected argument .+|.+ cannot be combined with .+)"
    r"[;?] [Ss]ee muster[ \w-]* --help\n"
)


def parsers(parser: argparse.ArgumentParser, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield each parser below, with the words that lead to it."""
    yield words, parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                yield from parsers(inner, (*words, name))


def needs(action: argparse.Action) -> bool:
    """Return whether a line without the argument is refused; argparse also calls required what may be left out."""
    return action.required and action.nargs not in ("*", "?")


def complete(
    path: Sequence[str], parser: argparse.ArgumentParser, without: argparse.Action | None = None
) -> Sequence[str]:
    """Return a line with an example of everything that is needed, but for one argument."""
    needed = [one for one in parser._actions if needs(one) and one is not without]
    for group in parser._mutually_exclusive_groups:
        needed += [group._group_actions[0]] if group.required and without not in group._group_actions else []
    line = list(path)
    for one in needed:
        line += [*one.option_strings[:1], *([] if one.nargs == 0 else [EXAMPLES.get(str(one.metavar), "x=1")])]
    return line


def wrong_uses(words: tuple[str, ...], parser: argparse.ArgumentParser) -> Iterator[tuple[Sequence[str], str]]:
    """Yield command lines that nobody can mean, and how the complaint about each begins."""
    for nonsense in ("--nonsense", "--nonsense=1", "-z"):
        yield (*words, nonsense), f"unknown option {nonsense.partition('=')[0]}"
    actions = [one for one in parser._actions if not isinstance(one, argparse._HelpAction | argparse._VersionAction)]
    if any(isinstance(one, argparse._SubParsersAction) for one in actions):
        yield (*words, "nonsense"), "invalid "
        yield from [(words, "missing ")] if words else []  # alone, `muster` prints its help
        return
    if any(map(needs, actions)):
        yield words, "missing "
    arguments = [one for one in actions if not one.option_strings]
    if not any(one.nargs in ("*", "+") for one in arguments):
        yield (*complete(words, parser), *["surplus"] * len(arguments), "surplus"), ""
    for one in arguments:
        if (one.type or one.choices) and (words[0], one.metavar) not in ACCEPTED:
            yield (*complete(words, parser, one), NOTHING), "invalid "
    for one in actions:
        line = complete(words, parser, one)
        for name in one.option_strings:
            canonical = one.option_strings[0]
            if one.nargs == 0:
                yield (*line, f"{name}=x"), f"invalid {canonical}: expected no value"
                continue
            if one.nargs not in ("*", "?"):
                yield (*line, name), f"invalid {canonical}: expected a value"
            if one.type or one.choices:
                yield (*line, name, WRONG.get((words[0], canonical), NOTHING)), f"invalid {canonical} "
    for group in parser._mutually_exclusive_groups:
        flags = [one for one in group._group_actions if one.nargs == 0 and one.option_strings]
        for first, second in pairwise(flags):
            line = [*complete(words, parser, first), first.option_strings[0], second.option_strings[0]]
            yield line, f"{second.option_strings[0]} cannot be combined with {first.option_strings[0]}"


PARSERS: Final = dict(parsers(build_parser(COMMANDS)))


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_wrong_use_is_one_line(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    for path, parser in PARSERS.items():
        if path[:1] != ((command,) if command else ()):
            continue
        for words, complaint in wrong_uses(path, parser):
            with pytest.raises(SystemExit) as ended:
                main(words)
            printed = capsys.readouterr()
            assert (ended.value.code, printed.out) == (2, ""), words
            assert COMPLAINT.fullmatch(printed.err), (words, printed.err)
            assert printed.err.partition(": ")[2].startswith(complaint), (words, printed.err)


def test_every_parser_is_asked() -> None:
    asked = [words for path, parser in PARSERS.items() for words, _ in wrong_uses(path, parser)]
    assert len(PARSERS) > 3 * len(COMMANDS) and len(asked) > 10 * len(PARSERS)


LEAVES: Final = [
    path
    for path, parser in PARSERS.items()
    if path[:1] and path[0] in BROKER_COMMANDS and parser._subparsers is None and path[0] not in ("events", "why")
]


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_a_file_of_settings_that_cannot_be_read_is_wrong_use(
    path: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By every command that connects, whatever it does then, and although nothing says which broker."""
    monkeypatch.delenv("MUSTER_BOOTSTRAP", raising=False)
    absent = tmp_path / "absent.properties"
    assert main([*complete(path, PARSERS[path]), "--command-config", str(absent)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == (
        f"muster {path[0]}: invalid --command-config {absent}: cannot read it: No such file or directory\n"
    )
