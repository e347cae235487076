"""The plain way: construct's own reading and writing, with its errors made `ProtocolError`.

Slow, and exact: it knows which field it is at. The fast codec comes here to say what was wrong, the tests to say what
is right.
"""

from __future__ import annotations

from typing import Any

from construct import Construct, ConstructError

from protocol.constructs import Reader, format_path
from protocol.errors import ProtocolError


def parse(root: Construct, data: bytes) -> Any:
    """Read the value at the start of `data`; bytes after it are ignored."""
    return parse_prefix(root, data)[0]


def parse_prefix(root: Construct, data: bytes) -> tuple[Any, int]:
    """Read the value at the start of `data`. Returns the value and its size in bytes."""
    reader = Reader(data)
    try:
        return root.parse_stream(reader), reader.position
    except ConstructError as error:
        raise ProtocolError(_reason(error), path=_path(error), offset=reader.position) from None


def build(root: Construct, value: Any) -> bytes:
    """Return the bytes of `value`. Raises `ProtocolError` where a field's value has no bytes."""
    try:
        data: bytes = root.build(value)
    except ConstructError as error:
        raise ProtocolError(_reason(error), path=_path(error)) from None
    return data


def _path(error: ConstructError) -> str:
    """Return the field's path. The header's fields and the message's stand side by side, as in Kafka's documents."""
    return format_path(error.path).removeprefix("body.")


def _reason(error: ConstructError) -> str:
    """Return the error's sentence, without construct's own line about the path."""
    sentence = str(error).rsplit("\n", 1)[-1]
    return sentence.replace("stream read less than specified amount", "the frame ends early")
