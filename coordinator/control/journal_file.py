"""A journal in a file: JSON lines, with whole frames, so that it can be replayed.

    {"muster_journal": 2, "version": "0.1", "latest": 3, "obstacle": "", "origin": {"opened_ms": ..., "seed": 42, ...}}
    {"input": "load", "value": 1700000000000}
    {"number": 1, "at_ms": ..., "frame": "ABIAA...", "response": "AAAA...", "ticket": 1, "connection": 1, ...}
    {"input": "flush", "value": null}

The first line says where the node began. Each further line is a request (bytes are in Base64: the request without its
size, the response with it, null if none was sent) or another input of the node, in the order in which they came. What
the inputs are is in `inputs.py`.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from coordinator import __version__
from coordinator.control.inputs import BARE, VERBS, AdvanceInput, AskInput, Input, Kind, Origin, StepInput, VerbInput
from coordinator.control.journal import Entry, Journal, JournalClient
from coordinator.core.principal import ANONYMOUS, Principal

FORMAT: Final = 2
WITHOUT_CHECKPOINTS: Final = 1
"""The format that does not say which request did a step, and how far: a replay does such requests at once."""


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
    head = _Head(FORMAT, __version__, journal.latest, journal.obstacle, journal.origin)
    encode = msgspec.json.Encoder(order="sorted").encode
    lines = [msgspec.json.encode(head)]
    lines += [encode(_line(item)) for item in journal.everything()]
    return b"\n".join(lines) + b"\n"


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
