"""Kafka's JAAS setting, `sasl.jaas.config`: a login module and its options.

org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="secret";
"""

import re
from typing import Final

_OPTION: Final = re.compile(r"\s+([A-Za-z0-9_.@-]+)\s*=\s*(\"(?:[^\"\\]|\\.)*\"|[^\s;\"]+)")
_MODULE: Final = re.compile(rf"\s*[\w.$]+\s+(?:required|requisite|sufficient|optional)((?:{_OPTION.pattern})*)\s*;\s*")


def read_options(text: str) -> dict[str, str]:
    """Return the options of the login module. Raises ValueError, which does not show the text: it holds passwords."""
    match = _MODULE.fullmatch(text)
    if match is None:
        raise ValueError("this is no login module with options")
    return {key: _unquote(value) for key, value in _OPTION.findall(match[1])}


def _unquote(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value
