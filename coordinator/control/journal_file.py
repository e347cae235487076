"""A journal in a file: JSON lines, with whole frames, so that it can be replayed.

    {"muster_journal": 2, "version": "0.1", "latest": 3, "obstacle": "", "origin": {"opened_ms": ..., "seed": 42, ...}}
    {"input": "load", "value": 1700000000000}
    {"number": 1, "at_ms": ..., "frame": "ABIAA...", "response": "AAAA...", "ticket": 1, "connection": 1, ...}
    {"input": "flush", "value": null}

The first line says where the node began. Each further line is a request (bytes are in Base64: the request without its
size, the response with it, null if none was sent) or another input of the node, in the order in which they came. What
the inputs are is in `inputs.py`.
"""

from binascii import b2a_base64
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from coordinator import __version__
from coordinator.control.inputs import BARE, VERBS, AdvanceInput, AskInput, Input, Kind, Origin, StepInput, VerbInput
from coordinator.control.journal import Entry, Journal, JournalClient
from coordinator.core.principal import ANONYMOUS, Principal

FORMAT: Final = 2
PIECE_BYTES: Final = 256 * 1024
PART_BYTES: Final = 3 * 64 * 1024  # of a long frame; Base64 takes three bytes at a time
WITHOUT_CHECKPOINTS: Final = 1
"""The format that does not say which request did a step, and how far: a replay does such requests at once."""


_encode: Final = msgspec.json.Encoder(order="sorted").encode


class JournalError(Exception):
    """A file that is no journal, or a journal that cannot be replayed. The text says why, and where."""


class _Head(Struct, frozen=True):
    muster_journal: int
    version: str
    latest: int
    obstacle: str
    origin: Origin | None = None


class _RequestLine(Struct, frozen=True):
    number: int
    at_ms: int
    frame: bytes
    response: bytes | None
    ticket: int
    connection: int
    host: str
    port: int
    listener: str
    answered_ms: int = -1
    fault: str = ""
    is_decided: bool = True
    principal: Principal = ANONYMOUS
    broker: int = 0


class _InputLine(Struct, frozen=True):
    input: Kind
    value: Any


class Recording(Struct, frozen=True):
    """A journal that was read from a file."""

    origin: Origin
    items: list[Entry | Input]
    format: int = FORMAT


def write_journal(journal: Journal) -> bytes:
    """Return the file of a journal, the same bytes for the same journal."""
    return b"".join(write_in_pieces(journal))


def write_in_pieces(journal: Journal) -> Iterator[bytes]:
    """Return the file of the journal of this moment in pieces of about `PIECE_BYTES`, each made as it is taken."""
    head = _Head(FORMAT, __version__, journal.latest, journal.obstacle, journal.origin)
    return _join(msgspec.json.encode(head) + b"\n", journal.everything())


def _join(head: bytes, items: Iterable[Entry | Input]) -> Iterator[bytes]:
    gathered, size = [head], len(head)
    for item in items:
        for part in _write_line(_line(item)):
            gathered.append(part)
            size += len(part)
            if size >= PIECE_BYTES:
                yield b"".join(gathered)
                gathered, size = [], 0
    yield b"".join(gathered)


def _write_line(line: _RequestLine | _InputLine) -> Iterator[bytes]:
    """Yield a line, in several parts if its frames are long: nothing as long as they are is made beside them."""
    if isinstance(line, _InputLine) or len(line.frame) + len(line.response or b"") < PIECE_BYTES:
        yield _encode(line) + b"\n"
        return
    rest = _encode(replace(line, frame=b"", response=line.response and b""))
    for name, data in (("frame", line.frame), ("response", line.response)):  # in the order of their names
        if data:
            before, mark, rest = rest.partition(f'"{name}":"'.encode())  # quotes within values are escaped
            yield before + mark
            for at in range(0, len(data), PART_BYTES):
                yield b2a_base64(data[at : at + PART_BYTES], newline=False)
    yield rest + b"\n"


def _line(item: Entry | Input) -> _RequestLine | _InputLine:
    if isinstance(item, Input):
        return _InputLine(item.kind, item.value)
    client = item.client
    return _RequestLine(
        item.number, item.at_ms, item.frame, item.response, item.ticket,
        client.connection, client.host, client.port, client.listener,
        item.answered_ms, item.fault, item.is_decided, client.principal, client.broker,
    )  # fmt: skip


def read_journal(data: bytes) -> Recording:
    """Read the file of a journal that can be replayed. Raises JournalError."""
    first, *lines = data.splitlines() or [b""]
    try:
        head = msgspec.json.decode(first, type=_Head)
    except msgspec.DecodeError as error:
        raise JournalError(f"invalid line 1: expected the head of a journal of Muster: {error}") from None
    if head.muster_journal not in (WITHOUT_CHECKPOINTS, FORMAT):
        raise JournalError(f"invalid format {head.muster_journal}: expected {FORMAT}")
    if head.origin is None:
        raise JournalError(f"the journal cannot be replayed: {head.obstacle}")
    items: list[Entry | Input] = []
    latest = 0
    for number, line in enumerate(lines, 2):
        try:
            item = _item(line, latest)
        except (msgspec.DecodeError, KeyError, TypeError) as error:
            raise JournalError(f"invalid line {number}: {error}") from None
        latest = item.number if isinstance(item, Entry) else latest
        items.append(item)
    return Recording(head.origin, items, head.muster_journal)


def _item(line: bytes, latest: int) -> Entry | Input:
    if b'"input"' not in line[:16]:
        one = msgspec.json.decode(line, type=_RequestLine)
        client = JournalClient(one.host, one.port, one.connection, one.listener, one.principal, one.broker)
        return Entry(
            one.number, one.at_ms, client, one.frame, one.ticket, one.response, one.answered_ms,
            is_decided=one.is_decided, fault=one.fault,
        )  # fmt: skip
    other = msgspec.json.decode(line, type=_InputLine)
    if other.input in _VALUES:
        return Input(latest, other.input, _VALUES[other.input](other.value))
    if type(other.value) is not (type(None) if other.input in BARE else int):
        raise TypeError(f"invalid value of {other.input}: expected {'null' if other.input in BARE else 'a number'}")
    return Input(latest, other.input, other.value)


def _verb(value: Mapping[str, Any]) -> VerbInput:
    name = value["name"]
    fields = msgspec.json.decode(msgspec.json.encode(value["fields"]), type=VERBS[name])
    return VerbInput(name, fields, value["now_ms"])


_VALUES: Final[Mapping[Kind, Any]] = {
    Kind.STEP: lambda value: None if value is None else msgspec.convert(value, StepInput),
    Kind.VERB: _verb,
    Kind.ASK: lambda value: msgspec.convert(value, AskInput),
    Kind.ADVANCE: lambda value: msgspec.convert(value, AdvanceInput),
}
