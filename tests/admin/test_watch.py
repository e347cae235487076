"""`GET /v1/watch`, and the files of the page, without a browser."""

import itertools
import json
import re
from typing import Any

import pytest
import trio
from trio.testing import MockClock, memory_stream_pair

from coordinator.admin import http, watch
from coordinator.admin.control import control_operations
from coordinator.admin.files import add_page
from coordinator.admin.http import Hosts, Request, Response
from coordinator.admin.operations import add_operations
from coordinator.admin.router import Router
from coordinator.admin.watch import WATCHERS_MAX, Watcher
from coordinator.events import Events, Ring
from coordinator.server.verbs import overview
from tests.admin.produced import produce
from tests.control.steered import SteeredNode
from tests.members import ConsumerMember
from tests.requests import commit

pytestmark = pytest.mark.filterwarnings("ignore:.*never awaited")


class WatchStream:
    """A server in memory with its control API."""

    def __init__(self, **values: Any) -> None:
        self.server = SteeredNode(**values)
        self.server.operator.clock.set_rate(0)  # real time passes, and that of the server in memory does not
        self.ring = Ring()
        self.told = 0
        self.router = Router()
        add_operations(self.router, control_operations(self.server.operator, self.ring, 9092))
        add_page(self.router)

    async def watch(self, query: str = "") -> Watcher:
        watcher = await self.router(Request("GET", "/v1/watch", query))
        assert isinstance(watcher, Watcher)
        return watcher

    def tell(self) -> None:
        """Put what has happened into the ring, as the server does."""
        events = Events(self.ring)
        for event in self.server.events[self.told :]:
            events.tell(event)
        self.told = len(self.server.events)


async def message(watcher: Watcher) -> Any:
    """The next message."""
    chunk = await watcher.next_chunk()
    assert chunk.startswith(b"data: ") and chunk.endswith(b"\n\n") and chunk.count(b"\n") == 2
    return json.loads(chunk[6:])


async def test_the_first_message_has_everything_and_the_next_what_is_different(autojump_clock: MockClock) -> None:
    here = WatchStream()
    peer = here.server.connect()
    produce(peer, 0, b"1", b"2", b"3")
    peer.ask(commit("shop", {"orders": {0: 1, 1: 0}}), 8)
    peer.ask(commit("bakery", {"orders": {1: 0}}), 8)
    here.tell()
    watcher = await here.watch("group=shop")
    first = await message(watcher)
    assert first["first"] and first["total"] == 2
    summary = {"type": "classic", "state": "Empty", "generation": 0, "members": 0}
    assert first["groups"] == [{"group": "bakery", **summary, "lag": None}, {"group": "shop", **summary, "lag": 2}]
    position = {"topic": "orders", "partition": 0, "committed": 1, "end": 3, "lag": 2, "owners": []}
    without_log = {"topic": "orders", "partition": 1, "committed": 0, "end": None, "lag": None, "owners": []}
    assert first["group"]["positions"] == [position, without_log]
    assert first["faults"] == []
    assert first["events"] == []

    peer.ask(commit("shop", {"orders": {0: 3}}), 8)
    second = await message(watcher)
    assert not second["first"]
    assert second["groups"] == [{"group": "shop", **summary, "lag": 0}]
    assert (second["gone"], second["events"], second["faults"]) == ([], [], None)
    here.server.operator.groups.forget("shop")
    here.tell()
    third = await message(watcher)
    assert (third["gone"], third["groups"], third["group"], third["is_group_gone"]) == (["shop"], [], None, True)
    assert [one["cause"]["kind"] for one in third["events"]] == ["group_forgotten"]
    other = await message(await here.watch("group=bakery"))
    assert other["events"] == [], "those of the watched group only"


async def test_an_offset_beyond_the_end_is_below_zero_and_makes_up_for_no_lag(autojump_clock: MockClock) -> None:
    here = WatchStream()
    peer = here.server.connect()
    produce(peer, 0, b"1", b"2", b"3")
    produce(peer, 1, b"1")
    peer.ask(commit("shop", {"orders": {0: 1, 1: 9}}), 8)
    found = await message(await here.watch("group=shop"))
    assert [one["lag"] for one in found["groups"]] == [2]
    assert [one["lag"] for one in found["group"]["positions"]] == [2, -8]


async def test_members_owners_and_deadlines_of_the_watched_group(autojump_clock: MockClock) -> None:
    here = WatchStream()
    member = ConsumerMember(here.server.connect("anna"), "anna")
    member.beat()
    watcher = await here.watch("group=g")
    found = await message(watcher)
    assert found["groups"][0]["members"] == 1
    (listed,) = found["group"]["view"]["members"]
    assert listed["client_id"] == "anna"
    assert {tuple(one["owners"]) for one in found["group"]["positions"]} == {(listed["member_id"],)}
    assert {one["kind"] for one in found["clock"]["deadlines"]} >= {"session"}
    assert {one["group"] for one in found["clock"]["deadlines"]} == {"g"}


async def test_a_clock_that_is_moved_and_a_fault_are_told(autojump_clock: MockClock) -> None:
    here = WatchStream()
    watcher = await here.watch()
    await message(watcher)
    before = here.server.operator.clock.state().now_ms
    here.server.operator.clock.advance(60_000, lambda group, member: True)
    assert (await message(watcher))["clock"]["now_ms"] >= before + 60_000
    rule = here.server.operator.requests.hold("g", "join")[0]
    found = await message(watcher)
    assert [one["number"] for one in found["faults"]] == [rule.number]
    here.server.operator.requests.remove_faults()
    assert (await message(watcher))["faults"] == []


async def test_of_many_events_the_newest_are_told(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "EVENTS_MAX", 3)
    here = WatchStream()
    watcher = await here.watch()
    await message(watcher)
    for number in range(5):
        ConsumerMember(here.server.connect(), f"m{number}", f"g{number}").beat()
    here.tell()
    told = [one["group"] for one in (await message(watcher))["events"]]
    assert len(told) == 3 and told[-1] == "g4", told


async def test_a_reset_begins_anew(autojump_clock: MockClock) -> None:
    here = WatchStream()
    here.server.connect().ask(commit("shop", {"orders": {0: 1}}), 8)
    watcher = await here.watch("group=shop")
    assert (await message(watcher))["groups"]
    here.server.operator.state.reset()
    found = await message(watcher)
    assert found["first"] and found["groups"] == [] and found["group"] is None
    here.server.connect().ask(commit("shop", {"orders": {0: 1}}), 8)
    assert [one["group"] for one in (await message(watcher))["groups"]] == ["shop"]


@pytest.mark.parametrize("is_restored", [False, True])
async def test_a_message_with_everything_is_that_of_a_watcher_who_comes_anew(
    autojump_clock: MockClock, is_restored: bool
) -> None:
    here = WatchStream()
    state = here.server.operator.state
    here.server.connect().ask(commit("shop", {"orders": {0: 1}}), 8)
    state.take_snapshot("s")
    watcher = await here.watch("group=shop")
    await message(watcher)
    if is_restored:
        state.restore("s")
    else:
        state.reset()
    told, anew = await message(watcher), await message(await here.watch("group=shop"))
    assert told["first"] and anew["first"]
    assert told | {"clock": None} == anew | {"clock": None}


async def test_a_look_that_takes_long_is_followed_by_a_rest(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = WatchStream()
    watcher = await here.watch()
    monkeypatch.setattr(watch, "monotonic", itertools.count().__next__)  # each part of a look takes a second
    await message(watcher)
    began = trio.current_time()
    here.server.connect().ask(commit("shop", {"orders": {0: 1}}), 8)
    await message(watcher)
    assert trio.current_time() - began >= watch.SHARE


async def test_nothing_is_sent_while_nothing_changes_but_a_sign_of_life(autojump_clock: MockClock) -> None:
    here = WatchStream()
    watcher = await here.watch()
    await message(watcher)
    began = trio.current_time()
    assert await watcher.next_chunk() == b": still here\n\n"
    assert trio.current_time() - began >= watch.SILENCE_SECONDS


async def test_a_look_is_bounded(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "GROUPS_MAX", 3)
    monkeypatch.setattr(overview, "OFFSETS_MAX", 2)
    monkeypatch.setattr(overview, "LOOKED_AT_ONCE", 2)
    here = WatchStream(offsets_topic_num_partitions=1)
    peer = here.server.connect()
    produce(peer, 0, b"1")
    for group in ("a", "b", "c", "d", "other"):
        peer.ask(commit(group, {"orders": {0: 0}}), 8)
    found = await message(await here.watch())
    assert (found["total"], [(one["group"], one["lag"]) for one in found["groups"]]) == (
        5,
        [("a", 1), ("b", 1), ("c", None)],
    )
    found = await message(await here.watch("prefix=o"))
    assert (found["total"], [one["group"] for one in found["groups"]]) == (1, ["other"])


async def test_only_so_many_watch_and_a_place_is_free_again(autojump_clock: MockClock) -> None:
    here = WatchStream()
    watchers = [await here.watch() for _ in range(WATCHERS_MAX)]
    refused = await here.router(Request("GET", "/v1/watch"))
    assert isinstance(refused, Response)
    assert (refused.status, b"16 clients watch already" in refused.body) == (503, True)
    watchers[0].close()
    await here.watch()


async def test_over_http_it_comes_in_chunks_until_the_client_leaves(autojump_clock: MockClock) -> None:
    here = WatchStream()
    ours, theirs = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(converse, theirs, here.router)
        await ours.send_all(b"GET /v1/watch HTTP/1.1\r\nHost: x\r\n\r\n")
        seen = b""
        while b'"first":true' not in seen:
            seen += await ours.receive_some(65_536)
        head, _, _ = seen.partition(b"\r\n\r\n")
        assert b"Content-Type: text/event-stream" in head and b"chunked" in head.lower()
        here.server.connect().ask(commit("shop", {"orders": {0: 1}}), 8)
        while b'"group":"shop"' not in seen:
            seen += await ours.receive_some(65_536)
        await ours.aclose()
    for _ in range(WATCHERS_MAX):  # its place is free
        await here.watch()


async def converse(stream: trio.abc.Stream, router: Router) -> None:
    """A conversation that ends with its client, as `serve` sees it."""
    try:
        await http.conversation(stream, router, Hosts())
    except trio.BrokenResourceError:
        await stream.aclose()


async def test_a_head_of_a_stream_is_no_stream(autojump_clock: MockClock) -> None:
    here = WatchStream()
    ours, theirs = memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(converse, theirs, here.router)
        await ours.send_all(b"HEAD /v1/watch HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"text/event-stream" in await ours.receive_some(65_536)
        await ours.aclose()
    for _ in range(WATCHERS_MAX):
        await here.watch()


async def test_the_page_comes_with_a_policy_and_names_no_other_server() -> None:
    router = WatchStream().router
    page = await router(Request("GET", "/"))
    assert isinstance(page, Response)
    assert page.content_type == "text/html; charset=utf-8"
    policy = dict(page.headers)["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    parts = re.findall(r'(?:src|href)="(page/[^"]+)"', page.body.decode())
    assert len(parts) == 3
    for part in parts:
        answer = await router(Request("GET", f"/{part}"))
        assert isinstance(answer, Response) and answer.status == 200
        text = answer.body.decode().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|//[a-z]+\.|@import", text), part
        assert not re.search(r"\.(inner|outer)HTML\s*[+]?=[^=]|insertAdjacentHTML|document\.write|\beval\(", text), part
    assert not re.search(r'\son\w+=|<style|<script>|style="', page.body.decode()), "which the policy would refuse"
