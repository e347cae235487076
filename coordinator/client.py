"""A small blocking Kafka client: one request at a time, for the admin commands and for tests. No groups, no retries
but the obvious.

with Client.to("127.0.0.1:9092") as client:
    answer = client.ask(ListGroupsRequest())
"""

import socket
from types import TracebackType
from typing import Any, Final

from protocol.apis import API, APIS, api_of
from protocol.codec import decode_response, encode_request
from protocol.errors import ErrorCode, ProtocolError
from protocol.framing import FrameBuffer
from protocol.messages.api_versions import ApiVersionsRequest
from protocol.schema import Message

ANSWER_BYTES_MAX: Final = 256 * 1024 * 1024


class ClientError(Exception):
    """The broker cannot be reached, or does not speak what is asked. One line, for a person."""


class Client:
    """A connection to one broker. Each request goes in the newest version that both sides know."""

    def __init__(self, sock: socket.socket, client_id: str = "muster") -> None:
        self._sock = sock
        self._client_id = client_id
        self._frames = FrameBuffer(ANSWER_BYTES_MAX)
        self._correlation_id = 0
        self._versions: dict[int, range] = {}

    @classmethod
    def to(cls, address: str, *, seconds: float = 30.0, client_id: str = "muster") -> "Client":
        """Connect to `HOST:PORT`. Raises ClientError."""
        host, _, port = address.rpartition(":")
        try:
            sock = socket.create_connection((host.strip("[]") or "127.0.0.1", int(port)), timeout=seconds)
        except (OSError, ValueError) as error:
            raise ClientError(f"cannot reach {address}: {getattr(error, 'strerror', None) or error}") from None
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return cls(sock, client_id)

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._sock.close()

    def ask(self, message: Message, version: int | None = None, *, up_to: int | None = None) -> Any:
        """Send a request, and wait for its answer: in the newest version (up to `up_to`), or in exactly `version`.

        Raises ClientError when the broker has no such version, or goes away.
        """
        api = api_of(message)
        if version is None:
            version = self._newest(api, up_to)
        self._correlation_id += 1
        self._send(encode_request(api.key, version, self._correlation_id, self._client_id, message))
        try:
            response = decode_response(api.key, version, self._receive())
        except ProtocolError as error:
            raise ClientError(f"the broker's answer cannot be read: {error}") from None
        assert response.correlation_id == self._correlation_id, "answers come in the order of the requests"
        return response.body

    def send(self, message: Message, version: int) -> None:
        """Send a request whose answer is not awaited, or that has none."""
        self._correlation_id += 1
        self._send(encode_request(api_of(message).key, version, self._correlation_id, self._client_id, message))

    def versions(self, message: Message) -> range:
        """The versions of this request that both sides know; empty for none. Raises ClientError as `ask` does."""
        return self._common(api_of(message))

    def _newest(self, api: API, up_to: int | None) -> int:
        known = [version for version in self._common(api) if up_to is None or version <= up_to]
        if not known:
            raise ClientError(f"the broker does not speak {api.name} in a version known here")
        return known[-1]

    def _common(self, api: API) -> range:
        if not self._versions:
            answer = self.ask(ApiVersionsRequest("muster", "1"), version=3)
            if answer.error_code:
                raise ClientError(f"the broker refuses ApiVersions: {ErrorCode(answer.error_code).name}")
            self._versions = {one.api_key: range(one.min_version, one.max_version + 1) for one in answer.api_keys}
        theirs, ours = self._versions.get(api.key, range(0)), APIS[api.key].versions
        return range(max(theirs.start, ours.start), min(theirs.stop, ours.stop))

    def _send(self, frame: bytes) -> None:
        try:
            self._sock.sendall(frame)
        except OSError as error:
            raise ClientError(f"the broker went away: {error}") from None

    def _receive(self) -> bytes:
        for frame in self._frames:
            return frame
        while True:
            try:
                chunk = self._sock.recv(65_536)
            except TimeoutError:
                raise ClientError("the broker does not answer") from None
            except OSError as error:
                raise ClientError(f"the broker went away: {error}") from None
            if not chunk:
                raise ClientError("the broker closed the connection")
            self._frames.feed(chunk)
            for frame in self._frames:
                return frame
