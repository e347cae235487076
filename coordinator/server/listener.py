"""Where clients connect, and the address that is advertised to them."""

import contextlib
import socket
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from coordinator.dataplane.brokers import Broker
from coordinator.runtime.node import Where

if TYPE_CHECKING:  # imported where a listener has SASL or TLS
    from coordinator.server.sasl.listener import Sasl
    from coordinator.server.tls import Tls

BACKLOG: Final = 4096
KEEP_ALIVE: Final = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}  # seconds, seconds, probes


class Listener(Struct, frozen=True):
    """A bound socket, with the address that clients are told (KAFKA's advertised.listeners)."""

    sock: socket.socket
    host: str  # as it is advertised
    port: int
    where: Where
    name: str = "PLAINTEXT"  # by which advertised addresses and metrics tell listeners apart
    tls: "Tls | None" = None  # the connections are encrypted
    sasl: "Sasl | None" = None  # clients authenticate first
    bound: Any = None  # where the socket was bound that `suspend` has closed

    @property
    def address(self) -> str:
        """Where it is bound, as HOST:PORT."""
        host, port = self.sock.getsockname()[:2]
        return format_address(host, port)

    @property
    def protocol(self) -> str:
        """Its security protocol, by Kafka's name."""
        return ("SASL_" if self.sasl else "") + ("SSL" if self.tls else "PLAINTEXT")


def format_address(host: str, port: int) -> str:
    """Write HOST:PORT, with the brackets that IPv6 needs."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def encode_host(host: str) -> bytes:
    """Return a host as its look-up takes it. Raises UnicodeError if no host has such a name.

    The codec of international names takes 0.1 MiB, and is not imported for what it would not change.
    """
    if host.isascii() and all(0 < len(label) < 64 for label in host.split(".")):
        return host.encode()
    return host.encode("idna")


def address(text: str) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`, `[::1]:PORT` or `:PORT` (all interfaces). Raises ValueError."""
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdecimal()) or int(port) > 65_535:
        raise ValueError(f"{text!r} is not HOST:PORT")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{text!r}: an IPv6 address needs brackets, [::1]:9092")
    try:
        encode_host(host)
    except UnicodeError:
        raise ValueError(f"{text!r} is not HOST:PORT: no host has such a name") from None
    return host, int(port)


def listen(
    text: str,
    advertised: str | None = None,
    *,
    name: str = "PLAINTEXT",
    node_id: int = 0,
    tls: "Tls | None" = None,
    sasl: "Sasl | None" = None,
) -> Listener:
    """Bind to `HOST:PORT`; port 0 takes a free one. Raises ValueError for the text, OSError for the binding."""
    host, port = address(text)
    found = socket.getaddrinfo(encode_host(host) or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, where = sorted(found, key=lambda one: one[0] != socket.AF_INET)[0]
    sock = _make_socket(family, kind, protocol)
    try:
        sock.bind(where)
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    bound = sock.getsockname()[1]
    if advertised:
        told_host, told_port = address(advertised)
    else:
        told_host, told_port = "localhost" if host in ("", "0.0.0.0", "::") else host, 0  # noqa: S104  # compared, not bound
    broker = Broker(node_id, told_host, told_port or bound)
    return Listener(sock, broker.host, broker.port, Where((broker,), node_id), name, tls, sasl)


def suspend(listener: Listener) -> Listener:
    """Stop listening, and keep the port: clients are refused, and nobody who asks for any free port gets it."""
    old, where = listener.sock, listener.sock.getsockname()
    with contextlib.suppress(OSError):
        old.shutdown(socket.SHUT_RDWR)  # frees the address for the next socket though connections linger
    old.close()
    sock = _make_socket(old.family, old.type, old.proto)
    with contextlib.suppress(OSError):  # somebody was quicker: `listen_again` says so
        sock.bind(where)
    return replace(listener, sock=sock, bound=where)


def listen_again(listener: Listener) -> Listener:
    """Listen at the address that `suspend` has kept. Raises OSError."""
    if not listener.sock.getsockname()[1]:
        listener.sock.bind(listener.bound)
    listener.sock.listen(BACKLOG)
    return listener


def _make_socket(family: int, kind: int, protocol: int) -> socket.socket:
    """Make a socket to listen with. The kernel ends connections whose peers are gone; those that are accepted take this
    over."""
    sock = socket.socket(family, kind, protocol)
    sock.setblocking(False)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEP_ALIVE.items():
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return sock
