"""Addresses: how they are written, and how they are told."""

import re
import select
import socket

import pytest

from coordinator.dataplane.brokers import Broker
from coordinator.server.listener import Listener, address, encode_host, format_address, listen, listen_again, suspend


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:9092", "127.0.0.1", 9092),
        ("[::1]:0", "::1", 0),
        (":9092", "", 9092),
        ("h:65535", "h", 65_535),
        ("kafka.local:1", "kafka.local", 1),
    ],
)
def test_an_address_is_host_and_port(text: str, host: str, port: int) -> None:
    assert address(text) == (host, port)
    assert not host or format_address(host, port) == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        *((text, " is not HOST:PORT") for text in ("", "9092", "host:", "host:x", "host:65536", "host:-1", "host:²")),
        ("::1:9092", ": an IPv6 address needs brackets, [::1]:9092"),
        *((text, " is not HOST:PORT: no host has such a name") for text in ("a..b:9092", f"{'a' * 64}:1")),
    ],
)
def test_what_is_no_address_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(repr(text) + reason)}$"):
        address(text)


def test_a_host_with_an_international_name_is_looked_up_by_that_of_idna() -> None:
    assert encode_host("bücher.example") == b"xn--bcher-kva.example"
    for host in ("127.0.0.1", "::1", "localhost", "a.example.", ""):
        assert encode_host(host) == host.encode("idna")


def test_a_listener_is_of_one_broker() -> None:
    for node_id in (0, 2):
        listener = listen("127.0.0.1:0", "broker.example:19092", node_id=node_id, name="SASL_SSL")
        with listener.sock:
            assert (listener.name, listener.where.node_id) == ("SASL_SSL", node_id)
            assert listener.where.brokers == (Broker(node_id, "broker.example", 19092),)


def test_port_zero_takes_a_free_one_and_tells_it() -> None:
    listener = listen("127.0.0.1:0")
    with listener.sock:
        assert listener.port > 0
        assert listener.address == f"127.0.0.1:{listener.port}"
        assert (listener.host, listener.port) == ("127.0.0.1", listener.sock.getsockname()[1])


def test_clients_are_told_what_is_advertised() -> None:
    listener = listen("127.0.0.1:0", "broker.example:0")
    with listener.sock:
        assert (listener.host, listener.port) == ("broker.example", listener.sock.getsockname()[1])
    with listen("127.0.0.1:0", "broker.example:19092").sock:
        pass


def test_all_interfaces_are_told_as_localhost() -> None:
    listener = listen("0.0.0.0:0")
    with listener.sock:
        assert listener.host == "localhost"


def test_ipv6() -> None:
    try:
        listener = listen("[::1]:0")
    except OSError as error:
        pytest.skip(f"no IPv6 loopback here: {error}")
    with listener.sock:
        assert listener.sock.family == socket.AF_INET6
        assert listener.address == f"[::1]:{listener.port}"


OPTIONS = [
    (getattr(socket, level), getattr(socket, name))
    for level, name in (
        ("SOL_SOCKET", "SO_KEEPALIVE"), ("SOL_SOCKET", "SO_REUSEADDR"), ("IPPROTO_TCP", "TCP_KEEPIDLE"),
        ("IPPROTO_TCP", "TCP_KEEPINTVL"), ("IPPROTO_TCP", "TCP_KEEPCNT"), ("IPPROTO_TCP", "TCP_NODELAY"),
    )
    if hasattr(socket, name)
]  # fmt: skip


def options_of(sock: socket.socket) -> list[int]:
    return [sock.getsockopt(*option) for option in OPTIONS]


def options_of_connection(listener: Listener) -> list[int]:
    """What holds for a connection that it accepts."""
    with socket.create_connection(listener.sock.getsockname()[:2], timeout=10):
        select.select([listener.sock], [], [], 10)
        accepted, _ = listener.sock.accept()
        with accepted:
            return options_of(accepted)


def test_a_listener_that_is_suspended_keeps_its_address_and_refuses_clients() -> None:
    listener = listen("127.0.0.1:0")
    where = listener.sock.getsockname()
    options, of_accepted = options_of(listener.sock), options_of_connection(listener)
    assert of_accepted[0], "the kernel finds out that a client is gone"
    for _ in range(2):
        listener = suspend(listener)
        assert listener.sock.getsockname() == where, "nobody who asks for any free port gets it"
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(where, timeout=10)
        listener = listen_again(listener)
        assert options_of(listener.sock) == options and not listener.sock.getblocking()
        assert options_of_connection(listener) == of_accepted
    listener.sock.close()
