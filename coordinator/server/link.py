"""The socket of one client: bytes in and out, plain or by TLS.

    socket ─► recv ─► MemoryBIO ─► SSLObject ─► requests        responses ─► SSLObject ─► MemoryBIO ─► send ─► socket

OpenSSL works on two buffers in memory, and only the poller reads and writes the socket: a peer that stops in the middle
of a handshake cannot block the loop. All bytes that arrive are decrypted at once, because a selector does not report
bytes that are decrypted already. Responses are encrypted one record at a time, when the socket can take it.
"""

import contextlib
import socket
import ssl
from collections.abc import Callable
from typing import Final

from coordinator.core.principal import Principal
from coordinator.server.connection import Connection, Piece
from coordinator.server.distinguished_name import UnreadableSubjectError
from coordinator.server.principal_mapping import NoRuleError
from storage.file_range import FileRange

RECORD_BYTES: Final = 16_384  # of plaintext in one record of TLS (RFC 8446, 5.1)
SECURE_CHUNK_BYTES: Final = 16_896  # one whole record with its header and tag: a MemoryBIO never shrinks
SECURE_STEP_BYTES: Final = 16 * RECORD_BYTES  # of a file, which are read, encrypted and sent at a time
HANDSHAKE: Final = 0x16  # the content type of a handshake's first record
HANDSHAKE_BYTES_MAX: Final = 131_072  # that a client may send in its handshake: enough for a long chain of certificates

RECORD_OVERHEAD_BYTES: Final = 64  # of one record, beside its data: a header, a nonce, a tag, some padding
EMPTY_BYTES_MAX: Final = SECURE_CHUNK_BYTES + 4_096  # of records without data, and of one that has not arrived whole


class HandshakeError(OSError):
    """The TLS handshake has failed."""


class EmptyRecordsError(OSError):
    """A client sends TLS records without data.

    TLS 1.3 allows any number of key updates. Each takes 20 us of the server, and the client sends 27 bytes.
    """


class Link:
    """A connection's socket, and the responses that it has not taken yet."""

    __slots__ = (
        "_taken",
        "connection",
        "interest",
        "is_behind",
        "is_handshaking",
        "receive",
        "send",
        "since_s",
        "sock",
        "unsent",
        "unsent_bytes",
        "unsent_since_s",
    )

    def __init__(self, sock: socket.socket, connection: Connection, since_s: float = 0.0) -> None:
        self.sock = sock
        self.connection = connection
        self.since_s = since_s
        self.interest = 0
        self.is_behind = False  # there is data that the socket has not taken yet
        self.is_handshaking = False  # the TLS handshake is not complete
        self.receive: Callable[[int], bytes] = sock.recv  # returns the next bytes of requests, b"" at the end
        self.send: Callable[[bytes | memoryview], int] = sock.send  # returns how many bytes were taken
        self.unsent: list[Piece] = []
        self._taken = 0  # bytes of the first of them that the socket has taken
        self.unsent_bytes = 0  # of whole responses: one that is sent in part still occupies all its memory
        self.unsent_since_s = since_s

    def keep(self, piece: Piece, sent: int) -> None:
        """Keep a piece of a response of which the socket has taken `sent` bytes, without a copy."""
        if not self.unsent:
            self._taken = sent
        self.unsent.append(piece)
        self.unsent_bytes += len(piece)
        self.is_behind = True

    def send_range(self, piece: FileRange, start: int, most: int) -> int:
        """Send bytes of a file. Return how many the socket has taken. Raises OSError."""
        return piece.send(self.sock, start, most)

    @property
    def held_bytes(self) -> int:
        """How many bytes are held because the socket has not taken them."""
        return self.unsent_bytes

    def send_kept(self, most: int) -> int:
        """Send up to `most` of the kept bytes. Return how many the socket has taken. Raises OSError."""
        taken = 0
        while self.unsent and taken < most:
            piece, start = self.unsent[0], self._taken
            wanted = min(len(piece) - start, most - taken)
            try:
                if isinstance(piece, FileRange):
                    sent = self.send_range(piece, start, wanted)
                else:
                    sent = self.send(memoryview(piece)[start : start + wanted])
            except (BlockingIOError, InterruptedError):
                break
            taken += sent
            self._taken += sent
            if self._taken == len(piece):
                self.unsent_bytes -= len(self.unsent.pop(0))
                self._taken = 0
            if sent < wanted:
                break
        self.is_behind = bool(self.unsent)
        return taken

    def close(self) -> None:
        """Close the socket, and drop the unsent responses."""
        self.sock.close()
        self.unsent.clear()


class SecureLink(Link):
    """A link with TLS."""

    __slots__ = ("_empty_bytes", "_heard_bytes", "_incoming", "_outgoing", "_sealed", "_tls")

    def __init__(self, sock: socket.socket, connection: Connection, since_s: float = 0.0) -> None:
        super().__init__(sock, connection, since_s)
        self.is_handshaking = True
        self._tls: ssl.SSLObject  # made with the first bytes: a silent client costs no more than without TLS
        self._incoming: ssl.MemoryBIO
        self._outgoing: ssl.MemoryBIO
        self._sealed = b""  # encrypted data that the socket has not taken yet
        self._heard_bytes = 0  # during the handshake
        self._empty_bytes = 0  # received since the handshake, beyond the data and its usual overhead
        self.receive = self._receive
        self.send = self._send

    @property
    def held_bytes(self) -> int:
        return self.unsent_bytes + len(self._sealed)

    def continue_handshake(self) -> bytes | None:
        """Read and write what the handshake needs. Return the data behind its end, None while it is not complete.

        Raises HandshakeError, BlockingIOError, and other OSErrors of the socket.
        """
        chunk = self.sock.recv(SECURE_CHUNK_BYTES)
        if not chunk:
            raise ConnectionError("the client has left during the handshake")
        if not self._heard_bytes:
            if chunk[0] != HANDSHAKE:
                raise HandshakeError("the client does not speak TLS")
            self._begin()
        self._heard_bytes += len(chunk)
        if self._heard_bytes > HANDSHAKE_BYTES_MAX:
            raise HandshakeError(f"more than {HANDSHAKE_BYTES_MAX} bytes of a handshake")
        self._incoming.write(chunk)
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return None
        except ssl.SSLError as error:
            with contextlib.suppress(OSError):
                self._flush()  # the alert tells the client the reason
            raise HandshakeError(_describe(error)) from None
        self._flush()
        self.is_handshaking = False
        return self._decrypt()

    def _begin(self) -> None:
        tls = self.connection.listener.tls
        assert tls is not None, "a listener without TLS has no secure links"
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = tls.context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    def find_principal(self) -> Principal | None:
        """Return the principal of the client's certificate, None if it has shown none. Raises HandshakeError."""
        certificate = self._tls.getpeercert(binary_form=True)
        tls = self.connection.listener.tls
        assert tls is not None, "a listener without TLS has no secure links"
        try:
            return None if certificate is None else tls.principal_of(certificate)
        except (NoRuleError, UnreadableSubjectError) as error:
            raise HandshakeError(str(error)) from None

    def _receive(self, most: int) -> bytes:
        chunk = self.sock.recv(SECURE_CHUNK_BYTES)
        if not chunk:
            return b""
        self._incoming.write(chunk)
        self._empty_bytes += len(chunk)
        data = self._decrypt()
        if self._empty_bytes > EMPTY_BYTES_MAX:
            raise EmptyRecordsError(f"more than {EMPTY_BYTES_MAX} bytes of TLS without a request")
        if data is None:
            raise BlockingIOError  # a part of a record, or a record without data
        return data

    def _decrypt(self) -> bytes | None:
        """Return all data that can be decrypted, None if there is none yet, b"" at the end. Raises OSError."""
        read = self._tls.read
        try:
            data = read(RECORD_BYTES)
        except ssl.SSLWantReadError:
            data = None
        except ssl.SSLError as error:
            if isinstance(error, ssl.SSLZeroReturnError):
                return b""
            raise
        records = 1
        if data and self._incoming.pending:
            pieces = [data]
            try:
                while piece := read(RECORD_BYTES):
                    pieces.append(piece)
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLZeroReturnError:
                pass  # the next read raises this again
            records, data = len(pieces), b"".join(pieces)
        if data:
            self._empty_bytes = max(0, self._empty_bytes - len(data) - records * RECORD_OVERHEAD_BYTES)
        if self._outgoing.pending:  # the response to a key update, or an alert
            self._flush()
        return data

    def _send(self, data: bytes | memoryview) -> int:
        """Encrypt and send as much as the socket takes. The rest of a record is kept, and counts as sent."""
        sent, total = 0, len(data)
        while sent < total:
            if self._sealed and not self._flush():
                break
            sent += self._tls.write(data if total <= RECORD_BYTES else memoryview(data)[sent : sent + RECORD_BYTES])
            if not self._flush():
                break
        if not sent:
            raise BlockingIOError
        return sent

    def send_range(self, piece: FileRange, start: int, most: int) -> int:
        return self._send(piece.read(start, min(most, SECURE_STEP_BYTES)))

    def send_kept(self, most: int) -> int:
        sealed = len(self._sealed)
        if sealed and not self._flush():
            return sealed - len(self._sealed)
        taken = sealed + super().send_kept(most)
        self.is_behind = bool(self.unsent or self._sealed)
        return taken

    def _flush(self) -> bool:
        """Send the encrypted data. Return whether the socket has taken all of it. Raises OSError."""
        sealed = self._sealed + self._outgoing.read() if self._sealed else self._outgoing.read()
        try:
            sent = self.sock.send(sealed) if sealed else 0
        except (BlockingIOError, InterruptedError):
            sent = 0
        self._sealed = sealed[sent:]
        self.is_behind = bool(self._sealed or self.unsent)
        return not self._sealed

    def close(self) -> None:
        """Send close_notify if the socket takes it, and close."""
        if not self.is_handshaking and not self._sealed:
            with contextlib.suppress(OSError):
                self._tls.unwrap()
            with contextlib.suppress(OSError):
                self._flush()
        super().close()
        self.receive, self.send = self.sock.recv, self.sock.send  # break the reference cycle


def _describe(error: ssl.SSLError) -> str:
    """Return why a handshake has failed, in words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is not accepted: {error.verify_message}"
    return (error.reason or str(error)).replace("_", " ").lower()
