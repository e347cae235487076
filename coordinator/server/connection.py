"""The connection of one client, without its socket: chunks in, frames out, responses in the order of the requests.

The requests of a connection are decided one after the other. While one of them is parked (a JoinGroup that waits for
other members, a Fetch that waits for records), or while the client does not read its responses, later frames wait in
the backlog, and the socket is not read. So a connection holds at most one chunk and one frame.
"""

from collections.abc import Iterable, Iterator
from struct import Struct as Layout
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from coordinator.core.addresses import literal_address
from coordinator.core.principal import ANONYMOUS, Principal
from coordinator.server.authentication import Authentication
from coordinator.server.listener import Listener
from coordinator.server.repeated_heartbeat import RepeatedHeartbeat
from protocol.apis import BY_NAME, keys_with
from protocol.codec import decode_request
from protocol.framing import SIZE, SIZE_BYTES, FrameBuffer
from protocol.header import Request
from protocol.repeated_records import RepeatedRecords, find_records
from protocol.repeated_rows import RepeatedRows, find_rows
from protocol.traits import Trait
from storage.file_range import FileRange

if TYPE_CHECKING:  # imported with the gate, which few servers have
    from coordinator.control.gated_request import GatedRequest
    from coordinator.control.journal import JournalClient

RESPONSE_BYTES_MAX: Final = 1_048_576  # that have not left; with more of them, no further request is decided
BACKLOG_FRAMES: Final = 64  # taken out of a chunk at a time; the rest of the chunk is left as it is
REPEATED: Final = keys_with(Trait.REPEATS)
OFFSET_COMMIT: Final = BY_NAME["OffsetCommit"].key  # clients repeat it with other offsets
PRODUCE: Final = BY_NAME["Produce"].key  # and this with other records
REPEATED_BYTES_MAX: Final = 256  # of a request that is kept in case it is repeated; offsets and records do not count
HEAVY_FACTOR: Final = 8.0  # a heavy connection gives way to others for so many times as long as it kept the loop


_read_correlation_id: Final = Layout(">i").unpack_from
_read_size: Final = SIZE.unpack_from


class ParkedRequest(Struct, frozen=True, gc=False):
    """A request whose response is not decided yet."""

    ticket: int
    api_key: int
    version: int
    correlation_id: int
    since_s: float
    gated: "GatedRequest | None" = None  # of the request through the gate, if there is a gate
    body: Any = None  # of a request that changes nothing: for an error response, if its own cannot be encoded


Piece = bytes | FileRange
"""A part of a response: its bytes, or where they lie in a file."""


class HeldResponses(Struct, frozen=True, gc=False):
    """Responses that may be sent once a sync has ended."""

    required_sync: int  # the number of that sync
    pieces: list[Piece]
    bytes: int


class EncodedResponse(Struct, frozen=True, gc=False):
    """A response without errors, and its frame without the correlation id."""

    response: Any
    version: int
    head: bytes  # the frame's size
    tail: bytes


NO_RESPONSE: Final = EncodedResponse(object(), -1, b"", b"")


class DecodedRequest(Struct, frozen=True, gc=False):
    """A request, and its frame without the correlation id."""

    request: Request
    head: bytes  # API key and version
    tail: bytes


MemberName = tuple[str, str]
"""A group, and the id of a member."""


class Connection:
    """The state of one client's connection. Times are seconds of the real, monotonic clock.

    Each field has one writer; `tests/server/test_connection.py` lists them. This class writes the fields about received
    and waiting requests. Other modules write the fields that they keep for a connection.

    Its queues are short and mostly empty. They are lists, because an empty deque takes 760 bytes.
    """

    __slots__ = (
        "_half_of",
        "_half_since_s",
        "authentication",
        "backlog",
        "client_id",
        "closing",
        "frames",
        "heard_s",
        "heartbeat",
        "heavy_until_s",
        "held",
        "held_bytes",
        "host",
        "is_blocked",
        "is_muted",
        "is_queued",
        "journal_client",
        "latest",
        "listener",
        "member",
        "number",
        "outgoing",
        "outgoing_bytes",
        "parked",
        "port",
        "principal",
        "repeated",
        "repeated_commit",
        "repeated_produce",
        "required_sync",
    )

    def __init__(
        self, host: str, listener: Listener, frame_bytes_max: int, now_s: float, *, port: int = 0, number: int = 0
    ) -> None:
        self.host = "/" + literal_address(host)  # as Kafka shows a peer
        self.port = port  # the client's
        self.client_id: str | None = None  # of its latest request
        self.member: MemberName | None = None  # that has sent the latest request of one
        self.number = number  # the first connection since the start is 1
        self.listener = listener
        self.principal: Principal = ANONYMOUS  # until the client is authenticated
        self.journal_client: JournalClient | None = None  # the client in entries of the journal, made by the gate
        self.authentication = None if listener.sasl is None else Authentication(listener.sasl)
        first_max = frame_bytes_max if self.authentication is None else self.authentication.frame_bytes_max
        self.frames = FrameBuffer(min(frame_bytes_max, first_max))
        self.backlog: list[bytes] = []  # never empty while there are whole requests in `frames`
        self.parked: ParkedRequest | None = None
        self.outgoing: list[Piece] = []  # responses that leave at the end of the turn, unless they are held
        self.outgoing_bytes = 0
        self.required_sync = 0  # with --fsync, the number of the sync that the outgoing responses wait for
        self.held: list[HeldResponses] = []  # those that wait for a sync, in the order of the requests
        self.held_bytes = 0
        self.latest = NO_RESPONSE  # of heartbeats, commits and fetches
        self.heartbeat: RepeatedHeartbeat | None = None  # the latest successful one
        self.repeated: DecodedRequest | None = None  # the latest of `REPEATED`
        self.repeated_commit: RepeatedRows | None = None  # the latest OffsetCommit, without its offsets
        self.repeated_produce: RepeatedRecords | None = None  # the latest Produce, without its records
        self.closing = False  # no further request is decided; the connection is closed once its responses have left
        self.is_blocked = False  # the socket takes no more data for now
        self.is_muted = False  # the client is over a quota, and has to wait
        self.is_queued = False  # the frontend continues with the backlog in a later turn
        self.heard_s = now_s  # when the last chunk arrived; all requests of the backlog came in it
        self.heavy_until_s = 0.0  # its requests were expensive: until then those of other connections go first
        self._half_of = -1  # the number of the unfinished frame that `track_stall` has seen
        self._half_since_s = 0.0  # and when it first saw it

    def decode(self, frame: bytes) -> Request:
        """Decode the next request. Raises ProtocolError.

        If a request is the same as before except for its correlation id, only that is read; if a commit is the same
        except for its offsets, or a Produce except for its records, only these are read.
        """
        before = self.repeated
        if before is not None and frame[:4] == before.head and frame[8:] == before.tail:
            same = before.request
            self.client_id = same.client_id
            (correlation_id,) = _read_correlation_id(frame, 4)
            return Request(same.api_key, same.version, correlation_id, same.client_id, same.body)
        if (commit := self.repeated_commit) is not None and (again := commit.read(frame)) is not None:
            self.client_id = again.client_id
            return again
        if (produce := self.decode_repeated_produce(frame)) is not None:
            return produce
        request = self.accept(decode_request(frame), frame)
        if request.api_key in REPEATED and len(frame) <= REPEATED_BYTES_MAX:
            self.repeated = DecodedRequest(request, frame[:4], frame[8:])
        elif request.api_key == OFFSET_COMMIT:
            self.repeated_commit = find_rows(request, frame, REPEATED_BYTES_MAX)
        return request

    def decode_repeated_produce(self, frame: bytes) -> Request | None:
        """Decode the next request if it is the same Produce as before except for its records, else return None."""
        if self.repeated_produce is None or (again := self.repeated_produce.read(frame)) is None:
            return None
        self.client_id = again.client_id
        return again

    def accept(self, request: Request, frame: bytes) -> Request:
        """Take the next request, which was decoded of the whole frame, and return it."""
        self.client_id = request.client_id
        if request.api_key == PRODUCE:
            self.repeated_produce = find_records(request, frame, REPEATED_BYTES_MAX)
        if member_id := getattr(request.body, "member_id", ""):
            self.member = request.body.group_id, member_id
        return request

    # -- requests that wait --------------------------------------------------------------------------------------------

    def receive(self, chunk: bytes, now_s: float) -> Iterable[bytes]:
        """Take what the client has sent. Returns the requests that it completes, to be decided or to be kept."""
        self.heard_s = now_s
        frames, size = self.frames, len(chunk) - SIZE_BYTES
        if 0 < size <= frames.limit and not frames.is_held and _read_size(chunk)[0] == size:
            return (chunk[SIZE_BYTES:],)  # one frame: most chunks of most clients
        frames.feed(chunk)
        return frames

    def take_backlog(self) -> Iterator[bytes]:
        """Remove the requests of the backlog and yield them, oldest first, refilling it from the received bytes."""
        while self.backlog:
            yield self.backlog.pop(0)
            if not self.backlog:
                self.keep(self.frames)

    def keep(self, frames: Iterable[bytes]) -> None:
        """Put requests behind those that wait, as many as a backlog takes: the rest of a chunk is left as it is.

        Raises ProtocolError for a size that no frame may have.
        """
        if self.closing:
            return  # no response follows to what comes behind
        backlog = self.backlog
        for frame in frames:
            backlog.append(frame)
            if len(backlog) >= BACKLOG_FRAMES:
                return  # to cut up a chunk of thousands takes longer than to decide some of them

    def put_back(self, frame: bytes) -> None:
        """Let a request be the next one that is decided, after it was taken."""
        if not self.closing:
            self.backlog.insert(0, frame)

    def drop_backlog(self) -> None:
        """Drop the requests that wait."""
        self.backlog.clear()

    def stop(self) -> None:
        """Decide nothing more: what waits is dropped, and what comes as well."""
        self.closing = True
        self.backlog.clear()
        self.frames = FrameBuffer(self.frames.limit)

    def restart_wait(self, now_s: float) -> None:
        """Count the latencies of the requests that wait from now on: the one before them was parked so long."""
        self.heard_s = now_s

    def track_stall(self, now_s: float, patience_s: float) -> bool:
        """Return whether a frame has been incomplete for too long, although the socket is read. Called once a sweep."""
        if not len(self.frames) or self.is_full or self._half_of != self.frames.unfinished_number:
            self._half_of, self._half_since_s = self.frames.unfinished_number, now_s
        return now_s - self._half_since_s >= patience_s

    def charge(self, seconds: float, now_s: float) -> None:
        """Let the other connections go first for a while, because this one has occupied the loop for `seconds`."""
        self.heavy_until_s = now_s + HEAVY_FACTOR * seconds

    def may_decide(self) -> bool:
        """Return whether its next request may be decided now."""
        return not (
            self.parked
            or self.is_blocked
            or self.is_muted
            or self.closing
            or self.outgoing_bytes + self.held_bytes >= RESPONSE_BYTES_MAX
        )

    @property
    def is_full(self) -> bool:
        """Whether the socket is not to be read: frames are waiting already, or the connection is being closed."""
        return bool(self.backlog) or self.closing

    @property
    def is_waiting(self) -> bool:
        """Whether the client waits for a response. If so, it is not idle although it sends nothing."""
        return self.parked is not None or bool(self.backlog or self.held)

    @property
    def undecided_bytes(self) -> int:
        """How many bytes of requests are held that are not decided yet: unfinished frames and the backlog."""
        held = len(self.frames) if self.frames.is_held else 0
        return held + sum(map(len, self.backlog)) if self.backlog else held


def connections_of(member: MemberName, client_id: str, connections: Iterable[Connection]) -> list[Connection]:
    """Return the connections of a member: those by which it has asked as a member, and all others of its client id that
    are no member's, unless other members have the same client id."""
    same = [one for one in connections if one.member == member or (one.client_id or "") == client_id]
    is_shared = any(one.member not in (None, member) for one in same)
    return [one for one in same if one.member == member or not is_shared]
