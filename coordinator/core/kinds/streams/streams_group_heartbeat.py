"""StreamsGroupHeartbeat: a member joins, reports the tasks that it owns, is told those that it shall own, and leaves.

    1  what it says about itself is kept, if it is new                            record 19
    2  the topology of the first member becomes the group's                       record 23
    3  if that, the topics or the settings change what the group wants: an epoch  record 17
    4  if the target is behind the epoch: a new target                            records 21, 20
    5  the member itself, and nobody else, moves one step towards it              record 22

A heartbeat with nothing new is most of them, and is seen as such at the start: it renews a timer and changes nothing.

Shown by tests/conformance/stories/{streams_join,streams_topology}.py.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

from msgspec.structs import replace

from coordinator.core.env import Env
from coordinator.core.events import Cause
from coordinator.core.kinds.modern.epochs import TOO_LARGE, refuse_and_renew
from coordinator.core.kinds.modern.validation import unknown_member
from coordinator.core.kinds.streams.endpoints import has_endpoint, list_endpoints
from coordinator.core.kinds.streams.group import Member, Metadata, StreamsGroup
from coordinator.core.kinds.streams.internal_topics import create_missing
from coordinator.core.kinds.streams.removal import remove_members
from coordinator.core.kinds.streams.steps import Changes, advance
from coordinator.core.kinds.streams.target import settings_of
from coordinator.core.kinds.streams.tasks import ReportedTasks, reported_tasks
from coordinator.core.kinds.streams.transition import GroupTransition, begin_transition
from coordinator.core.kinds.streams.validation import validate_epoch, validate_heartbeat
from coordinator.core.limits import Limits
from coordinator.core.refusal import Refusal
from coordinator.core.result import Call, Result, SetTimer
from coordinator.core.streams_record_types import (
    StreamsGroupMemberMetadataValueEndpoint,
    StreamsGroupMemberMetadataValueKeyValue,
)
from coordinator.core.timers import SESSION
from protocol.errors import ErrorCode
from protocol.messages.streams_group_heartbeat import (
    StatusCode,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    StreamsGroupHeartbeatResponseStatus,
    StreamsGroupHeartbeatResponseTaskIds,
)

Answer = Result[Any]
BY: Final = "StreamsGroupHeartbeat"


def streams_group_heartbeat(group: Any, request: StreamsGroupHeartbeatRequest, env: Env) -> Answer:
    """Decide one heartbeat. An empty classic group becomes a streams group by a member that joins."""
    if type(group) is StreamsGroup:
        member = group.members.get(request.member_id)
        if member is not None and _has_nothing_new(group, member, request, env):
            return _renew_session(group, member, env)
    wrong = validate_heartbeat(request)
    if wrong is not None:
        return Result(response=_error_response(wrong))
    answer = (_beat if request.member_epoch >= 0 else _leave)(group, request, env)
    if answer is TOO_LARGE:
        return refuse_too_large(group, request, env)
    return Result(response=_error_response(answer)) if isinstance(answer, Refusal) else answer


def refuse_too_large(group: Any, request: StreamsGroupHeartbeatRequest, env: Env) -> Answer:
    """Refuse a heartbeat whose records are more than the log takes at once."""
    refused = Result[Any](response=_error_response(TOO_LARGE))
    return refuse_and_renew(group, request, refused, env.limits.group_streams_session_timeout_ms, env)


def refuse_malformed(
    request: StreamsGroupHeartbeatRequest, version: int, limits: Limits
) -> StreamsGroupHeartbeatResponse | None:
    """Return the response to a heartbeat that no group takes, None if one might."""
    wrong = validate_heartbeat(request)
    return None if wrong is None else _error_response(wrong)


def _error_response(refusal: Refusal) -> StreamsGroupHeartbeatResponse:
    return StreamsGroupHeartbeatResponse(error_code=refusal.error, error_message=refusal.message)


def _has_nothing_new(group: StreamsGroup, member: Member, request: StreamsGroupHeartbeatRequest, env: Env) -> bool:
    """Return whether the request says only that the member is there, and the group has nothing to tell it either."""
    call, metadata = env.call, member.metadata
    return (
        request.member_epoch == member.epoch == group.assignment_epoch == group.epoch
        and member.is_at(member.epoch)
        and request.endpoint_information_epoch == group.endpoint_epoch
        and request.active_tasks is None
        and request.standby_tasks is None
        and request.warmup_tasks is None
        and request.topology is None
        and request.instance_id is None
        and request.rack_id is None
        and request.process_id is None
        and request.user_endpoint is None
        and request.client_tags is None
        and request.task_offsets is None
        and request.task_end_offsets is None
        and request.rebalance_timeout_ms in (-1, metadata.rebalance_timeout_ms)
        and not request.shutdown_application
        and group.shutdown_by is None
        and not group.is_delayed
        and group.configured is not None
        and group.configured.is_ready
        and group.topology is not None
        and group.topology.epoch <= metadata.topology_epoch
        and group.topics_seen == env.topics.version
        and group.settings == settings_of(env.limits)
        and metadata.client_id == (call.client_id or "")
        and metadata.client_host == call.client_host
    )


def _renew_session(group: StreamsGroup, member: Member, env: Env) -> Answer:
    limits = env.limits
    key = (SESSION, group.group_id, member.member_id)
    return Result(
        response=StreamsGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=limits.group_streams_heartbeat_interval_ms,
            endpoint_information_epoch=group.endpoint_epoch,
        ),
        effects=(SetTimer(key, env.call.now_ms + limits.group_streams_session_timeout_ms),),
    )


def _beat(group: Any, request: StreamsGroupHeartbeatRequest, env: Env) -> Answer | Refusal:
    """Handle the heartbeat of a member that joins or stays."""
    is_joining = request.member_epoch == 0
    if type(group) is not StreamsGroup and not is_joining:
        return _no_group(request.group_id)
    transition = begin_transition(group, request.group_id, env, BY)
    if isinstance(transition, Refusal):
        return transition
    reported = reported_tasks(request)
    member = transition.group.members.get(request.member_id)
    if member is None:
        if not is_joining:
            return unknown_member(request.member_id, request.group_id)
        # Kafka 4.3.1 counts a present member that rejoins as another one, and refuses it in a full group.
        if len(transition.group.members) >= env.limits.group_streams_max_size:
            return _group_full(env.limits.group_streams_max_size)
        member = Member(request.member_id)
    if wrong := validate_epoch(member, request.member_epoch, reported):
        return wrong
    changes = advance(transition, member, _metadata(member, request, env.call), request.topology, reported)
    if isinstance(changes, Refusal):
        return changes
    transition.set_timer(SESSION, request.member_id, env.limits.group_streams_session_timeout_ms)
    if request.shutdown_application and transition.group.shutdown_by is None:
        _request_shutdown(transition, changes.member)
    statuses = create_missing(transition, changes.statuses)
    return _answer(transition, member, replace(changes, statuses=statuses), request, reported)


def _metadata(member: Member, request: StreamsGroupHeartbeatRequest, call: Call) -> Metadata:
    """Return the member's metadata with the fields that the request changes. Null means unchanged."""
    said: dict[str, Any] = {"client_id": call.client_id or "", "client_host": call.client_host}
    if request.rack_id is not None:
        said["rack_id"] = request.rack_id
    if request.rebalance_timeout_ms != -1:
        said["rebalance_timeout_ms"] = request.rebalance_timeout_ms
    if request.topology is not None:
        said["topology_epoch"] = request.topology.epoch
    if request.process_id is not None:
        said["process_id"] = request.process_id
    if request.user_endpoint is not None:
        endpoint = request.user_endpoint
        said["user_endpoint"] = StreamsGroupMemberMetadataValueEndpoint(endpoint.host, endpoint.port)
    if request.client_tags is not None:
        tags = {tag.key: tag.value for tag in request.client_tags}
        said["client_tags"] = tuple(StreamsGroupMemberMetadataValueKeyValue(key, tags[key]) for key in sorted(tags))
    return replace(member.metadata, **said)


def _request_shutdown(transition: GroupTransition, member: Member) -> None:
    """Keep that a member asks all of them to stop. It is told to each of them until the group is empty."""
    transition.group = replace(transition.group, shutdown_by=member.member_id)
    transition.tell(Cause.SHUTDOWN_REQUESTED, member)


def _answer(
    transition: GroupTransition,
    found: Member,
    changes: Changes,
    request: StreamsGroupHeartbeatRequest,
    reported: ReportedTasks | None,
) -> Answer:
    """Tell the tasks to a member that joins, and when they have changed; and the endpoints when those have changed.

    A member that reports less than it was assigned is told again: the response that said so may have been lost. Kafka
    4.3.1 is silent, and the tasks are then processed by nobody until the next rebalance.
    """
    member, statuses = changes.member, changes.statuses
    is_told = request.member_epoch == 0 or member.assigned != found.assigned
    is_told = is_told or (reported is not None and reported.lacks_any(member.assigned))
    endpoint_epoch = transition.group.endpoint_epoch + (is_told and has_endpoint(member))
    endpoints = None
    if endpoint_epoch != request.endpoint_information_epoch:
        configured = transition.group.configured
        assert configured is not None, "a heartbeat holds the topology against the topics"
        endpoints = list_endpoints(transition.group, configured, transition.topics)
    if transition.is_new:  # as in Kafka, whose new group forgets it, and tells it once where there was a classic one
        endpoint_epoch = endpoint_epoch if transition.was_classic else 0
    elif endpoint_epoch != transition.group.endpoint_epoch:
        transition.group = replace(transition.group, endpoint_epoch=endpoint_epoch)
    if (shutdown_by := transition.group.shutdown_by) is not None:
        detail = f"member {shutdown_by} asked the whole application to stop"
        statuses = (*statuses, StreamsGroupHeartbeatResponseStatus(StatusCode.SHUTDOWN_APPLICATION, detail))
    return transition.result(
        StreamsGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=transition.limits.group_streams_heartbeat_interval_ms,
            status=statuses,
            active_tasks=_task_ids(member.assigned.active) if is_told else None,
            standby_tasks=_task_ids(member.assigned.standby) if is_told else None,
            warmup_tasks=_task_ids(member.assigned.warmup) if is_told else None,
            endpoint_information_epoch=endpoint_epoch,
            partitions_by_user_endpoint=endpoints,
        )
    )


def _task_ids(tasks: Mapping[str, Collection[int]]) -> tuple[StreamsGroupHeartbeatResponseTaskIds, ...]:
    return tuple(StreamsGroupHeartbeatResponseTaskIds(number, tuple(sorted(tasks[number]))) for number in sorted(tasks))


def _leave(group: Any, request: StreamsGroupHeartbeatRequest, env: Env) -> Answer | Refusal:
    """Handle the heartbeat of a member that leaves. Its epoch is not checked."""
    if type(group) is not StreamsGroup:
        return _no_group(request.group_id)
    member = group.members.get(request.member_id)
    if member is None:
        return unknown_member(request.member_id, request.group_id)
    transition = GroupTransition(group, env, BY)
    if request.shutdown_application and group.shutdown_by is None:
        _request_shutdown(transition, member)
    response = StreamsGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
    return remove_members(transition, {member.member_id: member}, response, Cause.MEMBER_LEFT)


def _no_group(group_id: str) -> Refusal:
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a streams group, or does not exist.")


def _group_full(size: int) -> Refusal:
    message = f"The streams group has reached its maximum capacity of {size} members."
    return Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, message)
