"""ConsumerGroupHeartbeat as a function: what an idle one costs, what fails whole, and assignors that are not ours."""

from collections.abc import Mapping
from typing import Any

import pytest

from coordinator.core.assignors import BUILT_IN
from coordinator.core.assignors.spec import Assignment, AssignorError, GroupSpec
from coordinator.core.env import Env
from coordinator.core.kinds.consumer.consumer_group_heartbeat import consumer_group_heartbeat
from coordinator.core.kinds.consumer.group import ConsumerGroup, Member
from coordinator.core.kinds.consumer.states import NEXT, GroupState, MemberState
from coordinator.core.limits import Limits, MigrationPolicy
from coordinator.core.result import Call, Result, SetTimer
from coordinator.core.topics import Topic, Topics
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

TOPICS = Topics([Topic("t", b"t" * 16, 6)])
LIMITS = Limits(group_consumer_assignment_interval_ms=0)


def call(now_ms: int = 1_000, client_id: str | None = "c", version: int = 1) -> Call:
    return Call(1, now_ms, version, client_id, "/h", lambda: "fresh")


def ask(group: ConsumerGroup | None, member_id: str, epoch: int, limits: Limits = LIMITS, **fields: Any) -> Result[Any]:
    if epoch == 0:
        said = {"rebalance_timeout_ms": 9_000, "subscribed_topic_names": ("t",), "topic_partitions": ()}
        fields = {**said, **fields}
    assignors = fields.pop("assignors", BUILT_IN)
    request = ConsumerGroupHeartbeatRequest("g", member_id, epoch, **fields)
    return consumer_group_heartbeat(group, request, Env(call(), limits, TOPICS, assignors))


def joined(*member_ids: str) -> ConsumerGroup:
    group = None
    for member_id in member_ids:
        group = ask(group, member_id, 0).group
    assert isinstance(group, ConsumerGroup)
    return group


@pytest.mark.rule("K-122 K-153 K-165")
def test_an_idle_heartbeat_replaces_nothing_and_renews_the_session() -> None:
    """No group, no record; only a timer."""
    result = ask(joined("a"), "a", 2)
    assert (result.group, result.records, result.events) == (None, (), ())
    assert result.effects == (SetTimer(("session", "g", "a"), 46_000),)
    assert result.response.assignment is None and result.response.heartbeat_interval_ms == 5_000


@pytest.mark.rule("K-065 K-165 K-377")
def test_what_is_refused_has_changed_nothing_and_renews_nothing() -> None:
    result = ask(joined("a"), "a", 7)
    assert result.response.error_code == ErrorCode.FENCED_MEMBER_EPOCH and result.response.error_message
    assert (result.group, result.records, result.effects, result.events) == (None, (), (), ())


def failing(spec: GroupSpec) -> Mapping[str, Assignment]:
    raise AssignorError("no")


def broken(spec: GroupSpec) -> Mapping[str, Assignment]:
    raise ZeroDivisionError


def greedy(spec: GroupSpec) -> Mapping[str, Assignment]:
    return {member_id: {b"t" * 16: (0,)} for member_id in spec.members}


def beyond(spec: GroupSpec) -> Mapping[str, Assignment]:
    return {member_id: {b"t" * 16: (6,)} for member_id in spec.members}


def stranger(spec: GroupSpec) -> Mapping[str, Assignment]:
    return {"nobody": {b"t" * 16: (0,)}}


@pytest.mark.rule("K-120 K-033")
@pytest.mark.parametrize("assignor", [failing, broken, greedy, beyond, stranger])
def test_an_assignor_that_fails_fails_the_heartbeat_and_nothing_is_written(assignor: Any) -> None:
    """UNKNOWN_SERVER_ERROR without a word; also for an answer that no group could follow."""
    group = joined("a")
    limits = Limits(group_consumer_assignors=("mine",), group_consumer_assignment_interval_ms=0)
    result = ask(group, "b", 0, limits, assignors={"mine": assignor})
    assert (result.response.error_code, result.response.error_message) == (ErrorCode.UNKNOWN_SERVER_ERROR, None)
    assert (result.group, result.records, result.effects) == (None, (), ())


@pytest.mark.rule("K-187 K-188 K-119")
def test_a_third_assignor_is_one_function_under_a_name() -> None:
    """Whoever it leaves out gets nothing."""

    def all_to_the_first(spec: GroupSpec) -> Mapping[str, Assignment]:
        first = min(spec.members)
        return {first: {topic: tuple(range(n - 1, -1, -1)) for topic, n in spec.partition_counts.items()}}

    limits = Limits(group_consumer_assignors=("mine", "range"), group_consumer_assignment_interval_ms=0)
    assignors = {**BUILT_IN, "mine": all_to_the_first}
    group = ask(None, "b", 0, limits, assignors=assignors).group
    assert group.target("b") == {b"t" * 16: (0, 1, 2, 3, 4, 5)}
    group = ask(group, "a", 0, limits, assignors=assignors).group
    assert group.target("a") == {b"t" * 16: (0, 1, 2, 3, 4, 5)} and group.target("b") == {} and "b" in group.targets


@pytest.mark.rule("K-068")
def test_a_client_without_a_name_has_an_empty_one() -> None:
    """What the record can hold."""
    request = ConsumerGroupHeartbeatRequest("g", "a", 0, None, None, 5, ("t",), None, None, ())
    result = consumer_group_heartbeat(None, request, Env(call(client_id=None), LIMITS, TOPICS))
    assert result.group.members["a"].metadata.client_id == ""
    request = ConsumerGroupHeartbeatRequest("g", "a", 2)
    idle = consumer_group_heartbeat(result.group, request, Env(call(client_id=None), LIMITS, TOPICS))
    assert idle.records == ()


@pytest.mark.rule("K-032 K-037")
def test_an_unfinished_operation_is_seen_by_nobody() -> None:
    """K-032, K-037, T-22: the group that a refused join would have made is not there."""
    full = Limits(group_consumer_max_size=0)
    assert ask(None, "a", 0, full).group is None
    assert ask(None, "a", 0).response == ask(None, "a", 0).response


@pytest.mark.rule("K-070")
def test_the_new_protocol_takes_over_a_classic_member_s_timers() -> None:
    """A member that was classic and now heartbeats is none any more, and is not asked to sync."""
    from coordinator.core.kinds.consumer.group import ClassicMetadata, Metadata

    group = joined("a")
    classic = Metadata(
        subscribed_topic_names=("t",), subscribed_topic_regex="", classic_member_metadata=ClassicMetadata(5, ())
    )
    group = group.with_member(Member("c", classic, epoch=2, previous_epoch=2))
    result = ask(group, "c", 2)
    assert result.group.members["c"].classic is None and result.group.classics == 0
    keys = {effect.key for effect in result.effects if type(effect).__name__ == "CancelTimer"}
    assert {("join", "g", "c"), ("sync", "g", "c")} <= keys


@pytest.mark.rule("K-183 K-184 K-185")
def test_states_follow_from_members_and_epochs() -> None:
    """K-183, K-184, K-185 and the table of states."""
    group = joined("a", "b")
    assert group.state is GroupState.RECONCILING
    assert group.with_assignment_epoch(1, 0).state is GroupState.ASSIGNING
    assert ConsumerGroup("g", epoch=9).state is GroupState.EMPTY
    assert joined("a").state is GroupState.STABLE
    assert set(NEXT) == set(MemberState) and MemberState.read(9) is MemberState.UNKNOWN


@pytest.mark.rule("K-211")
def test_all_policies_say_which_way_they_let_a_group_go() -> None:
    ways = {policy: (policy.upgrades, policy.downgrades) for policy in MigrationPolicy}
    assert ways == {
        MigrationPolicy.BIDIRECTIONAL: (True, True),
        MigrationPolicy.UPGRADE: (True, False),
        MigrationPolicy.DOWNGRADE: (False, True),
        MigrationPolicy.DISABLED: (False, False),
    }
