"""A poller on a real port, over a server in memory whose clock the test moves, and clients of it."""

import socket
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import trio

from coordinator.server.admission import Admission
from coordinator.server.listener import listen
from coordinator.server.poller import Poller
from coordinator.server.sasl.listener import Sasl
from coordinator.server.tls import Tls
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.schema import Message
from tests.server.in_memory import Dialogue, InMemory

IDLE_MS = 60_000
KERNEL_BYTES = 65_536  # of each side's buffer: less, and the kernel waits for acknowledgements
VERSIONS = (ApiVersionsRequest("test", "1"), 3)


async def until(condition: Callable[[], object]) -> None:
    """Wait for what other tasks bring about."""
    while not condition():
        await trio.lowlevel.checkpoint()


class Caller(Dialogue):
    """A client of a server that listens."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        super().__init__()
        self.stream = stream

    async def send(self, *requests: tuple[Message, int]) -> None:
        await self.stream.send_all(self.chunk(*requests))

    async def read(self, count: int) -> list[int]:
        """Wait until there are so many answers in all. Returns their correlation ids."""
        while len(self.answers) < count:
            data = await self.stream.receive_some(65_536)
            assert data, "the server has closed the connection"
            self.receive(bytes(data))
        return [number for number, _ in self.answers]

    async def ask(self, message: Message = VERSIONS[0], version: int = VERSIONS[1]) -> Any:
        """Send one request, and return its answer."""
        await self.send((message, version))
        await self.read(len(self.answers) + 1)
        return self.answers[-1][1]

    async def is_closed(self) -> bool:
        """Wait for the end of the connection."""
        try:
            while await self.stream.receive_some():
                pass
        except trio.BrokenResourceError:
            pass
        return True


class Listening:
    """A poller on a real port, over a server in memory."""

    def __init__(
        self, connections_max: int = 100, *, tls: Tls | None = None, sasl: Sasl | None = None, **values: Any
    ) -> None:
        self.server = InMemory(**values)
        self.stack = ExitStack()  # of what ends with the server
        self.listener = listen("127.0.0.1:0", tls=tls, sasl=sasl)
        self.poller = Poller(
            self.server.frontend,
            [self.listener],
            self.server.clock,
            after_turn=lambda: None,
            connections_max=connections_max,
            idle_ms=IDLE_MS,
            admission=Admission(self.server.setup.config),
            waker=values.get("waker"),
        )

    async def connect(self, context: ssl.SSLContext | None = None) -> Caller:
        """A client, which speaks TLS if it is given how to."""
        stream = await trio.open_tcp_stream("127.0.0.1", self.listener.port)
        return Caller(stream if context is None else trio.SSLStream(stream, context, server_hostname="localhost"))

    async def connect_narrowly(self, context: ssl.SSLContext | None = None) -> tuple[Caller, Any]:
        """A client between which and the poller the kernel keeps little, and the poller's side of it."""
        client = await self.connect(context)
        stream = client.stream if context is None else client.stream.transport_stream
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, KERNEL_BYTES)
        await until(lambda: self.poller.connections)
        self.link.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KERNEL_BYTES)
        return client, self.link

    @property
    def link(self) -> Any:
        """The poller's side of the only connection."""
        (link,) = self.poller._links.values()
        return link

    @property
    def unsent_bytes(self) -> int:
        """How many bytes of responses the clients do not take, of which the node is told."""
        unsent_bytes = self.server.frontend.outbox.unsent.total
        assert self.server.node.world.dataplane._state.unsent_bytes == unsent_bytes
        return unsent_bytes

    def sweep(self, seconds: float) -> None:
        """So much later the poller looks for who is to be let go."""
        self.server.seconds += seconds
        self.poller.sweep()


@asynccontextmanager
async def listening(
    connections_max: int = 100, *, tls: Tls | None = None, sasl: Sasl | None = None, **values: Any
) -> AsyncIterator[Listening]:
    here = Listening(connections_max, tls=tls, sasl=sasl, **values)
    with here.listener.sock, here.stack, trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            await nursery.start(here.poller.run)
            yield here
            nursery.cancel_scope.cancel()
