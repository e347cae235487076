"""One client, without its socket: chunks in, frames out, answers in the order asked.

A connection's requests are decided one after the other. While one of them is parked (a JoinGroup that waits for the
others, a Fetch that waits for records), or while the client does not take its answers, the frames behind it wait here
undecided, and soon its socket is not read either: what a connection may keep is bounded by one chunk and one frame.
"""

from collections import deque
from typing import Final

from msgspec import Struct

from coordinator.server.listener import Listener
from protocol.framing import FrameBuffer

OWED_BYTES_MAX: Final = 1_048_576  # decided and not yet sent, before the next request is decided


class Parked(Struct, frozen=True, gc=False):
    """A request that waits for its answer."""

    ticket: int
    api_key: int
    version: int
    correlation_id: int
    since_ms: int


class Connection:
    """What is known of one client."""

    __slots__ = (
        "_half_of",
        "_half_since_ms",
        "backlog",
        "closing",
        "frames",
        "heard_ms",
        "host",
        "is_blocked",
        "link",
        "listener",
        "owed",
        "owed_bytes",
        "parked",
        "requests",
    )

    def __init__(self, host: str, listener: Listener, frame_bytes_max: int, now_ms: int) -> None:
        self.host = "/" + host.partition("%")[0]  # as Kafka shows a peer: a slash and the literal address
        self.listener = listener
        self.link: object | None = None  # the poller's handle; None when its socket is gone
        self.frames = FrameBuffer(frame_bytes_max)
        self.backlog: deque[bytes] = deque()
        self.parked: Parked | None = None
        self.owed: list[bytes] = []
        self.owed_bytes = 0
        self.closing = False  # no further request is decided; closed once its answers have left
        self.is_blocked = False  # its socket takes no more for now
        self.heard_ms = now_ms
        self.requests = 0  # frames that were whole so far
        self._half_of = -1  # after how many requests the sweep saw the beginning of a frame, and since when
        self._half_since_ms = 0

    def feed(self, chunk: bytes, now_ms: int) -> FrameBuffer:
        """Take a chunk. Iterating what comes back gives the frames that are whole; a size that cannot be is a
        ProtocolError."""
        self.heard_ms = now_ms
        self.frames.feed(chunk)
        return self.frames

    def is_stalled(self, now_ms: int, patience_ms: int) -> bool:
        """Whether one frame has been arriving for too long, though it would be read. For the sweep to ask now and
        then."""
        if not len(self.frames) or self.is_full or self._half_of != self.requests:
            self._half_of, self._half_since_ms = self.requests, now_ms
        return now_ms - self._half_since_ms >= patience_ms

    @property
    def may_decide(self) -> bool:
        """Whether its next request may be decided now."""
        return not (self.parked or self.is_blocked or self.closing or self.owed_bytes >= OWED_BYTES_MAX)

    @property
    def is_full(self) -> bool:
        """Whether to stop reading from it: there are frames that must wait, or none is wanted any more."""
        return bool(self.backlog) or self.closing

    @property
    def is_waiting(self) -> bool:
        """Whether an answer is on its way, so that silence is no idleness."""
        return self.parked is not None or bool(self.backlog)

    def owe(self, answer: bytes) -> None:
        """Add an answer, after those before it."""
        self.owed.append(answer)
        self.owed_bytes += len(answer)

    def take(self) -> bytes:
        """All that is owed, as one piece; nothing is owed afterwards."""
        owed = self.owed
        if not owed:
            return b""
        data = owed[0] if len(owed) == 1 else b"".join(owed)
        owed.clear()
        self.owed_bytes = 0
        return data
