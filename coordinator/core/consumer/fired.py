"""Timers of a consumer group: sessions and rebalances that end, classic members that do not come, patterns to match."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from coordinator.core import timers
from coordinator.core.consumer import patterns
from coordinator.core.consumer.group import ConsumerGroup, Member
from coordinator.core.consumer.removal import removed
from coordinator.core.consumer.states import MemberState
from coordinator.core.consumer.turn import JOIN, REGEX, SYNC, Turn
from coordinator.core.events import Cause
from coordinator.core.limits import Limits
from coordinator.core.refusal import Refusal
from coordinator.core.result import Effect, Result, SetTimer
from coordinator.core.topics import Topics

RETRY_MS: Final = 500


def fired(
    group: ConsumerGroup, kind: str, member_id: str, deadline_ms: int, now_ms: int, limits: Limits, topics: Topics
) -> Result[Any]:
    """What a timer leads to: nothing, if what it was about is over."""
    turn = Turn(group, now_ms, limits, topics, by=f"timer {kind}")
    if kind == REGEX:
        patterns.fired(turn)
        return turn.result()
    member = group.members.get(member_id)
    if member is None or not _APPLIES[kind](member):
        return Result()
    cause = _CAUSES[kind]
    result = removed(turn, {member_id: member}, None, cause)
    if isinstance(result, Refusal):
        # What the classic members said cannot be read, so the group cannot become classic: try again, as Kafka does.
        return Result(effects=(SetTimer((kind, group.group_id, member_id), now_ms + RETRY_MS),))
    events = tuple(
        replace(event, deadline_ms=deadline_ms) if event.cause is cause else event for event in result.events
    )
    return replace(result, events=events)


def loaded(group: ConsumerGroup, now_ms: int, limits: Limits, topics: Topics) -> Result[Any]:
    """The timers of a group that was read from the log: everybody has a full session, and full time to give up."""
    effects: list[Effect] = []
    session_at_ms = now_ms + limits.group_consumer_session_timeout_ms
    for member_id, member in group.members.items():
        effects.append(SetTimer(timers.session(group.group_id, member_id), session_at_ms))
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            at_ms = now_ms + member.metadata.rebalance_timeout_ms
            effects.append(SetTimer(timers.rebalance(group.group_id, member_id), at_ms))
    return Result(effects=tuple(effects))


def _always(member: Member) -> bool:
    return True


def _still_owes(member: Member) -> bool:
    """It has not given up what it had to. One that is away has nothing pending, and its session runs."""
    return member.state is MemberState.UNREVOKED_PARTITIONS and member.epoch >= 0


_APPLIES: Final[Mapping[str, Callable[[Member], bool]]] = {
    "session": _always,
    "rebalance": _still_owes,
    JOIN: _always,
    SYNC: _always,
}
_CAUSES: Final[Mapping[str, Cause]] = {
    "session": Cause.SESSION_EXPIRED,
    "rebalance": Cause.REBALANCE_TIMED_OUT,
    JOIN: Cause.REBALANCE_TIMED_OUT,
    SYNC: Cause.PENDING_SYNC_EXPIRED,
}
