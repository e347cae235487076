"""The journal: the last requests and responses, as the bytes that were on the wire, bounded by their bytes.

To note a request costs two references: the frames exist anyway. They are decoded only to be shown.

As long as nothing has been dropped since the node was opened, the journal keeps the node's other inputs as well
(`inputs.py`), so that it can be replayed.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from coordinator.control.inputs import INPUT_BYTES, Input, Kind, Origin
from coordinator.control.subject import Subject, TopicNames, subject_of
from coordinator.core.principal import ANONYMOUS, Principal
from protocol.apis import APIS
from protocol.codec import decode_request, decode_response
from protocol.error_codes import error_counter
from protocol.errors import ErrorCode, ProtocolError
from protocol.rows import Rows

BYTES_MAX: Final = 16 * 1024 * 1024  # of frames, by default
ENTRY_BYTES: Final = 400  # what an entry costs beside its frames

_CODES: Final = {int(code): code.name for code in ErrorCode}


class JournalClient(Struct, frozen=True):
    """A client's connection, as all of its requests share it."""

    host: str  # `/127.0.0.1`
    port: int
    connection: int  # a number for the connection, counted from 1
    listener: str = ""  # the name of the one that it came by
    principal: Principal = ANONYMOUS
    broker: int = 0  # the one that is asked


class Entry(Struct, gc=False):
    """A request, and its response once there is one."""

    number: int  # the first request since the start is 1
    at_ms: int  # the coordinator's clock when the request was decided
    client: JournalClient
    frame: bytes  # the request, without its size
    ticket: int = 0  # under which it is parked, if it has to wait
    response: bytes | None = None  # with its size; None while the request is parked, and for ever if none is sent
    answered_ms: int = -1
    ends_turn: bool = False  # whether the node was flushed right after it
    is_decided: bool = True  # whether the node was given it: a fault may have held it or dropped it
    fault: str = ""  # what a fault did to it
    answer: int = 0  # the number of its response, counted from 1 since the journal is on

    @property
    def api_key(self) -> int:
        return int.from_bytes(self.frame[:2], "big", signed=True)

    @property
    def version(self) -> int:
        return int.from_bytes(self.frame[2:4], "big", signed=True)

    @property
    def correlation_id(self) -> int:
        return int.from_bytes(self.frame[4:8], "big", signed=True)

    @property
    def size(self) -> int:
        """The bytes that the entry costs."""
        return ENTRY_BYTES + len(self.frame) + len(self.response or b"")


class Filter(Struct, frozen=True):
    """A choice of entries. An empty field accepts every entry."""

    api: str = ""
    group: str = ""
    topic: str = ""
    client: str = ""  # a client id, a member id or a group instance id
    after: int = 0  # entries with a higher number

    def accepts(self, subject: Subject) -> bool:
        return (
            self.api in ("", subject.api)
            and (not self.group or self.group in subject.groups)
            and (not self.topic or self.topic in subject.topics)
            and (not self.client or self.client in (subject.client_id, *subject.members, *subject.instances))
        )


class Journal:
    """A ring of entries. The oldest are dropped when the bytes exceed the bound."""

    def __init__(self, bytes_max: int = BYTES_MAX, latest: int = 0) -> None:
        """`latest`: the number of the latest entry of the journal of before, from which the numbers continue."""
        self.bytes_max = bytes_max
        self.bytes = 0
        self.latest = latest  # the number of the latest entry
        self.answers = 0  # how many responses were noted
        self.origin: Origin | None = None  # of the node, if the journal has everything since then
        self.inputs: list[Input] = []  # since the origin
        self.obstacle = "the journal was turned on later than the server: reset it, or set journal.max.bytes at start"
        self._entries: deque[Entry] = deque()
        self._flushed_latest = self._flushed_inputs = 0  # how many entries and inputs there were at the latest flush

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def dropped(self) -> int:
        """The number of the latest entry that is not kept any more, 0 if there is none."""
        return self.latest - len(self._entries)

    def note_request(self, at_ms: int, client: JournalClient, frame: bytes, ticket: int = 0) -> Entry:
        """Add a request."""
        self.latest = number = self.latest + 1
        entry = Entry(number, at_ms, client, frame, ticket)
        self._entries.append(entry)
        self.bytes += ENTRY_BYTES + len(frame)
        if self.bytes > self.bytes_max:
            self._drop()
        return entry

    def note_response(self, entry: Entry, response: bytes, at_ms: int) -> None:
        """Add the response to a request's entry."""
        self.answers += 1
        entry.response, entry.answered_ms, entry.answer = response, at_ms, self.answers
        at, entries = entry.number - self.dropped - 1, self._entries
        if 0 <= at < len(entries) and entries[at] is entry:  # else it is dropped, or of the journal of before
            self.bytes += len(response)
            if self.bytes > self.bytes_max:
                self._drop()

    def clear(self) -> None:
        """Remove every entry. The numbers continue."""
        self._entries.clear()
        self.inputs = []
        self._flushed_latest, self._flushed_inputs = self.latest, 0
        self.bytes = 0
        self.origin = None

    # -- for a replay --------------------------------------------------------------------------------------------------

    def begin(self, origin: Origin) -> None:
        """Begin anew with a node that was opened just now: forget every entry, and keep its inputs from now on."""
        self.clear()
        self.obstacle = origin.obstacle
        self.origin = None if self.obstacle else origin

    def note_input(self, kind: Kind, value: Any) -> None:
        """Add an input of the node, as long as the journal can be replayed."""
        if self.origin is None:
            return
        if kind is Kind.FLUSH:
            inputs = len(self.inputs)
            if inputs == self._flushed_inputs:
                if self.latest != self._flushed_latest and self._entries:
                    self._entries[-1].ends_turn = True  # as most turns end: it saves an input of its own
                    self._flushed_latest = self.latest
                return  # else nothing was decided in this turn
            self._flushed_inputs, self._flushed_latest = inputs + 1, self.latest
        self.inputs.append(Input(self.latest, kind, value))
        self.bytes += INPUT_BYTES
        if self.bytes > self.bytes_max:
            self._drop()

    def everything(self) -> Iterator[Entry | Input]:
        """Return the entries and the inputs of this moment in their order, however long the caller takes over them."""
        entries = list(self._entries)
        return self._merge(entries, list(self.inputs), self.answers, bool(entries) and entries[-1].ends_turn)

    @staticmethod
    def _merge(entries: list[Entry], noted: list[Input], answers: int, ends_turn: bool) -> Iterator[Entry | Input]:
        """Merge entries and inputs, without what entries have got meanwhile: a response, the end of the turn."""
        inputs = iter(noted)
        waiting = next(inputs, None)
        for entry in entries:
            while waiting is not None and waiting.after < entry.number:
                yield waiting
                waiting = next(inputs, None)
            yield entry if entry.answer <= answers else replace(entry, response=None, answered_ms=-1)
            if entry.ends_turn and (ends_turn or entry is not entries[-1]):
                yield Input(entry.number, Kind.FLUSH, None)
        while waiting is not None:
            yield waiting
            waiting = next(inputs, None)

    # -- to be shown ---------------------------------------------------------------------------------------------------

    def entries(self, wanted: Filter, name_of: TopicNames = lambda _: None) -> Iterator[tuple[Entry, Subject]]:
        """Yield those of the entries of this moment that a filter accepts, oldest first. Another thread may do it."""
        return self._filter(self.after(wanted.after), wanted, name_of)

    @staticmethod
    def _filter(entries: Iterable[Entry], wanted: Filter, name_of: TopicNames) -> Iterator[tuple[Entry, Subject]]:
        for entry in entries:
            if wanted.api not in ("", APIS[entry.api_key].name):
                continue  # it need not be decoded
            subject = subject_of_entry(entry, name_of)
            if wanted.accepts(subject):
                yield entry, subject

    def after(self, number: int) -> list[Entry]:
        """Return the entries of this moment with higher numbers, oldest first."""
        begin = min(max(0, number - self.dropped), len(self._entries))  # islice takes no number of any size
        return list(islice(self._entries, begin, None))

    def _drop(self) -> None:
        """Drop the oldest entries, as there are too many bytes."""
        entries = self._entries
        if self.origin is not None and (len(entries) > 1 or INPUT_BYTES * len(self.inputs) > self.bytes_max):
            self._give_up()
        while self.bytes > self.bytes_max and len(entries) > 1:
            self.bytes -= entries.popleft().size

    def _give_up(self) -> None:
        """Note that the journal cannot be replayed any more, because its first requests or inputs are dropped."""
        self.origin = None
        self.obstacle = f"its first requests are gone: a larger journal.max.bytes than {self.bytes_max} keeps more"
        self.bytes -= INPUT_BYTES * len(self.inputs)
        self.inputs = []


def subject_of_entry(entry: Entry, name_of: TopicNames = lambda _: None) -> Subject:
    """Return the subject of an entry's request."""
    request = decode_request(entry.frame)
    return subject_of(APIS[request.api_key].name, request.client_id, request.body, name_of)


def describe_request(entry: Entry, name_of: TopicNames = lambda _: None) -> tuple[Subject, dict[str, Any]]:
    """Return the subject of an entry's request, and its decoded body, ready for JSON."""
    request = decode_request(entry.frame)
    subject = subject_of(APIS[request.api_key].name, request.client_id, request.body, name_of)
    body: dict[str, Any] = to_plain(request.body)
    return subject, body


def describe_response(entry: Entry) -> tuple[Any, list[str]]:
    """Return the decoded body of an entry's response, ready for JSON, and the names of the errors in it.

    What cannot be decoded is hexadecimal digits: an answer to an unknown version of ApiVersions, one that a fault has
    cut.
    """
    if entry.response is None:
        return None, []
    try:
        body = decode_response(entry.api_key, entry.version, entry.response[4:]).body
    except ProtocolError:
        return entry.response.hex(), []
    return to_plain(body), sorted(set(error_names(body)))


def describe_entry(entry: Entry) -> dict[str, Any]:
    """Return an entry with its decoded bodies, ready for JSON."""
    request = decode_request(entry.frame)
    described: dict[str, Any] = {
        "number": entry.number,
        "at_ms": entry.at_ms,
        "client": f"{entry.client.host.lstrip('/')}:{entry.client.port}",
        "connection": entry.client.connection,
        "api": APIS[request.api_key].name,
        "version": entry.version,
        "correlation_id": entry.correlation_id,
        "client_id": request.client_id,
        "request": to_plain(request.body),
        "response": None,
        "errors": [],
    }
    if entry.fault:
        described["fault"] = entry.fault
    if entry.response is not None:
        described["answered_ms"] = entry.answered_ms
        described["response"], described["errors"] = describe_response(entry)
    return described


def to_plain(value: Any) -> Any:
    """Return a message as dicts, lists, numbers and strings. Bytes become hexadecimal digits."""
    if isinstance(value, Struct):
        return {name: to_plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, tuple | list | Rows):
        return [to_plain(item) for item in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return value


def error_names(response: Struct) -> Iterator[str]:
    """Yield Kafka's name of each error code in a response, at any depth, without NONE."""
    for code in error_counter(type(response))(response):
        yield _CODES.get(code, str(code))
