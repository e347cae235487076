r"""The name of a principal, made of the name in a client's certificate by `ssl.principal.mapping.rules` (KIP-371).

    RULE:^CN=(.*?),OU=Staff.*$/$1/L, DEFAULT
         pattern               replacement, then L or U for lower or upper case

The first rule whose pattern matches the whole name counts; DEFAULT takes the name as it is. A `/` in a pattern or a
replacement is written `\/`. Kafka: `SslPrincipalMapper`, with Java's replacements (`Matcher.appendReplacement`).
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from coordinator.core.regex import compile_pattern

NAME_CHARACTERS_MAX: Final = 1_024
"""The longest name that rules are applied to: a pattern costs at most some milliseconds for it."""

_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|.*?"
_SPLIT: Final = re.compile(rf"\s*({_RULE})\s*(?:,\s*|$)", re.ASCII)
_PARSE: Final = re.compile(_RULE)
_CASES: Final[dict[str, Callable[[str], str]]] = {"L": str.lower, "U": str.upper, "": str}

Rule = Callable[[str], str | None]
"""Makes a principal's name of a certificate's, None if the rule does not apply."""


class NoRuleError(Exception):
    """No rule applies to a name."""


class MappingRules:
    """The rules of a listener."""

    def __init__(self, text: str) -> None:
        """Read the rules. Raises ValueError, whose message says what is wrong with which of them."""
        self._rules = tuple(_read_rules(text))

    def apply(self, name: str) -> str:
        """Return the principal's name for the name in a certificate. Raises NoRuleError."""
        for rule in self._rules:
            if (found := rule(name)) is not None:
                return found
        raise NoRuleError("no rule of ssl.principal.mapping.rules applies to the name in its certificate")


def _read_rules(text: str) -> Iterator[Rule]:
    for split in _SPLIT.finditer(text.strip()):
        word = split[1]
        match = _PARSE.match(word)
        assert match is not None, "the last alternative matches everything"
        if match.end() != len(word):
            raise ValueError(f"{word!r} is none")
        if match[1]:
            yield str
        elif match[2] is not None:  # else it is empty, and ignored
            try:
                yield _Substitution(match[2], match[3], match[4])
            except ValueError as error:
                raise ValueError(f"{word!r}: {error}") from None


class _Substitution:
    """A rule with a pattern."""

    def __init__(self, pattern: str, replacement: str, case: str) -> None:
        self._pattern = compile_pattern(pattern)
        self._pieces = tuple(_read_replacement(replacement, self._pattern.groups, self._pattern.groupindex))
        self._case = _CASES[case]

    def __call__(self, name: str) -> str | None:
        if len(name) > NAME_CHARACTERS_MAX:
            raise NoRuleError(f"the name in its certificate has more than {NAME_CHARACTERS_MAX} characters")
        return self._case(self._replace_all(name)) if self._pattern.fullmatch(name) else None

    def _replace_all(self, name: str) -> str:
        """Replace all that the pattern finds, as Java does: behind a match that ends the name, an empty one too."""
        made, at, copied = list[str](), 0, 0
        while at <= len(name) and (match := self._pattern.search(name, at)) is not None:
            start, end = match.span()
            made += (name[copied:start], *self._expand(match))
            copied, at = end, end + (start == end)
        return "".join((*made, name[copied:]))

    def _expand(self, match: Any) -> Iterator[str]:
        for piece in self._pieces:
            yield piece if isinstance(piece, str) else match.group(piece) or ""


def _read_replacement(text: str, groups: int, names: dict[str, int]) -> Iterator[str | int]:
    r"""Yield texts, and numbers of groups: `$1`, `${name}`. A `\` takes the meaning from the next character.

    As in Kafka, a reference to a group that there is not stands for itself, if there is any group.
    """
    at = 0
    while at < len(text):
        character, at = text[at], at + 1
        if character == "\\":
            if at == len(text):
                raise ValueError("the replacement ends with a single backslash")
            yield text[at]
            at += 1
        elif character != "$":
            yield character
        elif named := re.compile(r"\{([A-Za-z][A-Za-z0-9]*)\}").match(text, at):
            if named[1] not in names:
                raise ValueError(f"there is no group {named[1]!r}")
            yield names[named[1]]
            at = named.end()
        elif at < len(text) and text[at] in "0123456789":
            number, end = int(text[at]), at + 1
            while end < len(text) and text[end] in "0123456789" and number * 10 + int(text[end]) <= groups:
                number, end = number * 10 + int(text[end]), end + 1
            if number > groups and not groups:
                raise ValueError(f"there is no group {number}")
            yield number if number <= groups else "$" + text[at:end]
            at = end
        else:
            raise ValueError("'$' is not followed by a number or a name in braces")
