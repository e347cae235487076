"""The operator's verbs on a classic group."""

from coordinator.core.cleanup import forget_group
from coordinator.core.env import Env
from coordinator.core.events import Cause
from coordinator.core.groups import report_move
from coordinator.core.kinds.classic.events import Why, event
from coordinator.core.kinds.classic.group import ClassicGroup
from coordinator.core.kinds.classic.rebalance import prepare_rebalance
from coordinator.core.kinds.classic.replies import refuse_parked_requests
from coordinator.core.kinds.classic.states import State
from coordinator.core.kinds.classic.timers import remove_and_rebalance
from coordinator.core.moves import LoseMembers
from coordinator.core.result import Effect, Result
from coordinator.core.verbs import BY, Forget, Rebalance, RemoveMember, SetTarget, VerbResponse
from protocol.errors import ErrorCode


def remove_member(group: ClassicGroup, verb: RemoveMember, env: Env) -> Result[ClassicGroup]:
    """Remove a member, or a pending member id. What it waits for is answered UNKNOWN_MEMBER_ID."""
    member_id = verb.member_id
    if member_id not in group.members and member_id not in group.pending:
        return Result(response=VerbResponse(f"there is no member {member_id!r} in group {verb.group_id!r}"))
    why = Why(verb.cause, BY, group.members.get(member_id), member_id, verb.reason)
    return remove_and_rebalance(group, why, env.call.now_ms, env.limits).with_response(VerbResponse())


def rebalance(group: ClassicGroup, verb: Rebalance, env: Env) -> Result[ClassicGroup]:
    """Start a rebalance: every member is told to rejoin at its next heartbeat."""
    if not group.members:
        return Result(response=VerbResponse(f"group {verb.group_id!r} has no members"))
    if group.state is State.PREPARING_REBALANCE:
        return Result(group, VerbResponse())  # that is under way already
    why = Why(Cause.REBALANCE_REQUESTED, BY, reason=verb.reason)
    return prepare_rebalance(group, env.call.now_ms, env.limits, why).with_response(VerbResponse())


def set_target(group: ClassicGroup, verb: SetTarget, env: Env) -> Result[ClassicGroup]:
    """Refuse to force the target: in a classic group the leader assigns, not the coordinator."""
    return Result(
        response=VerbResponse(f"group {verb.group_id!r} is a classic group: its leader computes the assignment")
    )


def forget(group: ClassicGroup, verb: Forget, env: Env) -> Result[ClassicGroup]:
    """Remove the group. Requests of its members that wait are answered UNKNOWN_MEMBER_ID."""
    waiting: list[Effect] = []
    for member in group.members.values():
        waiting += refuse_parked_requests(member, ErrorCode.UNKNOWN_MEMBER_ID, "")
    return forget_group(group, verb, env).prepend(*waiting)


def lose_members(group: ClassicGroup, verb: LoseMembers, env: Env) -> Result[ClassicGroup]:
    """Leave the group without members: each is told UNKNOWN_MEMBER_ID, and joins anew."""
    if not group.members:
        return Result(response=VerbResponse())
    whys = [Why(Cause.MEMBERS_LOST, BY, member) for member in group.members.values()]
    told = tuple(event(group, group, env.call.now_ms, why) for why in whys[:-1])
    result = prepare_rebalance(group.with_members({}), env.call.now_ms, env.limits, whys[-1])
    return result.prepend(events=told).with_response(VerbResponse())


def unload(group: ClassicGroup, env: Env, reason: str) -> Result[ClassicGroup]:
    """Answer parked requests NOT_COORDINATOR. Kafka: `GroupMetadataManager.onUnloaded`."""
    waiting: list[Effect] = []
    for member in group.members.values():
        waiting += refuse_parked_requests(member, ErrorCode.NOT_COORDINATOR, member.member_id)
    return report_move(group, env, reason).prepend(*waiting)
