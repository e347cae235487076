"""Heartbeat to a consumer group: a member of the classic protocol is alive, and learns whether it has to rejoin.

Shown by tests/core/scripts/consumer/classic_timers.txt, tests/core/kinds/consumer/test_heartbeat.py and
tests/conformance/stories/migration.py.
"""

from typing import Any

from coordinator.core.env import Env
from coordinator.core.kinds.classic.heartbeat import ANSWERS
from coordinator.core.kinds.consumer.group import ConsumerGroup, Member
from coordinator.core.kinds.consumer.membership import find_member
from coordinator.core.kinds.consumer.owners import is_free
from coordinator.core.kinds.consumer.states import MemberState
from coordinator.core.refusal import Refusal
from coordinator.core.result import Effect, Result, SetTimer
from coordinator.core.timers import JOIN, session
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest


def heartbeat(group: ConsumerGroup, request: HeartbeatRequest, env: Env) -> Result[Any]:
    """Renew the member's session, also when it has to rejoin."""
    member = classic_member(group, request.member_id, request.group_instance_id, request.generation_id)
    if isinstance(member, ErrorCode):
        return Result(response=ANSWERS[member])
    assert member.classic is not None, "classic_member has seen to it"
    at_ms = env.call.now_ms + member.classic.session_timeout_ms
    renewed = SetTimer(session(group.group_id, member.member_id), at_ms)
    if not has_to_rejoin(group, member):
        return Result(response=ANSWERS[ErrorCode.NONE], effects=(renewed,))
    effects = (renewed, *rejoin_timer(group, member, env.call.now_ms))
    return Result(response=ANSWERS[ErrorCode.REBALANCE_IN_PROGRESS], effects=effects)


def classic_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> Member | ErrorCode:
    """Return the classic member of that generation, or the error for it."""
    found = find_member(group, member_id, instance_id)
    if isinstance(found, Refusal):
        return found.error
    if found.classic is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return found if found.epoch == generation else ErrorCode.ILLEGAL_GENERATION


def has_to_rejoin(group: ConsumerGroup, member: Member) -> bool:
    """Return whether the member's next step is a JoinGroup: there is a newer target, something to give up, or all to
    take.

    As long as others hold what it waits for it is left in peace.
    """
    if member.epoch < group.assignment_epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    return member.state is MemberState.UNRELEASED_PARTITIONS and not _waits_for_others(group, member)


def rejoin_timer(group: ConsumerGroup, member: Member, now_ms: int) -> tuple[Effect, ...]:
    """Set the timer by which the member must rejoin: its rebalance timeout, from the first time that it was told."""
    return (
        SetTimer(
            (JOIN, group.group_id, member.member_id), now_ms + member.metadata.rebalance_timeout_ms, only_if_absent=True
        ),
    )


def _waits_for_others(group: ConsumerGroup, member: Member) -> bool:
    return any(
        partition not in member.assigned.get(topic_id, {}) and not is_free(group.owners, topic_id, partition)
        for topic_id, partitions in group.target(member.member_id).items()
        for partition in partitions
    )
