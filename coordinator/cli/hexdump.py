"""Bytes out of text: hex digits, and the hex dumps of Wireshark, tcpdump and xxd. Not a subcommand.

Wireshark      0000   00 00 00 17 00 12 00 03  00 00 00 01 00 04 74 65   ..............te
tcpdump -X     0x0000:  0000 0017 0012 0003 0000 0001 0004 7465  ..............te
xxd            00000000: 0000 0017 0012 0003 0000 0001 0004 7465  ..............te
Wireshark's escaped string   "\\x00\\x00\\x00\\x17"
"""

import re
from typing import Final

_OFFSET: Final = re.compile(r"(?:0x)?([0-9A-Fa-f]{4,8})(?::|\s{2,}|\t)\s*(?=[0-9A-Fa-f]{2})")
_GROUPS: Final = re.compile(r"(?:[0-9A-Fa-f]{2}){1,2}(?:[ ]{1,2}(?:[0-9A-Fa-f]{2}){1,2}(?![^\s]))*")
_ESCAPES: Final = re.compile(r"""(?:["'\s]|\\\s)*((?:\\x[0-9A-Fa-f]{2})+)(?:["'\s]|\\\s)*""")
LINE_BYTES_MAX: Final = 16


def read_hex(text: str) -> bytes | None:
    """Return the bytes that the text stands for; None if it is neither hex digits nor a hex dump."""
    return _read_dump(text) if _OFFSET.match(text.strip()) else _read_digits(text)


def _read_digits(text: str) -> bytes | None:
    """`00 0c`, `00:0c`, `0x000C`, `\\x00\\x0c`, over several lines too."""
    if text.strip() and not _ESCAPES.sub("", text):
        text = "".join(_ESCAPES.findall(text)).replace("\\x", "")
    try:
        return bytes.fromhex(re.sub(r"[:\s]+", "", text.strip().removeprefix("0x")))
    except ValueError:
        return None


def _read_dump(text: str) -> bytes | None:
    """Return the bytes of a dump. Each line's offset must be where the line before it ended: it tells how far the
    columns of hex digits reach where the column of characters looks like more of them."""
    found = bytearray()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    offsets = [_OFFSET.match(line) for line in lines]
    starts = [int(match[1], 16) for match in offsets if match]
    if len(starts) != len(lines):
        return None
    for line, match, at, following in zip(lines, offsets, starts, [*starts[1:], None], strict=True):
        assert match is not None, "every line has an offset"
        digits = _GROUPS.match(line, match.end())
        if digits is None or at != starts[0] + len(found):
            return None
        size = LINE_BYTES_MAX if following is None else following - at
        found += bytes.fromhex(digits[0].replace(" ", ""))[:size]
    return bytes(found)
