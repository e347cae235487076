"""Words of Kafka's tools, read as ours: `groups --describe --group shop` is `groups describe shop`. Not a subcommand.

Kafka's tools name the action and what it is about by options; here they are words. A command line that is typed from
habit is understood, and the help shows the words."""

from collections.abc import Mapping, Sequence
from typing import Final

ACTIONS: Final[Mapping[str, frozenset[str]]] = {  # options that name an action, by command
    "topics": frozenset({"list", "describe", "create", "alter", "delete"}),
    "groups": frozenset({"list", "describe", "reset-offsets", "delete"}),
    "acls": frozenset({"list", "add", "remove"}),
}
NAMED: Final[Mapping[tuple[str, str], frozenset[str]]] = {  # options before what is an argument here
    ("topics", ""): frozenset({"--topic"}),
    ("groups", ""): frozenset({"--group"}),
    ("offsets", ""): frozenset({"--group"}),
    ("offsets", "show"): frozenset({"--group", "--topic"}),
    ("produce", ""): frozenset({"--topic"}),
    ("consume", ""): frozenset({"--topic"}),
    ("why", ""): frozenset({"--group"}),
    ("events", ""): frozenset({"--group"}),
}
OTHERS: Final[Mapping[tuple[str, str], Sequence[str]]] = {  # an option of Kafka's tools, and ours
    ("topics", "--config"): ("--set",),
    ("topics", "--delete-config"): ("--unset",),
    ("topics", "--replication-factor"): ("--replicas",),
    ("consume", "--from-beginning"): ("--from", "earliest"),
    ("consume", "--max-messages"): ("--count",),
    ("groups", "--all-groups"): (),
}


def translate(words: Sequence[str]) -> list[str]:
    """Return the words of a command line with those of Kafka's tools replaced."""
    if not words or words[0] not in {command for command, _ in (*NAMED, *OTHERS)} | ACTIONS.keys():
        return list(words)
    command, rest = words[0], list(words[1:])
    rest = _move_action(command, rest)
    action = rest[0] if rest else ""
    named = NAMED.get((command, action)) or NAMED.get((command, ""), frozenset())
    translated = []
    for word in rest:
        option, equals, value = word.partition("=")
        ours = OTHERS.get((command, option))
        if option in named:
            translated += [value] if equals else []
        elif ours is not None:
            translated += [*ours, *([value] if equals else [])]
        else:
            translated.append(word)
    return [command, *translated]


def _move_action(command: str, words: list[str]) -> list[str]:
    """Put an action that is written as an option where the word stands."""
    known = ACTIONS.get(command, frozenset())
    if words and words[0] in known:
        return words
    for at, word in enumerate(words):
        if word.startswith("--") and word[2:] in known:
            return [word[2:], *words[:at], *words[at + 1 :]]
    return words
