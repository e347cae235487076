"""Kafka's JAAS setting, `sasl.jaas.config`: a login module and its options.

org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";
"""

import re
from typing import Final

_QUOTED: Final = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'"
_OPTION: Final = re.compile(rf"\s+([A-Za-z0-9_.@-]+)\s*=\s*({_QUOTED}|[^\s;\"']+)")
_MODULE: Final = re.compile(rf"\s*[\w.$]+\s+(?:required|requisite|sufficient|optional)((?:{_OPTION.pattern})*)\s*;\s*")
_ESCAPE: Final = re.compile(r"\\(?:([0-3]?[0-7]{1,2})|(.))", re.DOTALL)
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def read_options(text: str) -> dict[str, str]:
    """Return the options of the login module. Raises ValueError, which does not show the text: it holds passwords."""
    match = _MODULE.fullmatch(text)
    if match is None:
        raise ValueError("this is no login module with options")
    return {key: _unquote(value) for key, value in _OPTION.findall(match[1])}


def _unquote(value: str) -> str:
    """Read what is in quotes as Java's StreamTokenizer does, which Kafka reads this setting with."""
    if value[0] not in "\"'":
        return value
    return _ESCAPE.sub(lambda one: chr(int(one[1], 8)) if one[1] else _ESCAPES.get(one[2], one[2]), value[1:-1])
