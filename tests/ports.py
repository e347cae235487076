"""Ports of the loopback that nobody else gets while a test has them, neither to listen nor to connect from."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def reserve_ports(*ports: int) -> Iterator[list[int]]:
    """Reserve ports, 0 for any free one, also while the server that listens there is away: it must set SO_REUSEADDR."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in ports]
        for sock, port in zip(sockets, ports, strict=True):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(("127.0.0.1", port))  # and never listens
        yield [sock.getsockname()[1] for sock in sockets]
