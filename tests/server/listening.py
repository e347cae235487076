"""A poller on a real port, over a server in memory whose clock the test moves."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import trio

from coordinator.server.admission import Admission
from coordinator.server.link import Link
from coordinator.server.listener import listen
from coordinator.server.poller import Poller
from coordinator.server.sasl.listener import Sasl
from coordinator.server.tls import Tls
from tests.server.in_memory import InMemory

IDLE_MS = 60_000
KERNEL_BYTES = 65_536  # of each side's buffer: less, and the kernel waits for acknowledgements


class Listening:
    """A poller on a real port, over a server in memory."""

    def __init__(
        self, connections_max: int = 100, *, tls: Tls | None = None, sasl: Sasl | None = None, **values: Any
    ) -> None:
        self.server = InMemory(**values)
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

    async def connect(self) -> trio.SocketStream:
        return await trio.open_tcp_stream("127.0.0.1", self.listener.port)

    async def connect_narrowly(self) -> tuple[trio.SocketStream, Link]:
        """A client between which and the poller the kernel keeps little, and the poller's side of it."""
        stream = await self.connect()
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, KERNEL_BYTES)
        while not self.poller.connections:
            await trio.lowlevel.checkpoint()
        (link,) = self.poller._links.values()
        link.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, KERNEL_BYTES)
        return stream, link

    async def give_way(self) -> None:
        """Let the other tasks have their turn."""
        await trio.sleep(0.01)

    def sweep(self, seconds: float) -> None:
        """So much later the poller looks for who is to be let go."""
        self.server.seconds += seconds
        self.poller.sweep()


@asynccontextmanager
async def listening(
    connections_max: int = 100, *, tls: Tls | None = None, sasl: Sasl | None = None, **values: Any
) -> AsyncIterator[Listening]:
    here = Listening(connections_max, tls=tls, sasl=sasl, **values)
    with here.listener.sock, trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            await nursery.start(here.poller.run)
            yield here
            nursery.cancel_scope.cancel()
