"""What holds of all calls of the control API, as their table has them: each field counts, and what is to be whole is whole
though its client leaves."""

import inspect
import itertools
import threading
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlencode

import msgspec
import pytest
import trio
from msgspec import Struct

from coordinator.admin import verb_calls
from coordinator.admin.control import control_operations
from coordinator.admin.http import Request
from coordinator.admin.operations import Input, Operation, Refusal
from coordinator.core.catalog.catalog import Catalog
from coordinator.events import Ring
from coordinator.server.verbs.state import State
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.control.control_port import ControlPort, having_turns
from tests.control.steered import SteeredNode, stable_group
from tests.requests import commit, fetch_offsets

FIELDS: Final[dict[str, Any]] = {
    "limit": 5, "mode": "rate", "rate": 2.0, "ms": 1, "keep_alive": ["a"], "prefix": "g", "group": "g", "reason": "why",
    "disconnect": True, "standbys": {}, "at": "join", "client": "a", "format": "json", "after": 0, "after_event": 0, "on": {"group": "g"},
    "do": {"hold": True}, "count": 2, "probability": 0.5, "seed": 3, "name": "two steps", "bytes_max": 1 << 20,
    "api": "JoinGroup", "topic": "orders", "in_order": True, "keep": ["g"], "topics": {"new": 1}, "offsets": {},
    "queues": {}, "to": 1, "type": "group", "load_ms": 1, "lose_last_commits": 1, "keep_members": False, "down_ms": 1,
    "partition": 0, "first": 0, "last": 0, "deliveries": 1, "offset": 0, "exists": True, "coordinator": 0, "fault": 1,
    "hits": 0, "timeout_ms": 0, "state": "Stable", "generation": 1, "assigned": {}, "tasks": {}, "records": {},
    "expect": [], "steps": [{"after": {"group": "never"}, "verb": {"rebalance": True}}],
}  # fmt: skip
"""A value of each field of a body or a query, whatever the call; and of those below by the path."""
OF_PATHS: Final[dict[str, dict[str, Any]]] = {
    "/v1/groups/{group}/target": {"members": {"a": {"orders": [0]}}},
    "/v1/groups/{group}/records": {"do": "release"},
    "/v1/wait": {"members": 1},
    "/v1/brokers/rolling-restart": {"down_ms": 0, "load_ms": 0},
}
PATH: Final = {"group": "g", "member": "a", "number": "1", "name": "kept", "broker": "1"}


class Names(dict[str, str]):
    """The names in a path, which remembers those that are read."""

    def __init__(self, names: dict[str, str], read: set[str]) -> None:
        super().__init__(names)
        self.read = read

    def __getitem__(self, name: str) -> str:
        self.read.add(name)
        return super().__getitem__(name)


def record_reads(kind: type[Struct], values: dict[str, Any], read: set[str]) -> Any:
    """A body or a query that remembers which of its fields are read."""

    def get(one: Any, name: str) -> Any:
        read.add(name)
        return kind.__getattribute__(one, name)

    given = msgspec.convert(values, kind)
    seen = type(kind.__name__, (kind,), {"__getattribute__": get}, frozen=kind.__struct_config__.frozen)  # type: ignore[call-overload]  # options of a Struct
    return seen(**{name: getattr(given, name) for name in kind.__struct_fields__})


def serve() -> SteeredNode:
    """A server with a group of one member, a fault, a scenario and a snapshot."""
    server = SteeredNode(topics={"orders": 1}, virtual_brokers=2, journal_bytes=1 << 20)
    if server.operator.brokers.coordinator("g").broker:
        server.operator.brokers.move_group("g", 0)
    stable_group(server, "a")
    port = ControlPort(server)
    port.call("POST", "/faults", {"do": {"error": "NOT_COORDINATOR"}, "on": {"group": "other"}})
    port.call("POST", "/scenarios", {"steps": FIELDS["steps"]})
    port.call("PUT", "/snapshots/kept")
    return server


def operations() -> list[Operation]:
    return control_operations(SteeredNode().operator, Ring(), 0)


@pytest.mark.parametrize("call", [f"{one.method} {one.path}" for one in operations()])
def test_each_field_of_a_call_counts(call: str) -> None:
    """A field that the handler never looks at is accepted, and has no effect."""
    server = serve()
    ring = Ring()
    for event in server.events:
        ring.add(event.group, msgspec.json.encode(event))
    (operation,) = (one for one in control_operations(server.operator, ring, 0) if f"{one.method} {one.path}" == call)
    read = {"path": set[str](), "query": set[str](), "body": set[str]()}
    names = [part[1:-1] for part in operation.path.split("/") if part.startswith("{")]
    own = FIELDS | OF_PATHS.get(operation.path, {})
    parts = {
        part: record_reads(
            kind, {field.encode_name: own[field.name] for field in msgspec.structs.fields(kind)}, read[part]
        )
        for part, kind in (("query", operation.query), ("body", operation.body))
    }
    given = Input(Names({name: PATH[name] for name in names}, read["path"]), parts["query"], parts["body"])

    async def ask() -> None:
        async with having_turns(server):
            with suppress(Refusal), trio.fail_after(20):
                result = operation.handle(given)
                result = await result if inspect.isawaitable(result) else result
                if operation.is_stream:
                    await result.next_chunk()

    trio.run(ask)
    assert read["path"] == set(names)
    for part, kind in (("query", operation.query), ("body", operation.body)):
        assert set(kind.__struct_fields__) <= read[part], f"never looked at: {set(kind.__struct_fields__) - read[part]}"


NUMBERED: Final = [
    (one, field.name)
    for one in operations()
    for kind in (one.query, one.body)
    for field in msgspec.structs.fields(kind)
    if type((FIELDS | OF_PATHS.get(one.path, {}))[field.name]) is int
]


@pytest.mark.parametrize(("one", "name"), NUMBERED, ids=[f"{one.method} {one.path} {name}" for one, name in NUMBERED])
def test_a_number_of_any_size_fails_nothing(one: Operation, name: str) -> None:
    """It is refused with a sentence, or counts."""
    port, own = ControlPort(serve()), FIELDS | OF_PATHS.get(one.path, {})
    query, body = ({field: own[field] for field in kind.__struct_encode_fields__} for kind in (one.query, one.body))
    for size in (10**30, 2**63, -(2**63) - 1):
        (query if name in query else body)[name] = size
        answer = port.call(one.method, f"{one.path.removeprefix('/v1').format(**PATH)}?{urlencode(query)}", body)
        assert answer.status < 500, answer.body


WHOLE: Final = [
    ("POST", "/v1/clock/advance", {"ms": 600_000}),
    ("POST", "/v1/clock/step", {}),
    ("POST", "/v1/reset", {}),
    ("POST", "/v1/reset", {"prefix": "g"}),
    ("POST", "/v1/snapshots/kept/restore", None),
]
"""Calls that are done to their end, or not at all."""


def prepare() -> SteeredNode:
    server = SteeredNode(topics={"orders": 1})
    stable_group(server, "a", "b")
    server.operator.state.seed(State({}, {f"g{number}": {"orders": {"0": 1}} for number in range(3)}))
    server.operator.state.take_snapshot("kept")
    server.operator.state.seed(State({"later": 1}, {"g1": {"later": {"0": 1}}}))
    return server


def look(server: SteeredNode) -> tuple[Any, ...]:
    """Return the state that a server has in the end, whether its client has stayed or left."""
    poller, operator = server.poller, server.operator
    groups = [(view.group, len(view.members)) for view in operator.groups.views()]
    is_free = not poller.is_held and not operator.clock.is_moving
    return server.clock.now_ms(), groups, operator.state.contents(), is_free


@pytest.mark.parametrize(("method", "path", "body"), WHOLE, ids=lambda one: str(one))
def test_a_call_whose_client_leaves_is_done_to_its_end_or_not_begun(
    monkeypatch: pytest.MonkeyPatch, method: str, path: str, body: Any
) -> None:
    monkeypatch.setattr(verb_calls, "thread_time", itertools.count().__next__)  # each step has used enough
    request = Request(method, path, "", body=b"" if body is None else msgspec.json.encode(body))

    def ask(leave_after: int | None) -> tuple[tuple[Any, ...], bool]:
        """Make the call, and leave after so many passes of the loop. Returns what is left, and whether it was made."""
        server, client = prepare(), trio.CancelScope()
        port, is_answered = ControlPort(server), False

        async def leave(after: int) -> None:
            for _ in range(after):
                await trio.lowlevel.checkpoint()
            client.cancel()

        async def run() -> None:
            nonlocal is_answered
            async with trio.open_nursery() as nursery:
                if leave_after is not None:
                    nursery.start_soon(leave, leave_after)
                with client:
                    await port.answer(request)
                    is_answered = True
                nursery.cancel_scope.cancel()

        trio.run(run)
        return look(server), is_answered

    begun, (done, _) = look(prepare()), ask(None)
    assert begun != done
    found, is_answered, after = [], False, 0
    while not is_answered:
        state, is_answered = ask(after)
        assert state in (begun, done), f"its client left after {after} passes"
        found.append(state == done)
        after += 1 + after // 4
    assert found == sorted(found) and found[-1]


def test_requests_in_a_new_journal_count_and_their_numbers_continue() -> None:
    """A number that was noted before is that of no later request; what the journal does not have does not count."""
    server = SteeredNode(topics={"orders": 1}, journal_bytes=1 << 20)
    port, tool = ControlPort(server), server.connect("tool")
    expected = {"expect": [{"api": "OffsetFetch", "group": "g", "times": 1}]}
    for number in range(3):
        tool.ask(fetch_offsets("g"), 8)
        assert port.call("POST", "/verify", expected).status == (409 if number else 200)
    for prefix in ("g", ""):
        assert port.call("POST", "/reset", {"prefix": prefix}).status == 200
        assert port.call("PUT", "/journal", {"bytes_max": 1 << 20}).status == 200
        server.connect("tool").ask(fetch_offsets("g"), 8)
        assert port.call("POST", "/verify", expected).status == 200
    for bytes_max, latest in ((0, 0), (0, 0), (1 << 20, 5), (1 << 21, 5)):
        assert port.call("PUT", "/journal", {"bytes_max": bytes_max}).body["latest"] == latest
        assert not bytes_max or port.call("POST", "/verify", {"expect": [{"times": 0}]}).status == 200


@pytest.mark.parametrize("keep", [[], ["a-b"], ["b"], ["a", "b"]], ids=str)
@pytest.mark.parametrize("prefix", ["", "a"])
def test_what_came_before_a_reset_counts_for_what_was_kept(prefix: str, keep: list[str]) -> None:
    server = SteeredNode(topics={"orders": 1}, journal_bytes=1 << 20)
    port, tool, groups = ControlPort(server), server.connect("tool"), ("a", "a-b", "b", "c")
    for group in groups:
        tool.ask(commit(group, {"orders": {0: 1}}), 8)
    assert port.call("POST", "/reset", {"prefix": prefix, "keep": keep}).status == 200
    for group in groups:
        is_gone = group.startswith(prefix) and not group.startswith(tuple(keep))
        wanted = {"api": "OffsetCommit", "group": group, "times": 0 if is_gone else 1}
        assert port.call("POST", "/verify", {"expect": [wanted]}).status == 200, wanted


def test_what_came_after_a_request_and_an_event_is_verified_and_linted() -> None:
    """Of any group: a test that shares a server with others notes the numbers at its beginning."""
    server = SteeredNode(topics={"orders": 1}, journal_bytes=1 << 20)
    port, groups = ControlPort(server), ("g", "h")
    marks = [{"after": 0, "after_event": 0}]
    for group in groups:
        (member,) = stable_group(server, f"of {group}", group=group)
        member.peer.ask(commit(group, {"orders": {0: 1}}, 7, member_id=member.member_id), 8)
        latest = port.call("GET", "/journal").body["latest"], port.call("GET", "/groups/g/timeline").body["latest"]
        marks.append(dict(zip(("after", "after_event"), latest, strict=True)))
    for number, since in enumerate(marks):
        times = len(groups) - number
        for one in ({"api": "OffsetCommit"}, {"event": "group_created"}):
            for expected in (times, times + 1):
                asked = {"expect": [{**one, "times": expected}], **since}
                assert port.call("POST", "/verify", asked).status == (200 if expected == times else 409)
        findings = port.call("GET", f"/lint?after={since['after']}").body["findings"]
        assert [one["client"] for one in findings] == [f"of {group}" for group in groups[number:]]


def test_what_a_thread_decodes_is_named_as_of_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalog changes while the thread works: to look into it there would fail, or leave it with topics of before."""
    server = SteeredNode(topics={"orders": 1}, journal_bytes=1 << 20)
    port, topics = ControlPort(server), Catalog.topics
    named = MetadataRequestTopic(server.node.world.ledger.catalog.topics.id_of("orders"), None)
    server.connect().ask(MetadataRequest((named,)), 12)

    def look(catalog: Catalog) -> Any:
        assert threading.current_thread() is threading.main_thread()
        return topics.fget(catalog)  # type: ignore[attr-defined]  # a property

    monkeypatch.setattr(Catalog, "topics", property(look))
    assert [one["api"] for one in port.call("GET", "/requests?topic=orders").body["requests"]] == ["Metadata"]
    assert port.call("POST", "/verify", {"expect": [{"topic": "orders", "times": 1}]}).status == 200
