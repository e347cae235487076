"""The admin port: its routes, and what it does with clients that are slow, rude or wrong."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock, memory_stream_pair

from coordinator.admin import http
from coordinator.admin.app import PAGE_EVENTS_MAX, Readiness, routes
from coordinator.admin.http import BODY_BYTES_MAX, Hosts, Pieces, Request, Response
from coordinator.admin.router import Router
from coordinator.core.events import Cause, Event
from coordinator.events import Ring


class Here:
    """An app whose readiness a test sets."""

    def __init__(self) -> None:
        self.readiness = Readiness(ready=True, loading=0, total=50)
        self.ring = Ring()
        self.app = routes(
            lambda: self.readiness,
            self.metrics,
            self.ring,
        )

    async def metrics(self, accept: str) -> tuple[bytes, str]:
        return b"muster_connections 1.0\n", "text/plain; version=0.0.4; charset=utf-8"

    def tell(self, *groups: str) -> None:
        """Something happens to each of them."""
        for group in groups:
            event = Event(1_700_000_000_000, group, Cause.MEMBER_JOINED, "Empty", "PreparingRebalance", 0)
            self.ring.add(group, msgspec.json.encode(event))


@asynccontextmanager
async def talking(handler: http.Handler, *names: str) -> AsyncIterator[trio.StapledStream]:
    """A connection to a server in memory."""
    ours, theirs = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(http.conversation, theirs, handler, Hosts(names))
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


async def test_readyz_names_partitions_that_are_closed_and_is_ready_all_the_same(autojump_clock: MockClock) -> None:
    here = Here()
    for is_ready, status in ((True, 200), (False, 503)):
        here.readiness = Readiness(ready=is_ready, loading=0, total=50, closed={"orders-0": "damaged"})
        async with talking(here.app) as stream:
            told = await said(stream, get("/readyz"))
        assert told.startswith(f"HTTP/1.1 {status} ")
        assert json.loads(told.partition("\r\n\r\n")[2])["closed"] == {"orders-0": "damaged"}


async def page(here: Here, query: str = "") -> dict[str, Any]:
    """What `/events` answers."""
    answer = await here.app(Request("GET", "/events", query))
    assert (answer.status, answer.content_type) == (200, "application/json")
    found: dict[str, Any] = json.loads(answer.body)
    return found


@pytest.mark.parametrize(
    ("query", "numbers"),
    [
        ("", [1, 2, 3, 4]),
        ("after=2", [3, 4]),
        ("group=a%2Fb+c", [2, 4]),
        ("group=a%2Fb+c&after=2", [4]),
        ("after=4", []),
        ("after=9", []),
        ("group=", []),
        ("group=nobody", []),
    ],
)
async def test_events_of_a_group_and_after_a_number(query: str, numbers: list[int]) -> None:
    here = Here()
    here.tell("shop", "a/b c", "shop", "a/b c")
    found = await page(here, query)
    assert ([one["number"] for one in found["events"]], found["latest"]) == (numbers, 4)


async def test_a_page_of_events_is_bounded_and_the_next_one_goes_on_behind_it() -> None:
    here = Here()
    here.tell(*["shop"] * (PAGE_EVENTS_MAX + 1))
    first = await page(here)
    assert len(first["events"]) == PAGE_EVENTS_MAX
    assert first["latest"] > (seen := first["events"][-1]["number"])
    assert [one["number"] for one in (await page(here, f"after={seen}"))["events"]] == [PAGE_EVENTS_MAX + 1]


@settings(max_examples=40)
@given(st.lists(st.integers(0, 30), max_size=12), st.integers(150, 400), st.integers(1, 5), st.data())
def test_pages_of_events_are_as_long_as_they_may_be(
    sizes: list[int], bytes_max: int, events_max: int, data: st.DataObject
) -> None:
    """Each page ends before the event that would make it too large, but has one; together they are all events."""
    here = Here()
    here.tell(*["s" * size for size in sizes])
    lengths = [len(event) for _, event in here.ring.after(0)]
    bytes_max = data.draw(
        st.sampled_from([bytes_max, *(sum(lengths[:at]) - less for at in range(1, len(lengths)) for less in (0, 1))])
    )
    seen, whole = 0, list[str]()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("coordinator.admin.app.PAGE_BYTES_MAX", bytes_max)
        patched.setattr("coordinator.admin.app.PAGE_EVENTS_MAX", events_max)
        while seen < len(sizes):
            asking = page(here, f"after={seen}")
            with pytest.raises(StopIteration) as done:  # nothing in it waits
                asking.send(None)
            found = done.value.value["events"]
            fitting = [n for n in range(1, events_max + 1) if sum(lengths[seen : seen + n]) <= bytes_max]
            assert len(found) == min(max(fitting, default=1), len(sizes) - seen)
            assert [one["number"] for one in found] == [*range(seen + 1, seen + 1 + len(found))]
            whole += [one["event"]["group"] for one in found]
            seen += len(found)
    assert whole == ["s" * size for size in sizes]


@pytest.mark.parametrize(
    "query", ["after=--1", "after=x", "after=", "after=²", "since=3", "group", "after=1&after=2", f"after={'9' * 20}"]
)
async def test_what_is_no_question_about_events_is_a_400(query: str) -> None:
    answer = await Here().app(Request("GET", "/events", query))
    assert answer.status == 400
    assert answer.body.count(b"\n") == 1


async def test_silent_clients_keep_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """One connection too many ends the one that has been silent for the longest time, not the new one."""
    monkeypatch.setattr(http, "CONNECTIONS_MAX", 2)
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(http.serve, listener, Here().app, Hosts())
            busy, silent = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(2)]
            await busy.send_all(get("/healthz"))
            assert (await busy.receive_some()).startswith(b"HTTP/1.1 200 ")
            await trio.testing.wait_all_tasks_blocked()  # the silent one is accepted
            checking = await trio.open_tcp_stream("127.0.0.1", port)
            assert await silent.receive_some() == b""
            for stream in (checking, busy):
                await stream.send_all(get("/healthz"))
                assert (await stream.receive_some()).startswith(b"HTTP/1.1 200 ")
            nursery.cancel_scope.cancel()


async def test_head_has_no_body(autojump_clock: MockClock) -> None:
    async with talking(Here().app) as stream:
        answer = await said(stream, get("/healthz", "HEAD"))
    assert "Content-Length: 3\r\n" in answer
    assert answer.endswith("\r\n\r\n")


async def test_a_client_that_waits_for_leave_to_send_its_body_gets_it(autojump_clock: MockClock) -> None:
    """curl does so with a large body, and sends it a second later in any case."""
    router = Router()
    router.add("POST", "/size", lambda request: Response(str(len(request.body)).encode()))
    async with talking(router) as stream:
        head = f"POST /size HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: {BODY_BYTES_MAX}\r\n\r\n"
        assert await said(stream, head.encode()) == "HTTP/1.1 100 \r\n\r\n"
        assert (await said(stream, bytes(BODY_BYTES_MAX))).endswith(f"\r\n\r\n{BODY_BYTES_MAX}"), "exactly at the bound"


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (
            b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (BODY_BYTES_MAX + 1)
            + bytes(BODY_BYTES_MAX + 1),
            413,
        ),
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
                await http.conversation(theirs, Here().app, Hosts())

        nursery.start_soon(serve)
        assert (await said(ours, request_)).startswith(f"HTTP/1.1 {status} ")
        assert await ours.receive_some() == b""


@pytest.mark.parametrize(
    "request_",
    [
        b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET http://x/healthz HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET healthz HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /healthz\\.. HTTP/1.1\r\nHost: x\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
        get("//healthz"),
        get("/./healthz"),
        get("/metrics/../healthz"),
        get("/metrics/%2e%2E/healthz"),
        get("/healthz/"),
        get("/%ff"),
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nOrigin: http://x\r\nOrigin: http://y\r\n\r\n",
        b"GET /healthz#x HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
async def test_what_could_be_read_in_two_ways_is_refused(request_: bytes, autojump_clock: MockClock) -> None:
    async with talking(Here().app) as stream:
        assert (await said(stream, request_)).startswith("HTTP/1.1 400 ")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "127.0.0.1:8092"}, 200),
        ({"host": "[::1]:8092"}, 200),
        ({"host": "[fe80::1%25eth0]"}, 200),
        ({"host": "localhost:8092"}, 200),
        ({"host": "a.localhost"}, 200),
        ({"host": "muster:8092"}, 200),
        ({"host": "Muster.Test.:8092"}, 200),
        ({"host": "evil.example"}, 403),
        ({"host": "127.0.0.1.evil.example:8092"}, 403),
        ({"host": "muster.test.evil.example"}, 403),
        ({"host": "localhost", "origin": "http://localhost"}, 200),
        ({"host": "localhost:8092", "origin": "http://localhost:8092"}, 200),
        ({"host": "localhost:8092", "origin": "http://localhost:3000"}, 403),
        ({"host": "localhost:8092", "origin": "http://muster.test:3000"}, 200),
        ({"host": "localhost:8092", "origin": "https://evil.example"}, 403),
        ({"host": "localhost:8092", "origin": "null"}, 403),
        ({"host": "localhost:8092", "origin": "http://[evil"}, 403),
        ({}, 200),
    ],
)
async def test_other_sites_may_not_ask(headers: dict[str, str], status: int, autojump_clock: MockClock) -> None:
    """DNS rebinding leads a page of `evil.example` to this port, with that name as its Host."""
    version = "1.1" if "host" in headers else "1.0"
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    async with talking(Here().app, "muster.test") as stream:
        answer = await said(stream, f"GET /healthz HTTP/{version}\r\n{lines}\r\n".encode())
    assert answer.startswith(f"HTTP/1.1 {status} ")


@given(
    host=st.sampled_from(["localhost:8092", "muster:8092", "127.0.0.1:8092", "[::1]:8092", "localhost"]),
    before=st.sampled_from(["", "evil", "evil.", "evil-", "localhost@", "evil.example/", "//"]),
    after=st.sampled_from(["", ".evil.example", ":80", "0", "/", "?", "@evil.example"]),
    scheme=st.sampled_from(["http", "https"]),
)
def test_an_origin_is_ours_only_if_it_is_all_of_our_host(host: str, before: str, after: str, scheme: str) -> None:
    refusal = Hosts(("muster.test",)).refusal({"host": host, "origin": f"{scheme}://{before}{host}{after}"})
    assert (refusal is None) == (before == after == "")


@given(before=st.sampled_from(["", "evil", "evil.", "x-"]), after=st.sampled_from(["", ":3000", ".evil.example", "x"]))
def test_an_origin_is_allowed_only_by_its_whole_name(before: str, after: str) -> None:
    headers = {"host": "localhost:8092", "origin": f"http://{before}muster.test{after}"}
    assert (Hosts(("muster.test",)).refusal(headers) is None) == (before == "" and after in ("", ":3000"))


async def test_a_route_gets_its_parameters_the_headers_and_the_body(autojump_clock: MockClock) -> None:
    router = Router()

    def rename(request: Request) -> Response:
        return Response(repr((request.parameters, request.query, request.headers["x-a"], request.body)).encode())

    router.add("POST", "/v1/groups/{group}/name", rename)
    router.add("GET", "/v1/groups/{group}", lambda request: Response(b""))
    async with talking(router) as stream:
        head = "POST /v1/groups/a%2Fb%20c/name?x=1 HTTP/1.1\r\nHost: x\r\nX-A: y\r\nContent-Length: 2\r\n\r\n{}"
        answer = await said(stream, head.encode())
        assert answer.endswith("\r\n\r\n" + repr(({"group": "a/b c"}, "x=1", "y", b"{}")))
        answer = await said(stream, get("/v1/groups/g", "DELETE"))
        assert "\r\nAllow: GET, HEAD\r\n" in answer


async def test_a_page_of_events_is_bounded_by_its_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.admin.app.PAGE_BYTES_MAX", 1_000)
    here = Here()
    here.tell(*["shop"] * 20)
    first = await page(here)
    assert 1 < len(first["events"]) < 10
    here.tell("s" * 2_000)
    assert len((await page(here, "after=20"))["events"]) == 1, "an event by itself, however large it is"


async def test_a_client_that_says_nothing_is_let_go(autojump_clock: MockClock) -> None:
    ours, theirs = memory_stream_pair()
    with pytest.raises(trio.TooSlowError):
        await http.conversation(theirs, Here().app, Hosts())
    await ours.aclose()


async def test_a_handler_that_fails_is_a_500_and_the_next_request_is_served(autojump_clock: MockClock) -> None:
    calls = []

    async def fails_once(request: Request) -> Response:
        calls.append(request.path)
        if len(calls) == 1:
            raise RuntimeError("boom")
        return Response(b"fine\n")

    async with talking(fails_once) as stream:
        assert (await said(stream, get("/a"))).startswith("HTTP/1.1 500 ")
        assert (await said(stream, get("/b"))).endswith("fine\n")


async def test_a_handler_may_take_longer_than_a_request_takes_to_arrive(autojump_clock: MockClock) -> None:
    """`/v1/wait` and a rolling restart answer when something has happened, minutes later."""

    async def handler(request: http.Request) -> http.Response:
        await trio.sleep(10 * http.REQUEST_SECONDS)
        return http.Response(b"at last\n")

    async with talking(handler) as stream:
        await stream.send_all(get("/v1/wait"))
        answer = b""
        while not answer.endswith(b"at last\n"):
            chunk = await stream.receive_some(65_536)
            assert chunk, "the connection was closed before the answer"
            answer += chunk


async def test_a_stream_that_ends_ends_its_response(autojump_clock: MockClock) -> None:
    async def app(request: Request) -> Pieces:
        return Pieces(iter((b"one", b"two")), "text/plain")

    async with talking(app) as stream:
        answer = await said(stream, get("/whole"))
    head, _, body = answer.partition("\r\n\r\n")
    assert "transfer-encoding: chunked" in head.lower()
    assert body == "3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"
