"""A small blocking Kafka client for the commands and the tests: one connection, one request at a time.

It belongs to no group, and it retries nothing.

    with Client.to("127.0.0.1:9092") as client:
        response = client.ask(ListGroupsRequest())
"""

import math
import socket
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Protocol

from coordinator.client.explanations import name_of
from protocol.apis import API, APIS, api_of
from protocol.codec import decode_response, encode_request
from protocol.errors import ProtocolError
from protocol.framing import FrameBuffer
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.schema import Message

RESPONSE_BYTES_MAX: Final = 256 * 1024 * 1024
RENEWAL_SHARE: Final = 0.85  # of the time that an authentication counts, after which it is done again, as by Kafka's
PATIENCE_SECONDS: Final = 1.0  # a response that takes longer is worth a word to the user


def _foreign_protocol(start: bytes) -> str | None:
    """Return the name of the protocol that a server seems to speak instead of Kafka's, None if there is none.

    Read as the size of a frame, the first four bytes of both are larger than any response may be.
    """
    if start.startswith(b"\x15\x03"):  # an alert: content type and major version of a TLS record
        return "TLS"
    return "HTTP" if start.startswith(b"HTTP/") else None


class ClientError(Exception):
    """The broker cannot be reached, or does not support a request. The message is one line for a person."""


class AuthenticationError(ClientError):  # reads as one
    """The broker does not accept the client's credentials. No other broker of its cluster would."""


class Security(Protocol):
    """How a client's connections are encrypted and authenticated."""

    def secure(self, sock: socket.socket, host: str) -> socket.socket:
        """Encrypt a new connection, if it is to be. Raises OSError."""

    def authenticate(self, client: "Client") -> float:
        """Authenticate. Returns for how many seconds that counts. Raises ClientError."""


class Client:
    """A connection to one broker. Each request is sent in the newest version that both sides support."""

    def __init__(
        self,
        sock: socket.socket,
        client_id: str = "muster",
        *,
        address: str = "the broker",
        seconds: float = 30.0,
        on_wait: Callable[[str], None] | None = None,
        security: Security | None = None,
    ) -> None:
        """`seconds` bounds the wait for one response. `on_wait` is told `address` once a response takes longer than
        PATIENCE_SECONDS."""
        self._sock = sock
        self._client_id = client_id
        self._address = address
        self._seconds = seconds
        self._on_wait = on_wait
        self._frames = FrameBuffer(RESPONSE_BYTES_MAX)
        self._correlation_id = 0
        self._versions: dict[int, range] = {}
        self._security = security
        self._authenticate_at_s = -math.inf if security is not None else math.inf
        self._is_new = True  # until a response has come
        self._is_served = False  # whether a response has come that strangers do not get

    @classmethod
    def to(
        cls,
        address: str,
        *,
        seconds: float = 30.0,
        client_id: str = "muster",
        on_wait: Callable[[str], None] | None = None,
        security: Security | None = None,
    ) -> "Client":
        """Connect to `HOST:PORT`. Raises ClientError."""
        host, _, port = address.rpartition(":")
        host = host.strip("[]") or "127.0.0.1"
        try:
            sock = socket.create_connection((host, int(port)), timeout=seconds)
            try:
                sock = sock if security is None else security.secure(sock, host)
            except BaseException:
                sock.close()
                raise
        except TimeoutError:
            raise ClientError(f"cannot connect to {address}: no reply within {seconds:g} s") from None
        except (OSError, ValueError) as error:
            raise ClientError(f"cannot connect to {address}: {getattr(error, 'strerror', None) or error}") from None
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return cls(sock, client_id, address=address, seconds=seconds, on_wait=on_wait, security=security)

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._sock.close()

    def ask(self, message: Message, version: int | None = None, *, up_to: int | None = None) -> Any:
        """Send a request and wait for its response: in the newest version (up to `up_to`), or in exactly `version`.

        Raises ClientError when the broker does not support such a version, closes the connection, or sends something
        else than the response.
        """
        if time.monotonic() >= self._authenticate_at_s:
            self._authenticate()
        api = api_of(message)
        if version is None:
            version = self._newest(api, up_to)
        self._send(api, version, message)
        try:
            response = decode_response(api.key, version, self._receive())
        except ProtocolError as error:
            raise ClientError(f"cannot read the response of {self._address}: {error}") from None
        if response.correlation_id != self._correlation_id:
            ids = f"correlation id {response.correlation_id}, expected {self._correlation_id}"
            raise ClientError(f"cannot read the response of {self._address}: {ids}")
        self._is_served |= api is not api_of(ApiVersionsRequest)
        return response.body

    def send(self, message: Message, version: int) -> None:
        """Send a request without waiting for its response, or one that has none."""
        self._send(api_of(message), version, message)

    def versions(self, message: Message) -> range:
        """Return the versions of this request that both sides support; empty for none. Raises ClientError as `ask`
        does."""
        return self._common(api_of(message))

    def _authenticate(self) -> None:
        """Authenticate, for the first time or again before the broker closes the connection (KIP-368)."""
        assert self._security is not None, "there is a time for it only then"
        self._authenticate_at_s = math.inf  # its own requests
        began_s = time.monotonic()
        self._authenticate_at_s = began_s + RENEWAL_SHARE * self._security.authenticate(self)

    def _newest(self, api: API, up_to: int | None) -> int:
        known = [version for version in self._common(api) if up_to is None or version <= up_to]
        if not known:
            raise ClientError(f"{self._address} does not support {api.name} in any version known here")
        return known[-1]

    def _common(self, api: API) -> range:
        if not self._versions:
            response = self.ask(ApiVersionsRequest("muster", "1"), version=3)
            if response.error_code:
                raise ClientError(f"{self._address} refuses ApiVersions: {name_of(response.error_code)}")
            self._versions = {one.api_key: range(one.min_version, one.max_version + 1) for one in response.api_keys}
        theirs, ours = self._versions.get(api.key, range(0)), APIS[api.key].versions
        return range(max(theirs.start, ours.start), min(theirs.stop, ours.stop))

    def _send(self, api: API, version: int, message: Message) -> None:
        self._correlation_id += 1
        try:
            frame = encode_request(api.key, version, self._correlation_id, self._client_id, message)
        except ProtocolError as error:  # a name that is not UTF-8, or too long
            raise ClientError(f"cannot send this request: {error}") from None
        try:
            self._sock.sendall(frame)
        except TimeoutError:
            raise ClientError(f"{self._address} does not read: gave up after {self._seconds:g} s") from None
        except OSError as error:
            raise ClientError(f"{self._address} closed the connection: {error.strerror or error}") from None

    def _guess(self) -> str:
        """Return why a broker may have closed the connection of a stranger."""
        return "" if self._is_served or self._security is not None else ": does it expect TLS or SASL?"

    def _receive(self) -> bytes:
        for frame in self._frames:
            return frame
        began = time.monotonic()
        deadline, tell_at = began + self._seconds, began + PATIENCE_SECONDS if self._on_wait else math.inf
        while True:
            until = min(deadline, tell_at)
            try:
                self._sock.settimeout(max(0.001, until - time.monotonic()))
                chunk = self._sock.recv(65_536)
            except TimeoutError:
                if until < deadline and self._on_wait is not None:
                    tell_at = math.inf
                    self._on_wait(self._address)
                    continue
                raise ClientError(f"{self._address} does not respond: gave up after {self._seconds:g} s") from None
            except OSError as error:
                raise ClientError(
                    f"{self._address} closed the connection: {error.strerror or error}{self._guess()}"
                ) from None
            finally:
                self._sock.settimeout(self._seconds)
            if not chunk:
                raise ClientError(f"{self._address} closed the connection{self._guess()}")
            if self._is_new and (foreign := _foreign_protocol(chunk)):
                raise ClientError(f"{self._address} speaks {foreign} instead of Kafka's protocol")
            self._is_new = False
            self._frames.feed(chunk)
            for frame in self._frames:
                return frame
