"""Ports of the loopback that nobody else gets while a test has them, neither to listen nor to connect from."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from random import Random

_UNASKED = range(20_000, 32_000)  # which the system gives to nobody who takes any free port


@contextmanager
def reserve_ports(*ports: int) -> Iterator[list[int]]:
    """Reserve ports, 0 for any free one, also while the server that listens there is away: it must set SO_REUSEADDR."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in ports]
        for sock, port in zip(sockets, ports, strict=True):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(("127.0.0.1", port))  # and never listens
        yield [sock.getsockname()[1] for sock in sockets]


@contextmanager
def reserve_row(count: int) -> Iterator[int]:
    """Reserve ports that follow one another, as brokers of one server have them. Yields the first."""
    dice = Random()
    for _ in range(100):
        with ExitStack() as stack:
            first = dice.choice(_UNASKED)
            try:
                stack.enter_context(reserve_ports(*range(first, first + count)))
            except OSError:
                continue  # somebody has one of them
            yield first
            return
    raise AssertionError(f"no {count} free ports in a row")
