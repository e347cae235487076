"""JoinGroup: a member enters, or comes back for the next generation.

The answer is parked, under the call's ticket, until the join phase completes; at once come refusals, the id that a new
member has to come back with (KIP-394), and the current generation for a member that has missed its answer.

Shown by
tests/core/scripts/classic/{join_*,pending_member*,*_rejoins,rejoin_of_strangers,protocol_type,after_a_consumer_group}.txt
and tests/conformance/stories/classic_join.py.
"""

from collections.abc import Mapping
from typing import Final, assert_never

from msgspec.structs import replace

from coordinator.core import timers
from coordinator.core.env import Env
from coordinator.core.events import Cause
from coordinator.core.kinds.classic import durable
from coordinator.core.kinds.classic.events import Why, event
from coordinator.core.kinds.classic.group import ClassicGroup, Member, Protocols
from coordinator.core.kinds.classic.rebalance import rebalance_or_complete_join
from coordinator.core.kinds.classic.replies import join_response
from coordinator.core.kinds.classic.states import State
from coordinator.core.kinds.classic.static import replace_static_member
from coordinator.core.kinds.classic.validation import has_room, supports_protocols, validate_member
from coordinator.core.limits import NEW_MEMBER_JOIN_TIMEOUT_MS, Limits
from coordinator.core.refusal import refuse_join
from coordinator.core.result import Call, Reply, Result, SetTimer
from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupRequest

BY: Final = "JoinGroup"
STRING_BYTES_MAX: Final = 2**15 - 1  # of an INT16 length

# Why a rebalance starts when a member of a settled group rejoins; a follower that brings nothing new starts none.
_REJOIN: Final[Mapping[tuple[State, bool], Cause]] = {
    (State.COMPLETING_REBALANCE, False): Cause.METADATA_CHANGED,
    (State.COMPLETING_REBALANCE, True): Cause.METADATA_CHANGED,
    (State.STABLE, False): Cause.METADATA_CHANGED,
    (State.STABLE, True): Cause.LEADER_REJOINED,  # it may have seen topics change, which is in no metadata
}


def join_group(group: ClassicGroup | None, request: JoinGroupRequest, env: Env) -> Result[ClassicGroup]:
    """Admit a member. Its response is parked, under `call.ticket`, until the join phase completes."""
    call, limits = env.call, env.limits
    if not request.group_id:
        return _refuse(ErrorCode.INVALID_GROUP_ID, request.member_id, call)
    if not limits.group_min_session_timeout_ms <= request.session_timeout_ms <= limits.group_max_session_timeout_ms:
        return _refuse(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id, call)
    if group is not None:
        return _admit(group, request, call, limits)
    if request.member_id:
        return _refuse(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id, call)
    return _create_group(request, call, limits)


def _create_group(request: JoinGroupRequest, call: Call, limits: Limits) -> Result[ClassicGroup]:
    """Create the group that a JoinGroup names, even when the request itself is then refused."""
    fresh = ClassicGroup(request.group_id, state_since_ms=call.now_ms)
    result = _admit(fresh, request, call, limits)
    after = fresh if result.group is None else result.group
    told = event(fresh, fresh, call.now_ms, Why(Cause.GROUP_CREATED, BY))
    written = replace(result, group=after, records=(durable.record_of_new_group(after), *result.records))
    return written.prepend(events=(told,))


def _admit(group: ClassicGroup, request: JoinGroupRequest, call: Call, limits: Limits) -> Result[ClassicGroup]:
    """Check the request in Kafka's order (room, protocols, member), then admit the member."""
    if not has_room(group, request.member_id, limits):
        return _turn_away(group, request, call)
    if not supports_protocols(group, request.protocol_type, request.protocols):
        return _refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id, call)
    if request.member_id:
        return _rejoin(group, request, call, limits)
    if request.group_instance_id is None:
        return _name_new_member(group, request, call, limits)
    old_id = group.instances.get(request.group_instance_id)
    member_id = f"{request.group_instance_id}-{call.fresh_id()}"
    if not _fits_into_a_record(member_id):
        return _refuse(ErrorCode.UNKNOWN_SERVER_ERROR, "", call)
    if old_id is None:
        return _add_member(group, member_id, request, call, limits)
    return replace_static_member(group, group.members[old_id], _member(member_id, request, call), request, call, limits)


def _name_new_member(
    group: ClassicGroup, request: JoinGroupRequest, call: Call, limits: Limits
) -> Result[ClassicGroup]:
    member_id = f"{call.client_id or ''}-{call.fresh_id()}"
    if not _fits_into_a_record(member_id):
        return _refuse(ErrorCode.UNKNOWN_SERVER_ERROR, "", call)
    if call.version < 4:
        return _add_member(group, member_id, request, call, limits)
    # KIP-394: name the member first, so that a client that retries leaves no ghosts behind.
    at_ms = call.now_ms + request.session_timeout_ms
    return Result(
        group.with_pending_id(member_id),
        response=refuse_join(ErrorCode.MEMBER_ID_REQUIRED, member_id, call.version),
        effects=(SetTimer(timers.session(group.group_id, member_id), at_ms),),
    )


def _fits_into_a_record(member_id: str) -> bool:
    """Return whether a generated id has at most the bytes of a string in a record. Kafka fails as it encodes one that
    has more, and so with an internal error."""
    return len(member_id) * 4 <= STRING_BYTES_MAX or len(member_id.encode()) <= STRING_BYTES_MAX


def _rejoin(group: ClassicGroup, request: JoinGroupRequest, call: Call, limits: Limits) -> Result[ClassicGroup]:
    """Admit a member that rejoins, or an id that was given out before (KIP-394)."""
    if request.member_id in group.pending:
        if request.group_instance_id is not None:  # ids are given to dynamic members only: Kafka's error is internal
            return _refuse(ErrorCode.UNKNOWN_SERVER_ERROR, "", call)
        return _add_member(group, request.member_id, request, call, limits)
    if error := validate_member(group, request.member_id, request.group_instance_id):
        return _refuse(error, request.member_id, call)
    member = group.members[request.member_id]
    protocols = _protocols(request)
    if protocols == member.protocols:
        protocols = member.protocols  # which most members bring again: one copy of them is kept
    leads = group.leader == member.member_id
    match group.state:
        case State.PREPARING_REBALANCE:
            cause = Cause.MEMBER_REJOINED
        case State.COMPLETING_REBALANCE | State.STABLE:
            cause = _REJOIN[group.state, leads]
            if protocols == member.protocols and cause is Cause.METADATA_CHANGED:
                return Result(group, response=join_response(group, member.member_id))
        case State.EMPTY | State.DEAD:
            raise AssertionError(f"group {group.group_id} is {group.state} and has a member")
        case never:
            assert_never(never)
    again = replace(
        member,
        protocols=protocols,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=_rebalance_timeout_ms(request, call),
        join_ticket=call.ticket,
        join_version=call.version,
    )
    # The connection of an earlier JoinGroup has most likely gone. Kafka leaves it unanswered for good.
    why = Why(cause, BY, again, reason=request.reason)
    result = rebalance_or_complete_join(group.with_member(again), call.now_ms, limits, why)
    if member.join_ticket is None:
        return result
    earlier = refuse_join(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id, member.join_version)
    return result.prepend(Reply(member.join_ticket, earlier))


def _add_member(
    group: ClassicGroup, member_id: str, request: JoinGroupRequest, call: Call, limits: Limits
) -> Result[ClassicGroup]:
    """Add a member. One that never hears of its admission, and so never beats, is removed after five minutes."""
    member = _member(member_id, request, call, is_new=True)
    if not group.members:
        group = replace(group, protocol_type=request.protocol_type)
    if group.initial and not group.new_member_added:
        group = replace(group, new_member_added=True)
    timer = SetTimer(timers.session(group.group_id, member_id), call.now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)
    why = Why(Cause.MEMBER_JOINED, BY, member, reason=request.reason)
    return rebalance_or_complete_join(group.with_member(member), call.now_ms, limits, why).prepend(timer)


def _turn_away(group: ClassicGroup, request: JoinGroupRequest, call: Call) -> Result[ClassicGroup]:
    """Refuse a joiner because the group is full. If it was a member, or was expected, it is removed."""
    refused = _refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, "", call)
    if request.member_id in group.pending:
        return replace(refused, group=group.without_pending_id(request.member_id))
    member = group.members.get(request.member_id)
    if member is None:
        return refused
    after = group.without_member(member)
    told = event(group, after, call.now_ms, Why(Cause.MEMBER_REFUSED, BY, member))
    return replace(refused, group=after, events=(told,))


def _refuse(error: ErrorCode, member_id: str, call: Call) -> Result[ClassicGroup]:
    return Result(response=refuse_join(error, member_id, call.version))


def _member(member_id: str, request: JoinGroupRequest, call: Call, *, is_new: bool = False) -> Member:
    """Return the member that a request describes, with its JoinGroup parked."""
    return Member(
        member_id=member_id,
        client_id=call.client_id or "",
        client_host=call.client_host,
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=_rebalance_timeout_ms(request, call),
        protocols=_protocols(request),
        instance_id=request.group_instance_id,
        join_ticket=call.ticket,
        join_version=call.version,
        is_new=is_new,
    )


def _protocols(request: JoinGroupRequest) -> Protocols:
    return tuple([(protocol.name, protocol.metadata) for protocol in request.protocols])


def _rebalance_timeout_ms(request: JoinGroupRequest, call: Call) -> int:
    """Return the member's rebalance timeout: of version 0, which has none, the session timeout.

    A negative one waits for nobody, like 0. Kafka keeps -1, and reads it from its log as the session timeout.
    """
    return request.session_timeout_ms if call.version == 0 else max(0, request.rebalance_timeout_ms)
