"""A client by OpenSSL's own library, for what `ssl` does not let a client do: to update its keys (TLS 1.3)."""

import ctypes
import ctypes.util
import socket
from typing import Any, Final

_NAME: Final = ctypes.util.find_library("ssl")
NOT_REQUESTED, REQUESTED = 0, 1  # whether the other side is to update its keys, too


def has_library() -> bool:
    """Whether the library is there."""
    return _NAME is not None


def _library() -> Any:
    library = ctypes.CDLL(_NAME)
    pointer, number = ctypes.c_void_p, ctypes.c_int
    for name, result, arguments in (
        ("TLS_client_method", pointer, []),
        ("SSL_CTX_new", pointer, [pointer]),
        ("SSL_CTX_free", None, [pointer]),
        ("SSL_new", pointer, [pointer]),
        ("SSL_free", None, [pointer]),
        ("SSL_set_fd", number, [pointer, number]),
        ("SSL_connect", number, [pointer]),
        ("SSL_key_update", number, [pointer, number]),
        ("SSL_do_handshake", number, [pointer]),
        ("SSL_write", number, [pointer, ctypes.c_char_p, number]),
        ("SSL_read", number, [pointer, pointer, number]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class Client:
    """A connection by TLS over a blocking socket. It trusts every server."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(True)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._library, self._sock = _library(), sock
        self._context = self._library.SSL_CTX_new(self._library.TLS_client_method())
        self._connection = self._library.SSL_new(self._context)
        self._library.SSL_set_fd(self._connection, sock.fileno())
        if self._library.SSL_connect(self._connection) != 1:
            raise ConnectionError("no handshake")

    def update_keys(self, whose: int = NOT_REQUESTED) -> bool:
        """Send one update. Returns whether the connection was still there."""
        self._library.SSL_key_update(self._connection, whose)
        return bool(self._library.SSL_do_handshake(self._connection) == 1)

    def write(self, data: bytes) -> bool:
        """Send bytes. Returns whether the connection was still there."""
        return bool(self._library.SSL_write(self._connection, data, len(data)) > 0)

    def read(self, most: int) -> bytes:
        """Return some bytes, none at the end."""
        buffer = ctypes.create_string_buffer(most)
        return buffer.raw[: max(0, self._library.SSL_read(self._connection, buffer, most))]

    def close(self) -> None:
        self._library.SSL_free(self._connection)
        self._library.SSL_CTX_free(self._context)
        self._sock.close()
