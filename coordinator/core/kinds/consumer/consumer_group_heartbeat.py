"""ConsumerGroupHeartbeat: a member joins, tells what it owns, is told what it shall own, and leaves.

    1  what it says about itself is kept, if it is new                     record 5
    2  if that, or the topics, change what the group wants: a new epoch    record 3
    3  if the target is behind the epoch: a new target                     records 7, 6
    4  the member itself, and nobody else, moves one step towards it       record 8

A heartbeat with nothing new is most of them, and is seen as such at the start: it renews a timer and changes nothing.

Shown by tests/core/scripts/consumer/{join_and_hand_over,leave,order_of_checks,size,bumps,topics_change}.txt and
tests/conformance/stories/consumer_join.py.
"""

from typing import Any, Final

from msgspec.structs import replace

from coordinator.core.env import Env
from coordinator.core.events import Cause
from coordinator.core.kinds.consumer import patterns, record_builders, upgrade
from coordinator.core.kinds.consumer.group import ConsumerGroup, Member
from coordinator.core.kinds.consumer.membership import (
    find_member,
    group_full,
    is_full,
    replace_static_member,
    validate_epoch,
    validate_takeover,
)
from coordinator.core.kinds.consumer.owners import Owned
from coordinator.core.kinds.consumer.removal import remove_members
from coordinator.core.kinds.consumer.steps import Changes, advance
from coordinator.core.kinds.consumer.transition import GroupTransition
from coordinator.core.kinds.consumer.validation import validate_heartbeat
from coordinator.core.kinds.kind import Group
from coordinator.core.kinds.modern.epochs import AWAY, TOO_LARGE, refuse_and_renew
from coordinator.core.limits import Limits
from coordinator.core.refusal import Refusal
from coordinator.core.result import Call, Result, SetTimer
from coordinator.core.timers import JOIN, SESSION, SYNC
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)

Answer = Result[Any]
BY: Final = "ConsumerGroupHeartbeat"


def consumer_group_heartbeat(group: Group | None, request: ConsumerGroupHeartbeatRequest, env: Env) -> Answer:
    """Decide one heartbeat. A classic group is upgraded by a member that joins."""
    if type(group) is ConsumerGroup:
        member = group.members.get(request.member_id)
        if member is not None and _has_nothing_new(group, member, request, env):
            return _renew_session(group, member, env)
    wrong = validate_heartbeat(request, env.call.version, env.limits)
    if wrong is not None:
        return refuse_heartbeat(wrong)
    decide = _beat if request.member_epoch >= 0 else _leave
    answer = decide(group, request, env)
    if answer is TOO_LARGE:
        return refuse_too_large(group, request, env)
    return refuse_heartbeat(answer) if isinstance(answer, Refusal) else answer


def refuse_too_large(group: Any, request: ConsumerGroupHeartbeatRequest, env: Env) -> Answer:
    """Refuse a heartbeat whose records are more than the log takes at once."""
    timeout_ms = env.limits.group_consumer_session_timeout_ms
    return refuse_and_renew(group, request, refuse_heartbeat(TOO_LARGE), timeout_ms, env)


def refuse_malformed(
    request: ConsumerGroupHeartbeatRequest, version: int, limits: Limits
) -> ConsumerGroupHeartbeatResponse | None:
    """Return the response to a heartbeat that no group takes, None if one might."""
    wrong = validate_heartbeat(request, version, limits)
    return None if wrong is None else _error_response(wrong)


def refuse_heartbeat(refusal: Refusal) -> Answer:
    """Answer a heartbeat with an error. Nothing changes."""
    return Result(response=_error_response(refusal))


def _error_response(refusal: Refusal) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=refusal.error, error_message=refusal.message)


def _has_nothing_new(
    group: ConsumerGroup,
    member: Member,
    request: ConsumerGroupHeartbeatRequest,
    env: Env,
) -> bool:
    """Return whether the request says only that the member is there, and the group has nothing to tell it either."""
    call, metadata = env.call, member.metadata
    return (
        request.member_epoch == member.epoch == group.assignment_epoch == group.epoch
        and member.state == 0
        and request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.server_assignor is None
        and request.rack_id is None
        and (request.instance_id is None or request.instance_id == metadata.instance_id)
        and request.rebalance_timeout_ms in (-1, metadata.rebalance_timeout_ms)
        and metadata.classic_member_metadata is None
        and metadata.client_id == (call.client_id or "")
        and metadata.client_host == call.client_host
        and group.topics_seen == env.topics.version
        and (not group.patterns or patterns.is_quiet(group, env.topics, env.limits, call.now_ms))
    )


def _renew_session(group: ConsumerGroup, member: Member, env: Env) -> Answer:
    limits = env.limits
    key = (SESSION, group.group_id, member.member_id)
    return Result(
        response=ConsumerGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=limits.group_consumer_heartbeat_interval_ms,
        ),
        effects=(SetTimer(key, env.call.now_ms + limits.group_consumer_session_timeout_ms),),
    )


def _beat(group: Group | None, request: ConsumerGroupHeartbeatRequest, env: Env) -> Answer | Refusal:
    """Handle the heartbeat of a member that joins or stays."""
    call, limits = env.call, env.limits
    is_joining = request.member_epoch == 0
    if type(group) is not ConsumerGroup and not is_joining:
        return _no_group(request.group_id)
    transition = upgrade.begin_transition(group, request.group_id, env, BY)
    if isinstance(transition, Refusal):
        return transition
    if is_full(transition.group, request.member_id, request.instance_id, limits):
        return group_full(limits)
    member_id = request.member_id or call.fresh_uuid()
    found = _join(transition, request, member_id) if is_joining else _find_member(transition.group, request)
    if isinstance(found, Refusal):
        return found
    changes = advance(transition, found, _metadata(found, request, call), request.topic_partitions, call)
    if isinstance(changes, Refusal):
        return changes
    if found.classic is not None:  # it speaks the new protocol from now on, and need neither rejoin nor sync
        transition.cancel_timer(JOIN, member_id)
        transition.cancel_timer(SYNC, member_id)
    transition.set_timer(SESSION, member_id, limits.group_consumer_session_timeout_ms)
    return transition.result(_response(found, changes, request, limits))


def _join(transition: GroupTransition, request: ConsumerGroupHeartbeatRequest, member_id: str) -> Member | Refusal:
    """Return the member that joins: a new one, one that rejoins, or one that takes over from a static member."""
    instance_id = request.instance_id
    old = None if instance_id is None else transition.group.by_instance(instance_id)
    if instance_id is None or old is None:
        known = transition.group.members.get(member_id)
        return Member(member_id) if known is None else known
    return validate_takeover(old, instance_id) or replace_static_member(transition, old, member_id)


def _find_member(group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest) -> Member | Refusal:
    found = find_member(group, request.member_id, request.instance_id)
    if isinstance(found, Refusal):
        return found
    return validate_epoch(found, request.member_epoch, request.topic_partitions) or found


def _metadata(member: Member, request: ConsumerGroupHeartbeatRequest, call: Call) -> Any:
    """Return the member with the fields that the request changes. Null means unchanged."""
    said: dict[str, Any] = {
        "client_id": call.client_id or "",
        "client_host": call.client_host,
        "classic_member_metadata": None,
    }
    for field in ("instance_id", "rack_id", "server_assignor", "subscribed_topic_regex"):
        if (value := getattr(request, field)) is not None:
            said[field] = value
    if request.rebalance_timeout_ms != -1:
        said["rebalance_timeout_ms"] = request.rebalance_timeout_ms
    if request.subscribed_topic_names is not None:
        said["subscribed_topic_names"] = tuple(sorted(set(request.subscribed_topic_names)))
    return replace(member.metadata, **said)


def _response(
    found: Member, changes: Changes, request: ConsumerGroupHeartbeatRequest, limits: Limits
) -> ConsumerGroupHeartbeatResponse:
    """Make the response. It has the assignment for a member that joins or says everything, and when it has changed."""
    member = changes.member
    is_full_request = (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )
    is_told = request.member_epoch == 0 or is_full_request or member.assigned != found.assigned
    return ConsumerGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=limits.group_consumer_heartbeat_interval_ms,
        assignment=_assignment(member.assigned) if is_told else None,
    )


def _assignment(assigned: Owned) -> ConsumerGroupHeartbeatResponseAssignment:
    return ConsumerGroupHeartbeatResponseAssignment(
        tuple(
            ConsumerGroupHeartbeatResponseTopicPartitions(topic_id, tuple(sorted(assigned[topic_id])))
            for topic_id in sorted(assigned)
        )
    )


def _leave(group: Group | None, request: ConsumerGroupHeartbeatRequest, env: Env) -> Answer | Refusal:
    """Handle the heartbeat of a member that leaves, for good or for a while. Its epoch is not checked."""
    if type(group) is not ConsumerGroup:
        return _no_group(request.group_id)
    transition = GroupTransition(group, env, BY)
    found = find_member(group, request.member_id, request.instance_id)
    if isinstance(found, Refusal):
        return found
    response = ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
    if request.member_epoch == AWAY:
        return _away(transition, found, response)
    return remove_members(transition, {found.member_id: found}, response, Cause.MEMBER_LEFT)


def _away(transition: GroupTransition, member: Member, response: ConsumerGroupHeartbeatResponse) -> Answer:
    """Let a static member leave for a while: it keeps what it has for as long as its session, and what it owed is
    free.

    The epochs at which it came to own its partitions become 0, so that its next incarnation may commit what this one
    had in hand (KIP-1251).
    """
    assigned = {topic_id: dict.fromkeys(held, 0) for topic_id, held in member.assigned.items()}
    away = replace(member, epoch=AWAY, assigned=assigned, pending={})
    transition.write(record_builders.current(transition.group.group_id, away))
    transition.tell(Cause.STATIC_MEMBER_AWAY, member)
    return transition.result(response)


def _no_group(group_id: str) -> Refusal:
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group, or does not exist.")
