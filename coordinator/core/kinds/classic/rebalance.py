"""How a rebalance starts, waits and completes.

A rebalance begins with `prepare_rebalance`: the group waits for all of its members to send JoinGroup, each of which is
parked. It ends with `complete_join_phase`, as soon as all have joined or when time is up: members that have not joined
are removed (static members stay, KIP-345), a protocol is chosen, and all parked requests are answered at once. Then the
group waits for the leader to assign (`sync_group`), and the `sync` timer removes members that do not ask for theirs.

A group that was empty waits for `group.initial.rebalance.delay.ms` instead, and longer while members keep coming.

Shown by tests/core/scripts/classic/{rebalance_*,initial_delay*}.txt and
tests/conformance/stories/rebalance_timing.py.
"""

from typing import Final

from msgspec.structs import replace

from coordinator.core import timers
from coordinator.core.events import Cause
from coordinator.core.kinds.classic import durable
from coordinator.core.kinds.classic.events import Why, event
from coordinator.core.kinds.classic.group import ClassicGroup, Member
from coordinator.core.kinds.classic.replies import join_response, refuse_sync
from coordinator.core.kinds.classic.states import State
from coordinator.core.kinds.classic.voting import choose_protocol, subscribed_topics
from coordinator.core.limits import Limits
from coordinator.core.result import Effect, Reply, Result, SetTimer
from protocol.errors import ErrorCode

POSTPONED_MS_MIN: Final = 1_000  # between two looks, though all members may allow no time at all


def rebalance_or_complete_join(group: ClassicGroup, now_ms: int, limits: Limits, why: Why) -> Result[ClassicGroup]:
    """Start a rebalance, or complete the join phase if every member has joined.

    Kafka: `GroupMetadataManager.updateMemberThenRebalanceOrCompleteJoin`.
    """
    if group.state is not State.PREPARING_REBALANCE:
        return prepare_rebalance(group, now_ms, limits, why)
    return maybe_complete_join(group, now_ms, why)


def maybe_complete_join(group: ClassicGroup, now_ms: int, why: Why) -> Result[ClassicGroup]:
    """Complete the join phase if every member has joined. The initial delay is not cut short by that.

    Kafka: `GroupMetadataManager.maybeCompleteJoinPhase`.
    """
    assert group.state is State.PREPARING_REBALANCE, f"group {group.group_id} is {group.state}"
    told = event(group, group, now_ms, why)
    if group.initial or not group.has_all_joined:
        return Result(group, events=(told,))
    return complete_join_phase(group, now_ms, Why(Cause.ALL_MEMBERS_JOINED, why.by)).prepend(events=(told,))


def prepare_rebalance(group: ClassicGroup, now_ms: int, limits: Limits, why: Why) -> Result[ClassicGroup]:
    """Start a rebalance. Kafka: `GroupMetadataManager.prepareRebalance`."""
    waiting = _enter_join_phase(group, now_ms, limits)
    after, effects = (
        _refuse_pending_syncs(waiting, now_ms) if group.state is State.COMPLETING_REBALANCE else (waiting, ())
    )
    told = (event(group, after, now_ms, why),)
    if after.initial:
        at_ms = now_ms + limits.group_initial_rebalance_delay_ms
        return Result(after, effects=(*effects, SetTimer(timers.join(group.group_id), at_ms)), events=told)
    if after.has_all_joined:
        return complete_join_phase(after, now_ms, Why(Cause.ALL_MEMBERS_JOINED, why.by)).prepend(*effects, events=told)
    at_ms = now_ms + after.rebalance_timeout_ms
    return Result(after, effects=(*effects, SetTimer(timers.join(group.group_id), at_ms)), events=told)


def end_join_phase(group: ClassicGroup, now_ms: int, limits: Limits) -> Result[ClassicGroup]:
    """End the join phase, unless it was the initial delay, a member came meanwhile and there is time left."""
    assert group.state is State.PREPARING_REBALANCE, f"group {group.group_id}: a join timer while {group.state}"
    if group.initial and group.new_member_added and group.initial_delay_remaining_ms:
        delay_ms = min(limits.group_initial_rebalance_delay_ms, group.initial_delay_remaining_ms)
        remaining_ms = group.initial_delay_remaining_ms - delay_ms
        group = replace(group, new_member_added=False, initial_delay_remaining_ms=remaining_ms)
        if delay_ms:
            return Result(group, effects=(SetTimer(timers.join(group.group_id), now_ms + delay_ms),))
    return complete_join_phase(group, now_ms, Why(_why_join_phase_ends(group, limits), "timer join"))


def _why_join_phase_ends(group: ClassicGroup, limits: Limits) -> Cause:
    """Return what ends a join phase at its timer. Without an initial delay that is those who came in the same turn."""
    if not group.initial:
        return Cause.REBALANCE_TIMED_OUT
    return Cause.INITIAL_DELAY_PASSED if limits.group_initial_rebalance_delay_ms else Cause.ALL_MEMBERS_JOINED


def complete_join_phase(group: ClassicGroup, now_ms: int, why: Why) -> Result[ClassicGroup]:
    """End the join phase: with a new generation, empty if all members are gone, or not yet if none has joined.

    Kafka: `GroupMetadataManager.completeClassicGroupJoin`.
    """
    late = [member for member in group.members.values() if member.join_ticket is None and not member.is_static]
    left = _remove_all(group, late)
    gone = tuple(event(group, group, now_ms, Why(Cause.REBALANCE_TIMED_OUT, why.by, member)) for member in late)
    if not left.members:
        result = become_empty(left, now_ms, Why(Cause.NO_MEMBER_LEFT, why.by))
    elif not left.joined:
        result = _wait_for_static_members(left, now_ms)
    else:
        result = _begin_generation(left, now_ms, why)
    return result.prepend(events=gone)


def become_empty(group: ClassicGroup, now_ms: int, why: Why) -> Result[ClassicGroup]:
    """Leave the group without members: the new generation is written, since offsets expire from this moment on."""
    after = replace(group, generation=group.generation + 1, protocol=None, leader=None, unsynced=0, initial=False)
    after = after.with_state(State.EMPTY, now_ms).with_topics(subscribed_topics(after))
    return Result(after, records=(durable.record(after),), events=(event(group, after, now_ms, why),))


def _enter_join_phase(group: ClassicGroup, now_ms: int, limits: Limits) -> ClassicGroup:
    """Return the group in its join phase, its members as they were."""
    if group.unsynced:
        group = group.with_updated_members(
            {member_id: replace(member, unsynced=False) for member_id, member in group.members.items()}
        )
    initial = group.is_empty
    if not initial:
        return replace(group.with_state(State.PREPARING_REBALANCE, now_ms), initial=False)
    left_ms = max(group.rebalance_timeout_ms - limits.group_initial_rebalance_delay_ms, 0)
    return replace(
        group.with_state(State.PREPARING_REBALANCE, now_ms), initial=True, initial_delay_remaining_ms=left_ms
    )


def _refuse_pending_syncs(group: ClassicGroup, now_ms: int) -> tuple[ClassicGroup, tuple[Effect, ...]]:
    """Tell members that wait for an assignment to rejoin, as none will come; their sessions run again from now."""
    effects: list[Effect] = []
    members: dict[str, Member] = {}
    for member_id, member in group.members.items():
        if member.sync_ticket is not None:
            effects.append(Reply(member.sync_ticket, refuse_sync(ErrorCode.REBALANCE_IN_PROGRESS)))
            effects.append(session_timer(group.group_id, member, now_ms))
        members[member_id] = replace(member, assignment=b"", sync_ticket=None)
    return group.with_updated_members(members), tuple(effects)


def _wait_for_static_members(group: ClassicGroup, now_ms: int) -> Result[ClassicGroup]:
    """Only static members are left and none of them has joined: wait until one does or their sessions end."""
    at_ms = now_ms + max(group.rebalance_timeout_ms, POSTPONED_MS_MIN)
    return Result(replace(group, initial_delay_remaining_ms=0), effects=(SetTimer(timers.join(group.group_id), at_ms),))


def _begin_generation(group: ClassicGroup, now_ms: int, why: Why) -> Result[ClassicGroup]:
    """Make the members who joined, and the static ones, the next generation."""
    begun = replace(
        group.with_state(State.COMPLETING_REBALANCE, now_ms),
        generation=group.generation + 1,
        protocol=choose_protocol(group),
        leader=_leader(group),
        initial=False,
    )
    begun = begun.with_topics(subscribed_topics(begun))
    after = begun.with_updated_members(
        {
            member_id: replace(member, join_ticket=None, is_new=False, unsynced=True)
            for member_id, member in begun.members.items()
        }
    )
    effects: list[Effect] = []
    for member in group.members.values():
        if member.join_ticket is not None:
            effects.append(Reply(member.join_ticket, join_response(after, member.member_id)))
        effects.append(session_timer(group.group_id, member, now_ms))
    effects.append(SetTimer(timers.sync(group.group_id), now_ms + after.rebalance_timeout_ms))
    return Result(after, effects=tuple(effects), events=(event(group, after, now_ms, why),))


def _leader(group: ClassicGroup) -> str:
    """Return the leader: the old one if it has joined, else the first member that has."""
    if group.leader is not None and group.members[group.leader].join_ticket is not None:
        return group.leader
    first: Member = next(member for member in group.members.values() if member.join_ticket is not None)
    return first.member_id


def _remove_all(group: ClassicGroup, removed: list[Member]) -> ClassicGroup:
    if not removed:
        return group
    ids = {member.member_id for member in removed}
    return group.with_members(
        {member_id: member for member_id, member in group.members.items() if member_id not in ids}
    )


def session_timer(group_id: str, member: Member, now_ms: int) -> SetTimer:
    """Start the member's session now."""
    return SetTimer(timers.session(group_id, member.member_id), now_ms + member.session_timeout_ms)
