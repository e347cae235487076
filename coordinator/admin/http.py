"""HTTP/1.1 on Trio: h11 reads and writes the protocol, Trio the sockets. Knows no routes."""

import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Final

import h11
import trio
from msgspec import Struct

from coordinator.admin import CONNECTIONS_MAX

log = logging.getLogger("muster.admin")

BODY_BYTES_MAX: Final = 1_048_576
REQUEST_SECONDS: Final = 30.0  # for a request to arrive, and for its answer to leave


class Asked(Struct, frozen=True):
    """A request: the path without its query, both still percent-encoded. No route wants a body."""

    method: str
    path: str
    query: str = ""


class Answer(Struct, frozen=True):
    """A response, whole."""

    body: bytes
    status: int = 200
    content_type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = ()


Handler = Callable[[Asked], Awaitable[Answer]]


async def serve(listener: trio.SocketListener, handler: Handler) -> None:
    """Answer HTTP until cancelled; a client that is slow or speaks nonsense loses its connection, nobody else, and so
    does one too many: it would hold a descriptor while it waits."""
    talking = 0

    async def talk(stream: trio.SocketStream) -> None:
        nonlocal talking
        talking += 1
        try:
            async with stream:
                if talking <= CONNECTIONS_MAX:
                    await conversation(stream, handler)
        except (trio.BrokenResourceError, trio.ClosedResourceError, trio.TooSlowError, h11.ProtocolError) as error:
            log.debug("admin connection ended: %s", error)
        finally:
            talking -= 1

    await trio.serve_listeners(talk, [listener])


async def conversation(stream: trio.abc.Stream, handler: Handler) -> None:
    """One connection's requests, one after the other."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=16_384)
    while True:
        with trio.fail_after(REQUEST_SECONDS):
            try:
                asked = await _read(stream, connection)
            except h11.RemoteProtocolError as error:
                await _send(stream, connection, Answer(f"{error}\n".encode(), error.error_status_hint), close=True)
                return
            if asked is None:
                return
            try:
                answer = await handler(asked)
            except Exception:
                log.exception("admin %s %s failed", asked.method, asked.path)
                answer = Answer(b"the server failed to answer; its log says why\n", 500)
            await _send(stream, connection, answer, bodiless=asked.method == "HEAD")
        if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
            return
        connection.start_next_cycle()


async def _read(stream: trio.abc.Stream, connection: h11.Connection) -> Asked | None:
    """The next request whole, or None when the client has left."""
    head: h11.Request | None = None
    body_bytes = 0
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            if connection.they_are_waiting_for_100_continue:
                go_on = h11.InformationalResponse(status_code=100, headers=[])
                await stream.send_all(connection.send(go_on) or b"")
            connection.receive_data(bytes(await stream.receive_some(16_384)))
        elif isinstance(event, h11.Request):
            head = event
        elif isinstance(event, h11.Data):
            body_bytes += len(event.data)
            if body_bytes > BODY_BYTES_MAX:
                raise h11.RemoteProtocolError("the body is too large", error_status_hint=413)
        elif isinstance(event, h11.EndOfMessage):
            assert head is not None, "h11 gives the head first"
            path, _, query = head.target.decode("ascii", "replace").partition("?")
            return Asked(head.method.decode("ascii"), path, query)
        else:
            return None  # closed, or paused after a request that ended the connection


async def _send(
    stream: trio.abc.Stream, connection: h11.Connection, answer: Answer, *, close: bool = False, bodiless: bool = False
) -> None:
    if connection.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
        return
    headers = [
        ("Content-Type", answer.content_type),
        ("Content-Length", str(len(answer.body))),
        ("Cache-Control", "no-store"),
        *answer.headers,
        *([("Connection", "close")] if close else []),
    ]
    reason = HTTPStatus(answer.status).phrase.encode()
    events: list[h11.Event] = [h11.Response(status_code=answer.status, headers=headers, reason=reason)]
    if not bodiless:
        events.append(h11.Data(data=answer.body))
    parts = [connection.send(event) or b"" for event in (*events, h11.EndOfMessage())]
    await stream.send_all(b"".join(parts))
