"""Words of Kafka's own tools are understood."""

import pytest

from coordinator.cli import build_parser
from coordinator.cli.habits import ACTIONS, NAMED, OTHERS, translate


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("groups --list", "groups list"),
        ("groups --describe --group shop", "groups describe shop"),
        ("groups --describe --all-groups", "groups describe"),
        ("groups --group shop --describe --members", "groups describe shop --members"),
        ("groups describe --group=shop", "groups describe shop"),
        ("groups --reset-offsets --group shop --topic t --to-earliest", "groups reset-offsets shop --topic t --to-earliest"),
        ("topics --create --topic x --partitions 2 --replication-factor 1 --config a=b",
         "topics create x --partitions 2 --replicas 1 --set a=b"),
        ("topics create x --config=a=b", "topics create x --set a=b"),
        ("topics --alter --topic x --delete-config a", "topics alter x --unset a"),
        ("consume --topic t --from-beginning --max-messages 5", "consume t --from earliest --count 5"),
        ("consume t --group g", "consume t --group g"),
        ("produce --topic t", "produce t"),
        ("offsets show --group g --topic t", "offsets show g t"),
        ("why --group g", "why g"),
        ("events --group g --follow", "events g --follow"),
        ("acls --list --topic t", "acls list --topic t"),
        ("acls --add --allow-principal User:a --operation Read --topic t", "acls add --allow-principal User:a --operation Read --topic t"),
        ("serve --topic a:1 --config f", "serve --topic a:1 --config f"),
        ("groups describe --list", "groups describe --list"),
        ("", ""),
    ],
)  # fmt: skip
def test_words_of_kafkas_tools_are_read_as_ours(theirs: str, ours: str) -> None:
    assert translate(theirs.split()) == ours.split()


def test_what_is_translated_is_no_option_of_the_command_itself() -> None:
    """An option that we come to have ourselves would not be reached any more."""
    for command, option in OTHERS:
        assert option not in options_of(command), f"{command} {option}"
    for command, action in NAMED:
        if command not in ACTIONS and command != "offsets":
            assert not NAMED[command, action] & options_of(command)


def options_of(command: str) -> set[str]:
    parser = build_parser([command])
    (subparsers,) = [one for one in parser._actions if one.dest == "command"]
    waiting, found = [subparsers.choices[command]], set()
    while waiting:
        for one in waiting.pop()._actions:
            found |= set(one.option_strings)
            waiting += one.choices.values() if hasattr(one.choices, "values") else []
    return found
