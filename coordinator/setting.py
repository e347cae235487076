"""One setting: its type and bounds, how its value is read, and the error about a value that it cannot have."""

import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1

Value = int | float | bool | str | tuple[str, ...]

_IN_WORDS: Final[Mapping[type, str]] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a word",
    tuple: "a list of words, split by commas",
}
NUMBERS: Final[Mapping[type, re.Pattern[str]]] = {
    int: re.compile(r"[+-]?[0-9]+"),
    float: re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"),
}


class ConfigError(Exception):
    """A setting that cannot be used. The message is one line: `invalid NAME VALUE (SOURCE): expected ...`."""


class Setting(Struct, frozen=True):
    """One setting of the broker, by Kafka's name."""

    name: str
    default: Value
    unit: str
    sentence: str
    least: int | None = None
    most: int | None = None
    choices: tuple[str, ...] = ()
    kafka_default: Value | None = None  # where ours is another
    why: str = ""  # ... and why it is
    is_per_listener: bool = False  # `listener.name.NAME.` before it gives a listener a value of its own
    is_secret: bool = False  # its value is shown to nobody
    hint: str = ""  # what helps somebody who has another value

    @property
    def kind(self) -> type:
        """int, float, bool, str or tuple: the default's."""
        return type(self.default)

    @property
    def may_be(self) -> str:
        """The values that the setting accepts, in words."""
        if self.choices:
            few = "one of" if self.kind is str else "any of"
            return f"{few} {', '.join(choice or 'nothing' for choice in self.choices)}"
        if self.least is None:
            return _IN_WORDS[self.kind]
        most = "" if self.most is None else f" to {self.most}"
        return f"{_IN_WORDS[self.kind]} from {self.least}{most}"

    def parse(self, text: str, source: str = "") -> Value:
        """Read a value from text. Raises ConfigError."""
        text = text.strip()
        try:
            if self.kind is bool:
                return {"true": True, "false": False}[text.lower()]
            if self.kind is tuple:
                return self.check(tuple(word.strip() for word in text.split(",") if word.strip()), source)
            if self.kind in NUMBERS and not NUMBERS[self.kind].fullmatch(text):
                raise self.complaint(text, source)  # Python would take "1_000", "nan" and the digits of other scripts
            return self.check(self.kind(text), source)
        except (ValueError, KeyError):
            raise self.complaint(text, source) from None

    def check(self, value: object, source: str = "") -> Value:
        """Return `value` if it is of the right type and within the bounds. Raises ConfigError."""
        if self.kind is float and type(value) is int:
            value = float(value)
        if isinstance(value, bool) and format_value(value) in self.choices:
            value = format_value(value)  # TOML's true, for a choice of that name
        if type(value) is not self.kind:
            raise self.complaint(value, source)
        if isinstance(value, tuple) and not all(isinstance(word, str) for word in value):
            raise self.complaint(value, source)
        if self.choices and isinstance(value, tuple):
            return tuple(self._canonical(word, source) for word in value)
        if self.choices:
            return self._canonical(value, source)
        if isinstance(value, int | float) and self.least is not None:
            if not self.least <= value <= (value if self.most is None else self.most):
                raise self.complaint(value, source)
        assert isinstance(value, int | float | bool | str | tuple)
        return value

    def _canonical(self, value: object, source: str) -> str:
        """Return the choice that `value` names, in upper or lower case."""
        for choice in self.choices:
            if choice.lower() == str(value).lower():
                return choice
        raise self.complaint(value, source)

    def complaint(self, value: object, source: str = "") -> ConfigError:
        """Return the error about a value that the setting cannot have."""
        return complain(self.name, value, source, f"{self.may_be}{self.hint and f'; {self.hint}'}")


def complain(name: str, value: object, source: str, expected: str) -> ConfigError:
    """Return the error about a value that a setting or an option cannot have; `source` is empty for its default."""
    shown = str(value).lower() if isinstance(value, bool) else repr(list(value) if isinstance(value, tuple) else value)
    return ConfigError(f"invalid {name} {shown}{f' ({source})' if source else ''}: expected {expected}")


def format_value(value: Value) -> str:
    """Write a value as Kafka's tools print it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)
