"""The whole server but its sockets, in memory, on a clock that the test moves."""

import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from msgspec.structs import replace

from coordinator.config import Config
from coordinator.core.events import Event
from coordinator.core.result import Call
from coordinator.core.timers import IMMEDIATELY
from coordinator.dataplane.brokers import Broker
from coordinator.metrics import Stats
from coordinator.runtime.clock import Clock, CoordinatorClock
from coordinator.runtime.dice import fresh_ids
from coordinator.runtime.node import Node, Setup, Where
from coordinator.server.connection import Connection
from coordinator.server.frontend import Frontend
from coordinator.server.listener import Listener
from coordinator.server.sasl.listener import Sasl
from coordinator.server.virtual_brokers import join_listeners
from protocol.apis import api_of
from protocol.codec import decode_response, encode_request
from protocol.framing import FrameBuffer
from protocol.schema import Message
from storage.files import Files, Waker
from storage.memory_files import MemoryFiles
from tests.core.shard_checks import check_small_shard

WALL_MS = 1_700_000_000_000
FRAME_BYTES_MAX = 65_536
DATA_DIR = "data"


class Receiver(Protocol):
    """A client's end of a connection."""

    def receive(self, data: bytes) -> None:
        """Take what the server has sent."""


class Dialogue:
    """What a client sends, and what it has got: requests become bytes, and bytes become answers."""

    def __init__(self, client_id: str = "test") -> None:
        self._client_id = client_id
        self._frames = FrameBuffer(1 << 24)
        self._sent: dict[int, tuple[int, int]] = {}  # (API key, version) by correlation id
        self.answers: list[tuple[int, Any]] = []  # (correlation id, message) in the order of arrival

    def frame(self, message: Message, version: int, correlation_id: int) -> bytes:
        """The bytes of a request, whose answer is expected from now on."""
        key = api_of(message).key
        self._sent[correlation_id] = (key, version)
        return encode_request(key, version, correlation_id, self._client_id, message)

    def chunk(self, *requests: tuple[Message, int]) -> bytes:
        """The bytes of requests, one after the other; correlation ids go up from the last one."""
        first = len(self._sent) + 1
        return b"".join(self.frame(message, version, first + at) for at, (message, version) in enumerate(requests))

    def receive(self, data: bytes) -> None:
        """Read what the server has sent."""
        self._frames.feed(data)
        for frame in self._frames:
            correlation_id = int.from_bytes(frame[:4], "big")
            key, version = self._sent[correlation_id]
            self.answers.append((correlation_id, decode_response(key, version, frame).body))


class Peer(Dialogue):
    """A client of a server in memory."""

    def __init__(self, server: "InMemory", client_id: str = "test", *, broker: int = 0) -> None:
        super().__init__(client_id)
        self._server = server
        self.connection = server.attach(self, broker=broker)

    def send(self, *requests: tuple[Message, int], is_alone: bool = False) -> None:
        """Send requests, one after the other in one chunk."""
        self._server.frontend.receive(self.connection, self.chunk(*requests), is_alone=is_alone)

    def ask(self, message: Message, version: int) -> Any:
        """Send one request, end the turn, and return its answer; None when there is none yet."""
        before = len(self.answers)
        self.send((message, version), is_alone=True)
        self._server.turn()
        return self.answers[before][1] if len(self.answers) > before else None


def _listener(node_id: int, host: str, port: int) -> Listener:
    with socket.socket() as closed:
        return Listener(closed, host, port, Where((Broker(node_id, host, port),), node_id))


class InMemory:
    """A node and its frontend. `turn` is what the poller does between reading and the next poll.

    With `is_loaded=False` the caller goes on with the steps of `loading`, and may have turns in between.
    """

    def __init__(
        self,
        files: Files | None = None,
        *,
        is_loaded: bool = True,
        is_synced: bool = False,
        is_steered: bool = False,
        topics: Mapping[str, int] | None = None,
        monotonic: Callable[[], float] | None = None,
        waker: Waker | None = None,
        wall_ms: int = WALL_MS,
        seed: int = 7,
        frame_bytes_max: int = FRAME_BYTES_MAX,
        host: str = "localhost",
        port: int = 9092,
        sasl: Sasl | None = None,
        **values: Any,
    ) -> None:
        """`values` are settings, with `_` for `.`. Without `monotonic` the clock is moved by `advance`.

        `is_steered` gives the coordinator a clock of its own, which an operator may move.
        """
        self.seconds = 0.0
        self.events: list[Event] = []
        self._seconds = monotonic or (lambda: self.seconds)
        real = Clock(wall_ms, self._seconds)
        self.clock: Clock | CoordinatorClock = CoordinatorClock(real) if is_steered else real
        self.files = files or MemoryFiles()
        config = Config({name.replace("_", "."): value for name, value in values.items()})
        self.setup = Setup(
            config=config,
            files=self.files,
            data_dir=DATA_DIR,
            fresh_id=fresh_ids(seed),
            real_ms=real.now_ms,
            tell=self.events.append,
            is_synced=is_synced,
            real_s=self._seconds,
            waker=waker,
            topics={"orders": 4} if topics is None else topics,
        )
        self.node = Node(self.setup)
        self.node.open(self.clock.now_ms())
        self.loading = self.node.load(self.clock.now_ms)
        if is_loaded:
            self.load()
        self.stats = Stats()
        self.frontend = Frontend(
            self.node.engine, self.clock, self.stats, fresh_ids(seed + 1), frame_bytes_max, real_s=self._seconds
        )
        listeners = [_listener(node_id, host, port + node_id) for node_id in config.node_ids]
        self.listeners = join_listeners([replace(listener, sasl=sasl) for listener in listeners])
        self.listener = self.listeners[0]
        self._receivers: dict[Connection, Receiver] = {}
        self._closed: list[Connection] = []  # by the server since the latest turn
        close = self.frontend.connections.close

        def note(connection: Connection, reason: str) -> None:
            close(connection, reason)
            self._closed.append(connection)

        self.frontend.connections.close = note  # type: ignore[method-assign]  # a note beside it

    def load(self) -> None:
        """Do what is left of the loading."""
        for _ in self.loading:
            pass

    def receivers(self) -> dict[Connection, Receiver]:
        """Every connection that was ever made, with its client."""
        return dict(self._receivers)

    def attach(self, receiver: Receiver, *, broker: int = 0, sasl: Sasl | None = None) -> Connection:
        """Make a connection to a broker whose client is `receiver`; with `sasl`, to a listener that has it."""
        listener = self.listeners[broker]
        connection = self.frontend.connect("127.0.0.1", listener if sasl is None else replace(listener, sasl=sasl))
        self._receivers[connection] = receiver
        return connection

    def connect(self, client_id: str = "test", *, broker: int = 0) -> Peer:
        return Peer(self, client_id, broker=broker)

    def turn(self) -> Iterable[Connection]:
        """End the turn, and hand out what is owed to who takes it."""
        touched = list(self.frontend.finish())
        for connection in touched:
            if not connection.is_blocked:
                self._receivers[connection].receive(b"".join(self.frontend.outbox.take(connection)))
        self.frontend.end_turn()
        for connection in self._closed:
            assert connection in touched, "its socket would stay open, for it has nothing to send"
        self._closed.clear()
        return touched

    def rest(self) -> None:
        """Have turns until there is nothing to do."""
        self.turn()
        while self.frontend.has_work:
            self.turn()
        self._check()

    def record_requests(self) -> list[tuple[Any, Call]]:
        """Return a list of requests with their calls, to which each one that is decided from now on is added."""
        handled, handle = list[tuple[Any, Call]](), self.node.engine.handle

        def note(api_key: int, request: Any, call: Call, where: Where) -> Any:
            handled.append((request, call))
            return handle(api_key, request, call, where)

        self.node.engine.handle = note
        return handled

    def advance(self, seconds: float) -> None:
        """Move the clock, and do what is due by then."""
        self.seconds += seconds
        self.turn()
        while self.frontend.next_deadline_ms() == IMMEDIATELY:
            self.turn()
        self._check()

    def _check(self) -> None:
        """Check what holds of groups whatever has happened to them, but for failures of the server."""
        if not self.node.world.edge.failures:
            for partition in self.node.world.partitions:
                if partition.shard.groups and partition.is_loaded:
                    check_small_shard(partition.shard)
