"""Files of properties, as Java reads them.

! a comment, as behind #
name = value
name : value, \\
       which goes on
"""

import re
from pathlib import Path
from typing import Final, NamedTuple

from coordinator.setting import ConfigError

_BLANK: Final = r"[ \t\f]"
_LINE_END: Final = re.compile(r"\r\n|[\r\n]")  # not what else Python takes for one
_PROPERTY: Final = re.compile(rf"((?:[^ \t\f=:\\]|\\.)+){_BLANK}*([=:]?){_BLANK}*(.*)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_BAD_ESCAPE: Final = re.compile(r"(?<!\\)(?:\\\\)*\\u(?![0-9A-Fa-f]{4})")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
_TRIMMED: Final = "".join(map(chr, range(0x21)))


class Property(NamedTuple):
    """The value of a setting, and its line in the file."""

    value: str
    line: int


def read_properties(file: str, given_by: str) -> dict[str, Property]:
    """Read a file in UTF-8. Values are trimmed, as Kafka does, after their escapes are read. Raises ConfigError."""
    try:
        text = Path(file).read_bytes().decode()
    except OSError as error:
        raise ConfigError(f"invalid {given_by} {file}: cannot read it: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"invalid {given_by} {file}: expected properties in UTF-8") from None
    found, logical, start = dict[str, Property](), "", 0
    for number, line in enumerate([*_LINE_END.split(text), ""], 1):  # the last line may end as one that goes on
        stripped = line.lstrip(" \t\f")
        if not logical and stripped[:1] in ("", "#", "!"):
            continue
        start = start if logical else number
        logical += stripped
        if len(logical) - len(logical.rstrip("\\")) & 1:  # the line goes on
            logical = logical[:-1]
            continue
        match = _PROPERTY.fullmatch(logical)
        if match is None or not (match[2] or match[3]):
            raise ConfigError(f"invalid {file}, line {start}: expected NAME=VALUE")
        if _BAD_ESCAPE.search(logical):
            raise ConfigError(f"invalid {file}, line {start}: expected four hexadecimal digits behind \\u")
        found[_unescape(match[1])] = Property(_unescape(match[3]).strip(_TRIMMED), start)
        logical = ""
    return found


def _unescape(text: str) -> str:
    read = _ESCAPE.sub(lambda one: chr(int(one[1], 16)) if one[1] else _ESCAPES.get(one[2], one[2]), text)
    return read.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # two escapes may be one character
