"""The plain way: construct's own reading and writing, with its errors made `ProtocolError`.

Slow, and exact: it knows which field it is at. The fast codec comes here to say what was wrong, the tests to say what
is right.
"""

from __future__ import annotations

from typing import Any

from construct import Construct, ConstructError

from protocol.constructs import Reader, dotted
from protocol.errors import ProtocolError


def parse(root: Construct, data: bytes) -> Any:
    """The value that `data` begins with; what is behind it is not looked at."""
    reader = Reader(data)
    try:
        return root.parse_stream(reader)
    except ConstructError as error:
        raise ProtocolError(_reason(error), path=dotted(error.path), offset=reader.position) from None


def build(root: Construct, value: Any) -> bytes:
    """The bytes of `value`. Raises `ProtocolError` where a field's value has no bytes."""
    try:
        data: bytes = root.build(value)
    except ConstructError as error:
        raise ProtocolError(_reason(error), path=dotted(error.path)) from None
    return data


def _reason(error: ConstructError) -> str:
    """The error's sentence without construct's own line about the path."""
    return str(error).rsplit("\n", 1)[-1]
