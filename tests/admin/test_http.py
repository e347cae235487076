"""The admin port: its routes, and what it does with clients that are slow, rude or wrong."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock, memory_stream_pair

from coordinator.admin import http
from coordinator.admin.app import App, Readiness
from coordinator.admin.http import BODY_BYTES_MAX, Answer, Asked


class Here:
    """An app whose readiness a test sets."""

    def __init__(self) -> None:
        self.readiness = Readiness(ready=True, loading=0, total=50)
        self.app = App(lambda: self.readiness, lambda: b"muster_connections 1.0\n")


@asynccontextmanager
async def talking(handler: http.Handler) -> AsyncIterator[trio.StapledStream]:
    """A connection to a server in memory."""
    ours, theirs = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(http.conversation, theirs, handler)
        yield ours
        await ours.aclose()


async def said(stream: trio.StapledStream, request: bytes) -> str:
    """What comes back for a request, until the server falls silent."""
    await stream.send_all(request)
    answer = b""
    with trio.move_on_after(1):
        while chunk := await stream.receive_some(65_536):
            answer += chunk
    return answer.decode()


def get(path: str, method: str = "GET") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


async def test_healthz_says_ok(autojump_clock: MockClock) -> None:
    async with talking(Here().app) as stream:
        answer = await said(stream, get("/healthz"))
    assert answer.startswith("HTTP/1.1 200 OK\r\n")
    assert answer.endswith("\r\n\r\nok\n")


async def test_readyz_waits_for_all_partitions(autojump_clock: MockClock) -> None:
    here = Here()
    here.readiness = Readiness(ready=False, loading=3, total=50)
    async with talking(here.app) as stream:
        waiting = await said(stream, get("/readyz"))
        here.readiness = Readiness(ready=True, loading=0, total=50)
        ready = await said(stream, get("/readyz"))
    assert waiting.startswith("HTTP/1.1 503 ")
    assert waiting.endswith('{"ready": false, "partitions": {"loading": 3, "total": 50}}\n')
    assert ready.startswith("HTTP/1.1 200 "), "and the connection is kept between the two"


async def test_metrics_have_prometheus_content_type(autojump_clock: MockClock) -> None:
    async with talking(Here().app) as stream:
        answer = await said(stream, get("/metrics"))
    assert "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n" in answer


async def test_head_has_no_body(autojump_clock: MockClock) -> None:
    async with talking(Here().app) as stream:
        answer = await said(stream, get("/healthz", "HEAD"))
    assert "Content-Length: 3\r\n" in answer
    assert answer.endswith("\r\n\r\n")


@pytest.mark.parametrize(("request_", "status"), [(get("/nowhere"), 404), (get("/healthz", "POST"), 405)])
async def test_wrong_paths_and_methods(request_: bytes, status: int, autojump_clock: MockClock) -> None:
    async with talking(Here().app) as stream:
        assert (await said(stream, request_)).startswith(f"HTTP/1.1 {status} ")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"\x00\x00\x00\x16garbage\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 10_000, 431),
        (
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (2 * BODY_BYTES_MAX)
            + bytes(2 * BODY_BYTES_MAX),
            413,
        ),
    ],
)
async def test_nonsense_is_answered_and_the_connection_closed(
    request_: bytes, status: int, autojump_clock: MockClock
) -> None:
    ours, theirs = memory_stream_pair()
    async with trio.open_nursery() as nursery:

        async def serve() -> None:
            async with theirs:
                await http.conversation(theirs, Here().app)

        nursery.start_soon(serve)
        assert (await said(ours, request_)).startswith(f"HTTP/1.1 {status} ")
        assert await ours.receive_some() == b""


async def test_a_client_that_says_nothing_is_let_go(autojump_clock: MockClock) -> None:
    ours, theirs = memory_stream_pair()
    with pytest.raises(trio.TooSlowError):
        await http.conversation(theirs, Here().app)
    await ours.aclose()


async def test_a_handler_that_fails_is_a_500_and_the_next_request_is_served(autojump_clock: MockClock) -> None:
    calls = []

    async def fails_once(asked: Asked) -> Answer:
        calls.append(asked.path)
        if len(calls) == 1:
            raise RuntimeError("boom")
        return Answer(b"fine\n")

    async with talking(fails_once) as stream:
        assert (await said(stream, get("/a"))).startswith("HTTP/1.1 500 ")
        assert (await said(stream, get("/b"))).endswith("fine\n")
