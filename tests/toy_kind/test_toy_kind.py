"""A kind of groups that nobody has is served like any other, though no file outside of this folder names it."""

import sys
from collections.abc import Iterator

import pytest

from coordinator.admin.views import count_in_steps
from coordinator.cli.group_log import GroupLog
from coordinator.control.journal import Filter
from coordinator.control.names import SpecError, check_state
from coordinator.control.timeline import as_text
from coordinator.core import dispatch, record_schemas
from coordinator.core.kinds.registry import KINDS
from coordinator.metrics import exposition
from coordinator.runtime import router
from protocol import apis
from protocol.apis import API
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.traits import CHANGE, READ
from tests.control.steered import SteeredNode, stable_group
from tests.requests import commit, delete_offsets, fetch_offsets, want
from tests.server.in_memory import InMemory, Peer
from tests.steps import finish
from tests.toy_kind import toy_describe, toy_visit
from tests.toy_kind.group import KEY, RECORD_TYPE, STAY_MS, VALUE, ToyGroup, ToyKey
from tests.toy_kind.kind import TOY
from tests.toy_kind.toy_describe import ToyDescribeRequest
from tests.toy_kind.toy_visit import ToyVisitRequest

DAY_MS = 24 * 3_600_000


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The four entries of a kind: its record, its messages, itself, and so the routes to it."""
    of_record = record_schemas.Kind(RECORD_TYPE, KEY, VALUE)
    monkeypatch.setitem(record_schemas.BY_TYPE, RECORD_TYPE, of_record)
    monkeypatch.setitem(record_schemas.BY_KEY, ToyKey, of_record)
    for key, name, module, traits in ((990, "ToyVisit", toy_visit, CHANGE), (991, "ToyDescribe", toy_describe, READ)):
        api = API(key, name, range(1), 0, range(1), None, traits)
        monkeypatch.setitem(sys.modules, f"protocol.messages.{api.module}", module)
        monkeypatch.setitem(apis.APIS, key, api)
        monkeypatch.setitem(apis.BY_NAME, name, api)
        monkeypatch.setitem(apis.LATEST_RANGES, key, range(1))
        monkeypatch.setitem(apis._BY_MODULE, module.__name__, api)
    dispatch.register(TOY)
    for name, handler in router.own_apis(TOY).items():
        monkeypatch.setitem(router.HANDLERS, name, handler)
    yield
    dispatch.withdraw(TOY)


def visit(peer: Peer, member_id: str = "ann", group: str = "g") -> tuple[int, int]:
    response = peer.ask(ToyVisitRequest(group, member_id), 0)
    return response.error_code, response.visits


def guests(server: InMemory, group: str = "g") -> tuple[str, ...]:
    (described,) = server.connect("tool").ask(ToyDescribeRequest((group,)), 0).groups
    assert described.error_code == ErrorCode.NONE
    found: tuple[str, ...] = described.guests
    return found


def list_groups(server: InMemory) -> list[tuple[str, str, str, str]]:
    response = server.connect("tool").ask(ListGroupsRequest(), 5)
    return [(one.group_id, one.protocol_type, one.group_state, one.group_type) for one in response.groups]


def test_it_is_served_listed_and_described() -> None:
    server = InMemory()
    peer = server.connect("c")
    assert [visit(peer), visit(peer, "bob"), visit(peer)] == [(0, 1), (0, 2), (0, 3)]
    assert list_groups(server) == [("g", "toys", "Playing", "toy")]
    assert guests(server) == ("ann", "bob")
    filtered = peer.ask(ListGroupsRequest(types_filter=("toy",), states_filter=("playing",)), 5)
    assert [one.group_id for one in filtered.groups] == ["g"]
    (other,) = peer.ask(ToyDescribeRequest(("h",)), 0).groups
    assert other.error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_requests_of_other_kinds_are_refused_and_its_own_in_their_groups() -> None:
    server = SteeredNode()
    peer = server.connect("c")
    visit(peer)
    assert peer.ask(HeartbeatRequest("g", 1, "ann"), 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    join = JoinGroupRequest("g", 45_000, 300_000, protocol_type="consumer", protocols=want(("orders",)))
    assert peer.ask(join, 3).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    beat = ConsumerGroupHeartbeatRequest("g", "m", 0, None, None, 300_000, ("orders",), topic_partitions=())
    assert peer.ask(beat, 1).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    (described,) = peer.ask(DescribeGroupsRequest(("g",)), 6).groups
    assert (described.error_code, described.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
    stable_group(server, "m", group="h")
    assert visit(peer, group="h") == (ErrorCode.GROUP_ID_NOT_FOUND, 0)


def test_its_timer_ends_a_stay_and_is_renewed_and_goes_with_its_member() -> None:
    server = SteeredNode()
    peer = server.connect("c")
    visit(peer)
    visit(peer, "bob")
    server.operator.clock.advance(STAY_MS - 1, server.operator.clock.keep_named([]))
    visit(peer)
    server.operator.clock.advance(1, server.operator.clock.keep_named([]))
    assert guests(server) == ("ann",)
    assert (server.events[-1].cause.value, server.events[-1].member) == ("session_expired", "bob")
    server.operator.groups.kick("g", "ann")
    assert not server.node.world.partitions.owner("g").shard.timers.of_group("g")


def test_offsets_are_committed_by_its_rules_and_expire() -> None:
    server = SteeredNode(offsets_retention_minutes=60)
    peer = server.connect("c")
    visit(peer)
    request = commit("g", {"orders": {0: 7}}, member_id="nobody")
    assert peer.ask(request, 8).topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert peer.ask(commit("g", {"orders": {0: 7}}, member_id="ann"), 8).topics[0].partitions[0].error_code == 0
    assert peer.ask(fetch_offsets("g", {"orders": [0]}), 8).groups[0].topics[0].partitions[0].committed_offset == 7
    assert peer.ask(delete_offsets("g", {"orders": [0]}), 0).error_code == ErrorCode.NON_EMPTY_GROUP
    server.operator.clock.advance(STAY_MS, server.operator.clock.keep_named([]))
    assert server.node.world.partitions.owner("g").shard.offsets.count == 1
    server.operator.clock.advance(DAY_MS, server.operator.clock.keep_named([]))
    assert (list_groups(server), server.node.world.partitions.owner("g").shard.offsets.count) == ([], 0)
    assert server.causes()[-1] == "group_expired"


def test_it_is_written_and_replayed_and_its_end_too() -> None:
    server = InMemory()
    visit(server.connect("c"))
    visit(server.connect("c"), group="h")
    visit(server.connect("c"), "bob")
    server.node.close()
    again = InMemory(server.files)
    assert guests(again) == ("ann", "bob")
    assert visit(again.connect("c")) == (0, 3)
    again.advance(STAY_MS / 1000 + 1)
    assert guests(again) == (), "sessions run from the start on"
    assert [one.error_code for one in again.connect("c").ask(DeleteGroupsRequest(("g", "h")), 2).results] == [0, 0]
    again.node.close()
    assert list_groups(InMemory(server.files)) == []


def test_it_is_in_a_snapshot() -> None:
    server = SteeredNode()
    visit(server.connect("c"))
    server.operator.state.take_snapshot("one")
    visit(server.connect("c"), "bob")
    server.operator.state.restore("one")
    assert guests(server) == ("ann",)


@pytest.mark.parametrize("keeps_members", [True, False])
def test_it_moves_between_brokers(keeps_members: bool) -> None:
    server = SteeredNode(virtual_brokers=3, offsets_topic_num_partitions=3)
    home = server.operator.brokers.coordinator("g").broker
    assert home is not None
    visit(server.connect("c", broker=home))
    server.operator.brokers.move_group("g", (home + 1) % 3, keep_members=keeps_members)
    server.rest()
    assert "coordinator_moved" in server.causes()
    peer = server.connect("c", broker=(home + 1) % 3)
    (described,) = peer.ask(ToyDescribeRequest(("g",)), 0).groups
    assert described.guests == (("ann",) if keeps_members else ())
    (elsewhere,) = server.connect("c", broker=home).ask(ToyDescribeRequest(("g",)), 0).groups
    assert elsewhere.error_code == ErrorCode.NOT_COORDINATOR
    assert server.connect("c", broker=home).ask(ToyVisitRequest("g", "x"), 0).error_code == ErrorCode.NOT_COORDINATOR


def test_an_operator_sees_and_drives_it() -> None:
    server = SteeredNode(journal_bytes=1_000_000)
    peer = server.connect("c")
    visit(peer)
    seen = server.operator.groups.view("g")
    assert (seen.type, seen.state, seen.counts_by, seen.generation, seen.members[0].member_id) == (
        "toy",
        "Playing",
        "visits",
        1,
        "ann",
    )
    (summary,) = [one for look in server.operator.overview.look("") if look for one in look.groups.values()]
    assert (summary.group, summary.type, summary.generation) == ("g", "toy", 1)
    server.operator.groups.fence("g", "ann")
    assert visit(peer)[0] == ErrorCode.FENCED_MEMBER_EPOCH
    check_state("state", "Playing")
    with pytest.raises(SpecError):
        check_state("state", "Plying")
    assert {entry.api_key for entry, _ in server.operator.requests.journal.entries(Filter(group="g"))} == {990}
    server.operator.groups.forget("g")
    assert list_groups(server) == []


def test_the_timeline_the_log_and_the_metrics_show_it() -> None:
    server = InMemory()
    visit(server.connect("c"))
    server.advance(STAY_MS / 1000 + 1)
    text = as_text(enumerate(server.events))
    assert text.splitlines()[0] == "#0     +0.000s  Empty -> Playing (visits 1)  member joined (by ToyVisit)"
    log = GroupLog()
    lines = [line for event in server.events for line in log.lines(event)]
    assert [line[1] for line in lines] == ["rebalanced: member joined"], "it is settled again when all have left"
    assert lines[0][2]["visits"] == 1
    for event in server.events:
        server.stats.count_event(event)
    now = finish(count_in_steps(server.node, {}, 0.0, 0))
    shown = finish(exposition(server.stats, now, lambda key: str(key)))[0].decode()
    assert 'muster_groups{protocol="toy",state="Empty"} 1.0' in shown
    assert 'muster_groups{protocol="toy",state="Playing"} 0.0' in shown
    assert 'muster_members{protocol="toy"} 0.0' in shown
    assert 'protocol="toy"' in next(line for line in shown.splitlines() if line.startswith("muster_rebalances_total{"))


def test_it_is_gone_without_a_trace_when_it_is_withdrawn() -> None:
    dispatch.withdraw(TOY)
    assert "toy" not in KINDS
    assert not [key for key in dispatch.HANDLERS.planned if ToyGroup in key or ToyVisitRequest in key]
    dispatch.register(TOY)
