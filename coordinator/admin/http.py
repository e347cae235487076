"""HTTP/1.1 on Trio: h11 reads and writes the protocol, Trio the sockets. Knows no routes.

A web page that a developer visits can make the browser send requests to this port. So requests are refused that carry
the `Origin` of another site, or a `Host` that only a name server on the internet could have led here (DNS rebinding).
"""

import ipaddress
import json
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Final, Protocol
from urllib.parse import urlsplit

import h11
import trio
from msgspec import Struct

from coordinator import own_modules
from coordinator.admin import CONNECTIONS_MAX

log = logging.getLogger("muster.admin")

BODY_BYTES_MAX: Final = 1_048_576
REQUEST_SECONDS: Final = 30.0  # for a request to arrive, and for its response to leave


class Request(Struct, frozen=True):
    """A request. The path has no query; both are still percent-encoded. Names of headers are in lower case."""

    method: str
    path: str
    query: str = ""
    headers: Mapping[str, str] = {}
    body: bytes = b""
    parameters: Mapping[str, str] = {}  # out of the path, decoded: the router fills them in


class Response(Struct, frozen=True):
    """A response, whole."""

    body: bytes
    status: int = 200
    content_type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()


def refuse(path: str, sentence: str, status: int, headers: tuple[tuple[str, str], ...] = ()) -> Response:
    """Make the response to a request that is refused: a line of text, or in the control API a JSON object."""
    if path.startswith("/v1/"):
        return Response(json.dumps({"error": sentence}).encode() + b"\n", status, "application/json", headers)
    return Response(f"{sentence}\n".encode("utf-8", "replace"), status, headers=headers)


class Stream(Protocol):
    """A response that comes in chunks, to its end or for as long as the client listens."""

    content_type: str

    async def next_chunk(self) -> bytes | None:
        """Return the next chunk, once there is one, and None at the end."""

    def close(self) -> None:
        """Forget the client: it has left, or has got everything."""


class Pieces:
    """A `Stream` of pieces that are made one after the other. Others have their turn in between."""

    def __init__(self, pieces: Iterator[bytes], content_type: str) -> None:
        self.content_type = content_type
        self._pieces = pieces

    async def next_chunk(self) -> bytes | None:
        await trio.lowlevel.checkpoint()
        return next(self._pieces, None)

    def close(self) -> None:
        """Do nothing: what is left is made by nobody."""


Handler = Callable[[Request], Awaitable[Response | Stream]]


class Hosts:
    """The `Host`, `Origin` and `Sec-Fetch-Site` headers that are accepted.

    The page of another site may lead a browser to ours, but start nothing here: not even by an image or a form, which
    have no `Origin`. A name server cannot lead a browser here by an address, by `localhost`, or by a name without a
    dot, so these are always accepted. Any other name is accepted if it is `allowed`.
    """

    def __init__(self, allowed: tuple[str, ...] = ()) -> None:
        self._allowed = frozenset(name.lower() for name in allowed)

    def refusal(self, headers: Mapping[str, str]) -> str | None:
        """Return why a request is refused, None if it is not."""
        host, origin = headers.get("host"), headers.get("origin")
        if host is not None and not self._is_local(name := _host_name(host)):
            return f"invalid Host {name!r}: expected an address, localhost, or a name in admin.allowed.hosts"
        if origin is None:
            site = headers.get("sec-fetch-site", "none")
            return None if _is_of_no_other_site(headers) else f"invalid Sec-Fetch-Site {site!r}: {_EXPECTED_SITE}"
        if host is not None and origin.lower().partition("://")[2] == host.lower():
            return None
        try:
            name = urlsplit(origin).hostname or ""
        except ValueError:
            name = ""
        if name not in self._allowed:
            return f"invalid Origin {origin!r}: expected this server's own, or a name in admin.allowed.hosts"
        return None

    def _is_local(self, name: str) -> bool:
        if name in self._allowed or name == "localhost" or name.endswith(".localhost"):
            return True
        try:
            ipaddress.ip_address(name.strip("[]").partition("%")[0])
        except ValueError:
            return bool(name) and "." not in name and ":" not in name
        return True


_EXPECTED_SITE: Final = "expected a request of this server's own page, or a visit of it"


def _is_of_no_other_site(headers: Mapping[str, str]) -> bool:
    """Return whether a browser sends this for our own page or for its user. Other clients say nothing of it."""
    if headers.get("sec-fetch-site", "none") in ("same-origin", "none"):
        return True
    return headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"


def _host_name(host: str) -> str:
    """Return the name or address of HOST, HOST:PORT or [ADDRESS]:PORT, in lower case and without a final dot."""
    if host.startswith("["):
        address, _, rest = host.partition("]")
        is_whole = not rest or (rest.startswith(":") and rest[1:].isdigit())
        return f"{address}]".lower() if is_whole else host.lower()
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower().rstrip(".")


class Connections:
    """The connections of the admin port. One too many ends the one that has been silent for the longest time.

    So whoever holds connections and says nothing keeps nobody out: a health check finds a place.
    """

    def __init__(self, connections_max: int) -> None:
        self._connections_max = connections_max
        self._open: dict[trio.CancelScope, None] = {}  # those that were heard last are at the end

    def __len__(self) -> int:
        return len(self._open)

    def enter(self) -> trio.CancelScope:
        """Make room for one more. Its task runs within the scope that is returned."""
        while len(self._open) >= self._connections_max:
            silent = next(iter(self._open))
            del self._open[silent]
            silent.cancel()
        scope = trio.CancelScope()
        self._open[scope] = None
        return scope

    def note_request(self, scope: trio.CancelScope) -> None:
        """Note that a connection has completed a request."""
        if scope in self._open:
            del self._open[scope]
            self._open[scope] = None

    def leave(self, scope: trio.CancelScope) -> None:
        """Forget a connection."""
        self._open.pop(scope, None)


async def serve(listener: trio.SocketListener, handler: Handler, hosts: Hosts) -> None:
    """Answer HTTP until cancelled. A client that is slow or breaks the protocol loses its own connection."""
    connections = Connections(CONNECTIONS_MAX)

    async def talk(stream: trio.SocketStream) -> None:
        scope = connections.enter()
        try:
            with scope:
                async with stream:
                    await conversation(stream, handler, hosts, lambda: connections.note_request(scope))
        except (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError, h11.ProtocolError) as error:
            log.debug("admin connection ended: %s", error)
        finally:
            connections.leave(scope)

    await trio.serve_listeners(talk, [listener])


async def conversation(
    stream: trio.abc.Stream, handler: Handler, hosts: Hosts, heard: Callable[[], None] = lambda: None
) -> None:
    """Answer the requests of one connection, one after the other. Calls `heard` for each."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=16_384)
    while True:
        with trio.fail_after(REQUEST_SECONDS):
            try:
                request = await _read(stream, connection)
            except h11.RemoteProtocolError as error:
                await _send(stream, connection, Response(f"{error}\n".encode(), error.error_status_hint), close=True)
                return
            if request is None:
                return
        heard()
        response = await _answer(handler, hosts, request)  # a wait, or a rolling restart, may take its time
        if not isinstance(response, Response):
            await _send_chunks(stream, connection, response, heard, bodiless=request.method == "HEAD")
            return
        with trio.fail_after(REQUEST_SECONDS):
            await _send(stream, connection, response, bodiless=request.method == "HEAD")
        if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
            return
        connection.start_next_cycle()


async def _answer(handler: Handler, hosts: Hosts, request: Request) -> Response | Stream:
    if refusal := hosts.refusal(request.headers):
        return refuse(request.path, refusal, 403)
    try:
        return await handler(request)
    except Exception as error:
        if own_modules.is_missing(error):
            raise
        log.exception("admin %s %s failed", request.method, request.path)
        return refuse(request.path, "the server failed to answer; its log says why", 500)


async def _read(stream: trio.abc.Stream, connection: h11.Connection) -> Request | None:
    """Return the next request whole, or None when the client has left. Raises RemoteProtocolError."""
    head: h11.Request | None = None
    body = bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            if connection.they_are_waiting_for_100_continue:
                go_on = h11.InformationalResponse(status_code=100, headers=[])
                await stream.send_all(connection.send(go_on) or b"")
            connection.receive_data(bytes(await stream.receive_some(16_384)))
        elif isinstance(event, h11.Request):
            head = event
            _refuse_ambiguous(head)
        elif isinstance(event, h11.Data):
            if len(body) + len(event.data) > BODY_BYTES_MAX:
                raise h11.RemoteProtocolError("the body is too large", error_status_hint=413)
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            assert head is not None, "h11 gives the head first"
            path, _, query = head.target.decode("ascii").partition("?")
            return Request(head.method.decode("ascii"), path, query, _headers(head), bytes(body))
        else:
            return None  # closed, or paused after a request that ended the connection


def _refuse_ambiguous(head: h11.Request) -> None:
    """Refuse a request of which two readers could make two different ones. Raises RemoteProtocolError."""
    names = [name for name, _ in head.headers]
    if b"content-length" in names and b"transfer-encoding" in names:
        raise h11.RemoteProtocolError("both Content-Length and Transfer-Encoding are given")
    if any(names.count(name) > 1 for name in (b"host", b"origin")):
        raise h11.RemoteProtocolError("Host or Origin is given twice")
    target = head.target
    if not target.startswith(b"/") or b"\\" in target or b"#" in target or not target.isascii():
        raise h11.RemoteProtocolError("invalid request target: expected a path that begins with /")


def _headers(head: h11.Request) -> dict[str, str]:
    return {name.decode("ascii"): value.decode("latin-1") for name, value in head.headers}


async def _send_chunks(
    stream: trio.abc.Stream,
    connection: h11.Connection,
    response: Stream,
    heard: Callable[[], None],
    *,
    bodiless: bool,
) -> None:
    """Send chunks to their end, or until the client has left. One that does not read loses its connection."""
    headers = [
        ("Content-Type", response.content_type),
        ("Cache-Control", "no-store"),
        ("X-Content-Type-Options", "nosniff"),
        ("Connection", "close"),
    ]
    try:
        data = connection.send(h11.Response(status_code=200, headers=headers, reason=b"OK")) or b""
        while True:
            with trio.fail_after(REQUEST_SECONDS):
                await stream.send_all(data)
            if bodiless or connection.our_state is not h11.SEND_BODY:
                return
            chunk = await response.next_chunk()
            heard()
            event = h11.EndOfMessage() if chunk is None else h11.Data(data=chunk)
            data = connection.send(event) or b""
    finally:
        response.close()


async def _send(
    stream: trio.abc.Stream,
    connection: h11.Connection,
    response: Response,
    *,
    close: bool = False,
    bodiless: bool = False,
) -> None:
    if connection.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
        return
    headers = [
        ("Content-Type", response.content_type),
        ("Content-Length", str(len(response.body))),
        ("Cache-Control", "no-store"),
        ("X-Content-Type-Options", "nosniff"),
        *response.headers,
        *([("Connection", "close")] if close else []),
    ]
    reason = HTTPStatus(response.status).phrase.encode()
    events: list[h11.Event] = [h11.Response(status_code=response.status, headers=headers, reason=reason)]
    if not bodiless:
        events.append(h11.Data(data=response.body))
    parts = [connection.send(event) or b"" for event in (*events, h11.EndOfMessage())]
    await stream.send_all(b"".join(parts))
