"""The operator's verbs on a server in memory: what they do to groups, what clients are told, what is refused."""

import io
import tarfile
from contextlib import suppress
from pathlib import Path

import pytest

from coordinator.control.faults import Action, FaultSpec, Match
from coordinator.control.journal import Filter, describe_entry
from coordinator.control.scenarios import After, ScenarioSpec, ScenarioStep, Verb
from coordinator.core.timers import EXPIRY
from coordinator.runtime.snapshot import to_tar
from coordinator.server.verbs.clock import keep_everybody, keep_nobody
from coordinator.server.verbs.refusal import Refusal
from coordinator.server.verbs.state import State
from protocol import record_batch
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.records import Record
from protocol.schema import Message
from protocol.steps import finish_steps
from storage.log import Log
from storage.real_files import RealFiles
from tests.control.steered import SteeredNode, stable_group
from tests.members import ClassicMember, ConsumerMember
from tests.requests import commit as commit_request
from tests.requests import create_topics, fetch_offsets, join, produce
from tests.storage.open_files import open_files

HOUR_MS = 3_600_000


@pytest.fixture
def server() -> SteeredNode:
    return SteeredNode(offsets_topic_num_partitions=1)


def commit(server: SteeredNode, offset: int, group: str = "simple") -> ErrorCode:
    request = commit_request(group, {"orders": {0: offset}})
    return ErrorCode(server.connect("tool").ask(request, 8).topics[0].partitions[0].error_code)


# -- the clock


def test_a_session_of_45_seconds_expires_at_once(server: SteeredNode) -> None:
    a, b = stable_group(server, "a", "b")
    before_ms = server.clock.now_ms()
    advanced = server.operator.clock.advance(45_000, server.operator.clock.keep_named(["a"]))
    assert advanced.now_ms == before_ms + 45_000
    assert [(one.kind, one.group, one.member) for one in advanced.fired] == [("session", "g", b.member_id)]
    assert a.beat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert b.beat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert server.seconds == 0, "real time stands still"


def test_the_clock_goes_from_deadline_to_deadline(server: SteeredNode) -> None:
    """A session of 45 s ends at 45 s, not at the end of a long jump: the event says so."""
    stable_group(server, "a")
    heard_ms = server.clock.now_ms()
    server.operator.clock.advance(600_000, keep_nobody)
    expired = next(event for event in server.events if event.cause.value == "session_expired")
    assert expired.at_ms == heard_ms + 45_000


def test_whoever_is_kept_alive_has_a_whole_session_afterwards(server: SteeredNode) -> None:
    (a,) = stable_group(server, "a")
    server.operator.clock.advance(10 * HOUR_MS + 44_000, keep_everybody)
    server.operator.clock.advance(44_999, keep_nobody)
    assert a.beat() == ErrorCode.NONE
    assert "session_expired" not in server.causes()


@pytest.mark.parametrize("for_ms", [44_000, 46_000, HOUR_MS, 1_000 * HOUR_MS])
def test_a_session_is_renewed_once_on_the_way_however_long_that_is(server: SteeredNode, for_ms: int) -> None:
    """The work of a move grows with what ends, and not with how often members would have sent heartbeats."""
    asked, kept = list[str](), [member.member_id for member in stable_group(server, "a", "b")]
    stable_group(server, "c", group="h")
    server.operator.clock.advance(for_ms, lambda _, member_id: asked.append(member_id) or member_id in kept)
    assert len(asked) == (3 if for_ms < 45_000 else 5)
    assert [one.member_id for one in server.operator.groups.view("g").members] == kept
    assert server.causes().count("session_expired") == (for_ms > 45_000)


def test_an_id_that_was_given_out_and_has_not_joined_is_no_member_to_be_kept_alive(server: SteeredNode) -> None:
    """Each rebalance would wait for it, with nobody behind it, for as long as the group exists."""
    stable_group(server, "a")
    group = server.node.world.partitions.owner("g").shard.groups
    answer = server.connect("gone").ask(join("g"), 9)
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED and tuple(group["g"].pending) == (answer.member_id,)
    fired = server.operator.clock.advance(45_000, keep_everybody).fired
    assert [(one.kind, one.member) for one in fired] == [("session", answer.member_id)]
    assert not group["g"].pending and len(group["g"].members) == 1


def test_connected_members_are_kept_alive(server: SteeredNode) -> None:
    a, b = stable_group(server, "a", "b")
    server.frontend.disconnect(b.peer.connection)
    server.connect("a health check that sends nothing")
    server.connect(b.member_id).ask(MetadataRequest(), 9)
    server.operator.clock.advance(45_000, server.operator.clock.keep_connected())
    assert [one.client_id for one in server.operator.groups.view("g").members] == ["a"]
    assert a.beat() == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_step_goes_to_the_next_deadline(server: SteeredNode) -> None:
    (a,) = stable_group(server, "a")
    heard_ms = server.clock.now_ms()
    pending = server.operator.clock.state().deadlines
    assert (pending[0].kind, pending[0].member, pending[0].at_ms) == ("session", a.member_id, heard_ms + 45_000)
    advanced = server.operator.clock.step(keep_nobody)
    assert advanced.now_ms == heard_ms + 45_000
    assert [one.kind for one in advanced.fired] == ["session"]


def test_a_frozen_clock_stands_still_and_a_fast_one_runs(server: SteeredNode) -> None:
    stable_group(server, "a")
    server.operator.clock.set_rate(0)
    assert server.operator.clock.show().mode == "frozen"
    frozen_ms = server.clock.now_ms()
    server.advance(3_600)
    assert server.clock.now_ms() == frozen_ms
    assert "session_expired" not in server.causes()
    server.operator.clock.set_rate(10)
    assert server.operator.clock.show().mode == "rate"
    server.advance(4.4)
    assert server.clock.now_ms() == frozen_ms + 44_000
    server.advance(0.1)
    assert "session_expired" in server.causes()
    server.operator.clock.set_rate(1)
    assert server.operator.clock.show().mode == "real"


def test_a_frozen_clock_stalls_no_work_that_goes_on_in_steps(
    server: SteeredNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pass over all offsets is done in parts, each in a turn of its own."""
    monkeypatch.setattr("coordinator.core.shard.CLEANED_AT_ONCE", 1)
    for number in range(20):
        commit(server, 1, f"group-{number}")
    (partition,) = server.node.world.partitions
    server.clock.jump_to(server.clock.now_ms() + 8 * 24 * HOUR_MS)
    server.operator.clock.set_rate(0)
    for _ in range(60):
        server.turn()
    assert server.operator.groups.views() == []
    assert (partition.shard.timers.deadline(EXPIRY) or 0) > server.clock.now_ms()


# -- members and groups


def test_an_expired_member_is_gone_and_the_others_rebalance(server: SteeredNode) -> None:
    a, b = stable_group(server, "a", "b")
    assert server.operator.groups.expire("g", "b").member_id == b.member_id
    assert server.operator.groups.view("g").state == "PreparingRebalance"
    assert (a.beat(), b.beat()) == (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID)
    event = server.events[-1]
    assert (event.cause.value, event.by, event.client_id) == ("session_expired", "operator", "b")


def test_a_kicked_member_that_waits_is_answered(server: SteeredNode) -> None:
    stable_group(server, "a")
    late = ClassicMember(server.connect("late"))
    late.join()
    assert late.peer.answers == [], "it waits for a to rejoin"
    server.operator.groups.kick("g", "late", "a test")
    assert late.take_join().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert server.events[-1].reason == "a test"


@pytest.mark.parametrize(
    ("instance", "error"), [("i", ErrorCode.FENCED_INSTANCE_ID), (None, ErrorCode.UNKNOWN_MEMBER_ID)]
)
def test_a_fenced_classic_member_is_told_so(server: SteeredNode, instance: str | None, error: ErrorCode) -> None:
    (a,) = stable_group(server, "a", instance=instance)
    server.operator.groups.fence("g", instance or "a")
    assert a.beat() == error
    assert server.causes()[-2:] == ["member_fenced", "no_member_left"]


def test_a_fenced_consumer_is_told_so(server: SteeredNode) -> None:
    member = ConsumerMember(server.connect("m"), "m")
    member.beat()
    server.operator.groups.fence("g", "m")
    namesake = ConsumerMember(server.connect("m"), "m", "h")
    assert namesake.beat().error_code == ErrorCode.NONE, "it is of another group"
    assert member.beat().error_code == ErrorCode.FENCED_MEMBER_EPOCH


@pytest.mark.parametrize(
    ("instance", "error"), [("i", ErrorCode.FENCED_INSTANCE_ID), (None, ErrorCode.UNKNOWN_MEMBER_ID)]
)
def test_a_fenced_classic_member_of_a_consumer_group_is_told_so(
    server: SteeredNode, instance: str | None, error: ErrorCode
) -> None:
    """It has an epoch, as all members of a consumer group, and learns of it by the API of its own protocol."""
    (a,) = stable_group(server, "a", instance=instance)
    member = ConsumerMember(server.connect("m"), "m")
    member.beat()
    assert server.operator.groups.view("g").type == "consumer", "it was upgraded"
    server.operator.groups.fence("g", instance or "a")
    assert a.beat() == error
    assert all(rule.is_used_up for rule in server.operator.requests.faults), "and nothing is left in force"


def test_a_rebalance_on_demand(server: SteeredNode) -> None:
    (a,) = stable_group(server, "a")
    assert server.operator.groups.rebalance("g", "because").state == "PreparingRebalance"
    assert a.beat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert server.events[-1].cause.value == "rebalance_requested"
    member = ConsumerMember(server.connect("m"), "m", "h")
    member.beat()
    epoch = member.epoch
    server.operator.groups.rebalance("h")
    server.operator.clock.advance(2_000, keep_everybody)
    member.beat()
    assert member.epoch == epoch + 1


def test_a_forced_target_assignment(server: SteeredNode) -> None:
    a, b = ConsumerMember(server.connect("a"), "a"), ConsumerMember(server.connect("b"), "b")
    a.beat()
    b.beat()
    server.operator.clock.advance(2_000, keep_everybody)
    server.operator.groups.set_target("g", {"b": {"orders": [2, 0, 1, 3]}})
    a.beat()
    a.beat(topic_partitions=())
    b.beat()
    assigned = b.beat().assignment
    owned = server.operator.groups.view("g").members
    assert {one.member_id: one.assignment for one in owned} == {"a": {}, "b": {"orders": [0, 1, 2, 3]}}, assigned


def test_a_group_is_forgotten_with_everything(server: SteeredNode) -> None:
    (a,) = stable_group(server, "a")
    late = ClassicMember(server.connect("late"))
    late.join()
    server.operator.groups.forget("g")
    assert server.operator.groups.find("g") is None
    assert late.take_join().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert a.beat() == ErrorCode.UNKNOWN_MEMBER_ID
    assert len(server.node.world.partitions.owner("g").shard.timers) == 1, "the pass over all offsets"


def test_what_was_done_is_in_the_log(server: SteeredNode) -> None:
    """A group that was forgotten is gone after a restart too."""
    commit(server, 5)
    server.operator.groups.forget("simple")
    server.node.close()
    again = SteeredNode(files=server.files, offsets_topic_num_partitions=1)
    assert again.operator.groups.views() == []


@pytest.mark.parametrize(
    ("verb", "sentence"),
    [
        (lambda operator: operator.groups.expire("none", "a"), "there is no group 'none'"),
        (
            lambda operator: operator.groups.expire("g", "z"),
            "there is no member 'z' in group 'g': its clients are a, twin, twin",
        ),
        (lambda operator: operator.groups.kick("g", "twin"), "2 members have the client id 'twin': expected one of"),
        (lambda operator: operator.groups.set_target("g", {}), "group 'g' is a classic group: its leader computes"),
        (lambda operator: operator.groups.set_target("g", {"z": {}}), "there is no member 'z' in group 'g'"),
        (lambda operator: operator.groups.forget("none"), "there is no group 'none'"),
        (lambda operator: operator.groups.rebalance("simple"), "group 'simple' has no members"),
        (lambda operator: operator.requests.remove_fault(7), "there is no fault 7"),
        (lambda operator: operator.requests.journal, "the journal is off"),
    ],
)
def test_a_refusal_is_a_sentence_and_changes_nothing(server: SteeredNode, verb: object, sentence: str) -> None:
    stable_group(server, "a", "twin", "twin")
    commit(server, 5)
    before, told = server.operator.groups.views(), len(server.events)
    with pytest.raises(Refusal, match=sentence):
        verb(server.operator)
    assert server.operator.groups.views() == before
    assert len(server.events) == told


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ({"a": {"orders": [0, 4]}}, "invalid target: topic 'orders' has no partition 4: expected 0 to 3"),
        ({"a": {"orders": [-1]}}, "invalid target: topic 'orders' has no partition -1: expected 0 to 3"),
        ({"a": {"unread": [0]}}, "invalid target: no member subscribes to topic 'unread'"),
        ({"a": {"none": [0]}}, "invalid topic 'none': expected a topic that exists"),
        (
            {"a": {"orders": [0]}, "b": {"orders": [1, 0]}},
            "invalid target: partition 0 of topic 'orders' is given to two members",
        ),
        ({"b": {}, "client-b": {}}, "'client-b' is member b, which another name stands for as well: expected one"),
    ],
)
def test_a_target_that_nobody_could_follow_is_refused(
    server: SteeredNode, target: dict[str, dict[str, list[int]]], sentence: str
) -> None:
    server.connect().ask(create_topics({"unread": 1}), 7)
    for name in "ab":
        ConsumerMember(server.connect(f"client-{name}"), name).beat()
    with pytest.raises(Refusal) as refused:
        server.operator.groups.set_target("g", target)
    assert str(refused.value) == sentence


# -- requests on their way


def test_a_held_request_waits_until_it_is_released(server: SteeredNode) -> None:
    server.operator.requests.hold("g", "join")
    member = ClassicMember(server.connect("a"))
    member.join()
    (rule,) = server.operator.requests.faults
    assert (rule.hits, server.operator.requests.count_held(rule.number)) == (1, 1)
    assert server.operator.groups.find("g") is None, "it is not even decided"
    server.operator.requests.release("g")
    server.operator.clock.advance(10_000, keep_everybody)
    assert member.take_join().error_code == ErrorCode.NONE
    assert not server.frontend.handler.is_gated


@pytest.mark.parametrize(
    ("step", "request_"),
    [
        ("join", (join("g"), 3)),
        ("heartbeat", (HeartbeatRequest("g", 1, "m"), 3)),
        ("commit", (commit_request("g", {"orders": {0: 1}}), 8)),
    ],
)
def test_every_request_of_a_step_is_held_and_none_once_it_is_released(
    server: SteeredNode, step: str, request_: tuple[Message, int]
) -> None:
    server.operator.requests.hold("g", step)
    peers = [server.connect(f"client-{number}") for number in range(3)]
    for held, peer in enumerate(peers, 1):
        assert peer.ask(*request_) is None
        rules = server.operator.requests.faults
        assert sum(server.operator.requests.count_held(rule.number) for rule in rules) == held
    server.operator.requests.release("g")
    peers.append(server.connect("client-3"))
    peers[-1].ask(*request_)
    server.operator.clock.advance(10_000, keep_everybody)
    assert [len(peer.answers) for peer in peers] == [1] * 4


@pytest.mark.parametrize("others", [(), ("h",), ("g",)])
def test_a_member_that_is_disconnected_takes_nobody_with_it(server: SteeredNode, others: tuple[str, ...]) -> None:
    """Clients of several tests may have one client id, and the server cannot tell which of them reads records."""
    member = ConsumerMember(server.connect("twin"), "a", "g")
    member.beat()
    for group in others:
        ConsumerMember(server.connect("twin"), "b", group).beat()
    reader, stranger = server.connect("twin"), server.connect("other")
    reader.ask(fetch_offsets("g"), 8)
    stranger.ask(fetch_offsets("g"), 8)
    server.operator.groups.expire("g", "a", disconnects=True)
    closed = [connection for connection in server.receivers() if connection.closing]
    assert closed == [member.peer.connection, *([] if others else [reader.connection])]


def test_the_client_of_a_held_request_may_leave(server: SteeredNode) -> None:
    server.operator.requests.hold("g", "join")
    member = ClassicMember(server.connect("a"))
    member.join()
    server.frontend.disconnect(member.peer.connection)
    server.operator.requests.release("g")
    assert server.operator.groups.find("g") is None


def test_half_apply_commits_and_answers_nothing(server: SteeredNode) -> None:
    server.operator.requests.add_fault(FaultSpec(Action(apply=True, drop="response"), Match(api="OffsetCommit")))
    peer = server.connect("tool")
    request = commit_request("simple", {"orders": {0: 7}})
    assert peer.ask(request, 8) is None
    assert server.operator.groups.view("simple").offsets == {"orders": {"0": 7}}
    assert peer.ask(request, 8) is not None, "once"


def test_an_error_in_place_of_the_request(server: SteeredNode) -> None:
    server.operator.requests.add_fault(FaultSpec(Action(error="NOT_COORDINATOR"), Match(group="simple")))
    assert commit(server, 7) == ErrorCode.NOT_COORDINATOR
    assert server.operator.groups.find("simple") is None
    server.operator.requests.add_fault(FaultSpec(Action(error="REQUEST_TIMED_OUT", apply=True)))
    assert commit(server, 8) == ErrorCode.REQUEST_TIMED_OUT
    assert server.operator.groups.view("simple").offsets == {"orders": {"0": 8}}


@pytest.mark.parametrize("partitions", [1, 3])
def test_an_error_in_place_of_the_response_to_a_request_that_takes_several_steps(
    server: SteeredNode, partitions: int
) -> None:
    """All of it is carried out, though the client is told of the error at once."""
    peer = server.connect("producer")
    peer.ask(create_topics({"t": partitions}), 7)
    server.operator.requests.add_fault(FaultSpec(Action(error="REQUEST_TIMED_OUT", apply=True), Match(api="Produce")))
    batches = dict.fromkeys(range(partitions), record_batch.encode([Record(None, b"a", timestamp=0)]))
    server.frontend.turn.seconds = 0.0  # no turn does more than one step
    response = peer.ask(produce("t", batches), 12)
    errors = {one.error_code for topic in response.responses for one in topic.partition_responses}
    assert errors == {ErrorCode.REQUEST_TIMED_OUT}
    while server.node.engine.unfinished:
        server.turn()
    ends = [server.node.world.dataplane.find_end_offset("t", index) for index in range(partitions)]
    assert ends == [1] * partitions
    assert len(peer.answers) == 2


def test_a_delayed_response_leaves_in_real_time(server: SteeredNode) -> None:
    server.operator.requests.add_fault(FaultSpec(Action(delay_ms=500), Match(api="OffsetCommit")))
    peer = server.connect("tool")
    assert peer.ask(OffsetCommitRequest("simple"), 8) is None
    server.operator.clock.advance(HOUR_MS, keep_everybody)
    assert peer.answers == [], "the coordinator's clock moves no delay"
    server.advance(0.499)
    assert peer.answers == []
    server.advance(0.002)
    assert len(peer.answers) == 1


@pytest.mark.parametrize("action", [Action(disconnect="before"), Action(disconnect="after"), Action(truncate=5)])
def test_a_connection_that_breaks(server: SteeredNode, action: Action) -> None:
    server.operator.requests.add_fault(FaultSpec(action))
    peer = server.connect("tool")
    assert peer.ask(OffsetCommitRequest("simple"), 8) is None
    assert peer.connection.closing


@pytest.mark.parametrize(
    ("action", "is_closed", "is_appended"),
    [
        (Action(error="NOT_LEADER_OR_FOLLOWER"), True, False),
        (Action(error="NOT_LEADER_OR_FOLLOWER", apply=True), True, True),
        (Action(disconnect="before"), True, False),
        (Action(disconnect="after"), True, True),
        (Action(truncate=3), True, True),
        (Action(drop="request"), False, False),
        (Action(drop="response"), False, True),
        (Action(delay_ms=1), False, True),
        (Action(throttle_ms=1), False, True),
    ],
)
def test_a_producer_that_wants_no_response_gets_none(
    server: SteeredNode, action: Action, is_closed: bool, is_appended: bool
) -> None:
    server.operator.requests.add_fault(FaultSpec(action, Match(api="Produce")))
    peer = server.connect("producer")
    batch = record_batch.encode([Record(None, b"a", timestamp=0)])
    assert peer.ask(produce("orders", {0: batch}, acks=0), 12) is None
    server.advance(1)
    assert (peer.answers, peer.connection.closing) == ([], is_closed)
    assert server.node.world.dataplane.find_end_offset("orders", 0) == is_appended


def test_a_delayed_response_goes_with_its_client(server: SteeredNode) -> None:
    """The others are answered in the order of their times."""
    peers = [server.connect(f"client-{number}") for number in range(4)]
    for peer, delay_ms in zip(peers, (300, 100, 200, 100), strict=True):
        server.operator.requests.add_fault(FaultSpec(Action(delay_ms=delay_ms), Match(api="OffsetCommit")))
        assert peer.ask(OffsetCommitRequest("simple"), 8) is None
    server.frontend.disconnect(peers[1].connection)
    gate = server.frontend.handler.gate
    assert gate is not None and len(gate._delayed) == 3, "its bytes are kept for nobody"
    answered = list[list[int]]()
    for _ in range(4):
        server.advance(0.1001)
        answered.append([number for number, peer in enumerate(peers) if peer.answers])
    assert answered == [[3], [2, 3], [0, 2, 3], [0, 2, 3]]
    assert gate.next_s is None


def test_the_journal_has_requests_and_what_became_of_them(server: SteeredNode) -> None:
    server.operator.requests.set_journal(100_000)
    server.operator.requests.add_fault(FaultSpec(Action(error="NOT_COORDINATOR")))
    commit(server, 7)
    commit(server, 8)
    first, second = [describe_entry(entry) for entry, _ in server.operator.requests.journal.entries(Filter())]
    assert (first["errors"], first["fault"]) == (["NOT_COORDINATOR"], "fault 1")
    assert second["errors"] == []
    assert second["request"]["topics"][0]["partitions"][0]["committed_offset"] == 8


# -- state


def test_a_reset_leaves_nothing_and_closes_every_connection(server: SteeredNode) -> None:
    (a,) = stable_group(server, "a")
    commit(server, 5)
    server.operator.requests.hold("g", "join")
    server.operator.clock.set_rate(0)
    server.operator.state.reset()
    assert server.operator.state.contents() == State({"orders": 4}, {}), "the topics of the start"
    assert (server.operator.groups.views(), list(server.operator.requests.faults)) == ([], [])
    assert server.operator.clock.state().mode == "real"
    assert a.peer.connection.closing
    assert commit(server, 6) == ErrorCode.NONE


@pytest.mark.parametrize(
    ("prefix", "keep", "left"),
    [
        ("a-", (), [2, 3]),
        ("a-", ("a-k",), [2, 3, 4]),
        ("b-", (), [0, 1, 2, 4]),
        ("", ("a-k", "b-"), [2, 3, 4]),
        ("c-", (), [0, 1, 2, 3, 4]),
    ],
)
def test_a_reset_of_a_prefix_ends_the_faults_and_scenarios_that_name_what_goes(
    server: SteeredNode, prefix: str, keep: tuple[str, ...], left: list[int]
) -> None:
    """What a failed test still holds of its group would be held of the next group of this name."""
    matches = [Match(group="a-g"), Match(topic="a-t"), Match(client="a-c"), Match(group="b-g"), Match(group="a-k-g")]
    operator = server.operator
    rules = [operator.requests.add_fault(FaultSpec(Action(hold=True), on, None)) for on in matches]
    waiting = ScenarioStep(after=After("a-other"), verb=Verb(forget=True))
    scenarios = [
        operator.scenarios.add(ScenarioSpec([ScenarioStep(on=on, do=Action(error="NONE"))])) for on in matches
    ] + [operator.scenarios.add(ScenarioSpec([waiting]))]
    assert server.connect("client").ask(commit_request("a-g", {"orders": {0: 1}}), 8) is None
    finish_steps(operator.state.reset_prefix_in_steps(prefix, keep))
    assert [at for at, rule in enumerate(rules) if operator.requests.faults.get(rule.number)] == left
    assert len(list(operator.requests.faults)) == 2 * len(left), "and those of the scenarios"
    found = []
    for at, scenario in enumerate(scenarios):
        with suppress(Refusal):
            assert operator.scenarios.get(scenario.number).reached == 0
            found.append(at)
    assert found == [*left, *([5] if prefix in ("b-", "c-") else [])]
    assert operator.groups.names() == [], "the commit that was held is decided before, and its group removed"


def test_a_reset_writes_nothing_into_the_logs_that_it_removes(
    server: SteeredNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To close a log is to sync it, and to write its indexes: most of what a reset would cost."""
    commit(server, 5)

    def close(log: Log) -> None:
        raise AssertionError(f"{log.directory} is closed")

    monkeypatch.setattr(Log, "close", close)
    server.operator.state.reset()
    assert server.operator.groups.views() == []


def test_a_reset_leaves_no_file_of_before_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither of groups, of topics nor of the catalog: a server that is reset for each test would have no more of
    them some day."""
    monkeypatch.chdir(tmp_path)
    server, held = SteeredNode(files=RealFiles()), []
    for _ in range(4):
        commit(server, 5)
        data = record_batch.encode([Record(None, b"v", timestamp=server.clock.now_ms())])
        assert server.connect("producer").ask(produce("orders", {0: data, 1: data}), 9) is not None
        server.operator.state.reset()
        held.append(len(open_files(tmp_path)))
    assert held == held[:1] * 4


def test_a_snapshot_is_the_world_as_it_was(server: SteeredNode) -> None:
    (a,) = stable_group(server, "a", instance="i")
    commit(server, 5)
    assert server.operator.state.take_snapshot("before") > 100
    commit(server, 9)
    server.operator.groups.forget("g")
    server.operator.state.restore("before")
    assert server.operator.groups.view("simple").offsets == {"orders": {"0": 5}}
    (member,) = server.operator.groups.view("g").members
    assert (member.member_id, server.operator.groups.view("g").state) == (a.member_id, "Stable")
    assert list(server.operator.state.snapshots()) == ["before"]
    server.operator.state.remove_snapshot("before")
    with pytest.raises(Refusal, match="there is no snapshot 'before'"):
        server.operator.state.restore("before")


def test_a_seed_is_what_the_state_says(server: SteeredNode) -> None:
    state = State(
        {"orders": 4, "new": 2}, {"g1": {"new": {"1": 7}, "orders": {"0": 5, "3": 6}}, "h1": {"new": {"0": 1}}}
    )
    server.operator.state.seed(state)
    assert server.operator.state.contents() == state
    assert server.operator.state.contents("h").offsets == {"h1": {"new": {"0": 1}}}
    assert server.operator.groups.forget_all("g") == 1
    server.operator.state.remove_topics(("new",))
    assert server.operator.state.contents() == State({"orders": 4}, {})


@pytest.mark.parametrize(
    ("state", "sentence"),
    [
        (State({"a b": 1}), "topic 'a b': "),
        (State({}, {"g": {"nowhere": {"0": 1}}}), "group 'g', nowhere-0: UNKNOWN_TOPIC_OR_PARTITION"),
        (State({}, {"g": {"orders": {"x": 1}}}), "invalid partition 'x' of 'orders': expected a number"),
        (State({}, {"g": {"orders": {"0": -1}}}), "invalid offset -1 of 'orders': expected 0 to 9223372036854775807"),
        (State({}, {"g": {"orders": {"0": 2**63}}}), "invalid offset 9223372036854775808 of 'orders'"),
    ],
)
def test_a_seed_that_cannot_be_is_refused(server: SteeredNode, state: State, sentence: str) -> None:
    with pytest.raises(Refusal, match=sentence):
        server.operator.state.seed(state)
    assert server.operator.state.contents() == State({"orders": 4}, {})


def test_a_snapshot_as_a_tar_file(server: SteeredNode) -> None:
    commit(server, 5)
    server.operator.state.take_snapshot("one")
    data = to_tar(server.operator.state.snapshot("one"))
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        names = tar.getnames()
    assert "__consumer_offsets-0/00000000000000000000.log" in names


def test_patterns_are_matched_while_the_clock_stands_still() -> None:
    """Many names and costly patterns take many steps, each of them in the next turn: no step waits for the clock."""
    server = SteeredNode(topics={"aaaaaaaaaa" * 20 + str(number): 1 for number in range(40)})
    pattern = "((a{0,30}){0,30})[0-9]*"
    member = ConsumerMember(server.connect(), "m")
    assert member.beat(subscribed_topic_names=None, subscribed_topic_regex=pattern).error_code == 0
    before_ms = server.clock.now_ms()
    other, turns = ConsumerMember(server.connect("n"), "n", "h"), 1
    while (group := server.node.world.partitions.owner("g").shard.groups["g"]).resolving is not None:
        assert other.beat().error_code == 0, "no heartbeat waits for patterns"
        turns += 1
        assert turns < 100, "the patterns are not matched"
    assert turns > 10
    assert len(group.resolved[pattern].topics) == 40
    assert server.clock.now_ms() == before_ms
