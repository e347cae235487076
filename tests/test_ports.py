"""Reserved ports: a server that is told to may listen there, and nobody else gets them."""

from __future__ import annotations

import errno
import socket

import pytest

from tests.ports import reserve_ports


def test_a_server_listens_at_a_reserved_port_again_and_again() -> None:
    with reserve_ports(0) as (port,):
        for _ in range(2):
            with socket.create_server(("127.0.0.1", port)) as server, socket.create_connection(("127.0.0.1", port)):
                server.accept()[0].close()


def test_nobody_connects_from_a_reserved_port() -> None:
    with reserve_ports(0) as (port,), socket.create_server(("127.0.0.1", 0)) as server:
        with pytest.raises(OSError) as refused:  # by its number
            socket.create_connection(server.getsockname(), source_address=("127.0.0.1", port))
        assert refused.value.errno == errno.EADDRINUSE
