"""SyncGroup: the leader sends the assignment of the generation, and each member receives its own part.

Shown by tests/core/scripts/classic/sync_*.txt and tests/conformance/stories/classic_sync.py.
"""

from collections.abc import Mapping
from typing import assert_never

from msgspec.structs import replace

from coordinator.core.env import Env
from coordinator.core.events import Cause
from coordinator.core.kinds.classic import durable
from coordinator.core.kinds.classic.events import Why, event
from coordinator.core.kinds.classic.group import ClassicGroup, Member
from coordinator.core.kinds.classic.rebalance import prepare_rebalance, session_timer
from coordinator.core.kinds.classic.replies import refuse_sync, sync_response
from coordinator.core.kinds.classic.states import State
from coordinator.core.kinds.classic.validation import validate_member
from coordinator.core.result import Call, Effect, Reply, Result
from protocol.errors import ErrorCode
from protocol.messages.sync_group import SyncGroupRequest


def sync_group(group: ClassicGroup | None, request: SyncGroupRequest, env: Env) -> Result[ClassicGroup]:
    """Return the member's assignment; before the leader has sent it, park the response. Kafka: `classicGroupSync`."""
    call = env.call
    if error := _validate(group, request, call):
        return Result(response=refuse_sync(error))
    assert group is not None, "a member of no group"
    member = group.members[request.member_id]
    match group.state:
        case State.PREPARING_REBALANCE:
            return Result(response=refuse_sync(ErrorCode.REBALANCE_IN_PROGRESS))
        case State.COMPLETING_REBALANCE:
            return _park(group, member, request, call)
        case State.STABLE:
            after = group.with_member(replace(member, unsynced=False)) if member.unsynced else group
            return Result(after, response=sync_response(after, member))
        case State.EMPTY | State.DEAD:
            raise AssertionError(f"group {group.group_id} is {group.state} and has a member")
        case never:
            assert_never(never)


def give_up_assignment(group: ClassicGroup, request: SyncGroupRequest, env: Env) -> Result[ClassicGroup]:
    """Tell all who wait that the assignment cannot be stored, and begin another rebalance.

    Kafka: `resetAndPropagateAssignmentError`, with UNKNOWN_SERVER_ERROR for a record that is too large.
    """
    refusal = refuse_sync(ErrorCode.UNKNOWN_SERVER_ERROR)
    waiting = [member for member in group.members.values() if member.sync_ticket is not None]
    after = group.with_updated_members(
        {member_id: replace(member, assignment=b"", sync_ticket=None) for member_id, member in group.members.items()}
    )
    effects: list[Effect] = []
    for member in waiting:
        assert member.sync_ticket is not None, "only those who wait are told"
        effects += (Reply(member.sync_ticket, refusal), session_timer(group.group_id, member, env.call.now_ms))
    why = Why(Cause.ASSIGNMENT_TOO_LARGE, "SyncGroup", group.members[request.member_id])
    begun = prepare_rebalance(after, env.call.now_ms, env.limits, why)
    return begun.prepend(*effects).with_response(refusal)


def _validate(group: ClassicGroup | None, request: SyncGroupRequest, call: Call) -> ErrorCode:
    """Return why the member gets no assignment, NONE if it gets one. The checks are in Kafka's order."""
    if call.version >= 5 and (request.protocol_type is None or request.protocol_name is None):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if not request.group_id:
        return ErrorCode.INVALID_GROUP_ID
    if group is None or group.is_empty:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if error := validate_member(group, request.member_id, request.group_instance_id):
        return error
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if _differs(request.protocol_type, group.protocol_type) or _differs(request.protocol_name, group.protocol):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


def _differs(asked: str | None, actual: str | None) -> bool:
    """Return whether the two differ. None agrees with everything."""
    return asked is not None and actual is not None and asked != actual


def _park(group: ClassicGroup, member: Member, request: SyncGroupRequest, call: Call) -> Result[ClassicGroup]:
    waiting = replace(member, sync_ticket=call.ticket, unsynced=False)
    after = group.with_member(waiting)
    effects: tuple[Effect, ...] = ()
    if member.sync_ticket is not None:  # of an earlier SyncGroup, most likely on a connection that is closed
        effects = (Reply(member.sync_ticket, refuse_sync(ErrorCode.REBALANCE_IN_PROGRESS)),)
    if member.member_id != group.leader:
        return Result(after, effects=effects)
    assignments = {assignment.member_id: assignment.assignment for assignment in request.assignments}
    return _assign(after, assignments, waiting, call.now_ms).prepend(*effects)


def _assign(group: ClassicGroup, assignments: Mapping[str, bytes], leader: Member, now_ms: int) -> Result[ClassicGroup]:
    """Make the group stable, write its record, and answer the parked SyncGroups.

    A member that the leader left out has an empty assignment.
    """
    stable = group.with_updated_members(
        {
            member_id: replace(member, assignment=assignments.get(member_id, b""), sync_ticket=None)
            for member_id, member in group.members.items()
        }
    )
    effects: list[Effect] = []
    for member_id, member in group.members.items():
        if member.sync_ticket is not None:
            effects.append(Reply(member.sync_ticket, sync_response(stable, stable.members[member_id])))
            effects.append(session_timer(group.group_id, member, now_ms))
    record = durable.record(stable)  # with the time at which the generation began, as in Kafka
    after = stable.with_state(State.STABLE, now_ms)
    synced = event(group, after, now_ms, Why(Cause.LEADER_SYNCED, "SyncGroup", leader))
    return Result(after, records=(record,), effects=tuple(effects), events=(synced,))
