"""ShareGroupHeartbeat: a member joins, is told what it shall read, and leaves.

    1  what it says about itself is kept, if it is new                     record 10
    2  if that, the topics or their states change what the group wants:
       a new epoch                                                         record 11
    3  if the target is behind the epoch: a new target                     records 13, 12
    4  the member itself takes all of its target at once                   record 14
    5  partitions without a state: ask the share coordinator               record 15

Kafka: `GroupMetadataManager.shareGroupHeartbeat`.

Shown by tests/conformance/stories/share_groups.py.
"""

from typing import Any, Final

from msgspec.structs import replace

from coordinator.core.assignors.spec import Assignment
from coordinator.core.env import Env
from coordinator.core.events import Cause
from coordinator.core.kinds.modern.epochs import LEFT, TOO_LARGE, is_target_due, refuse_and_renew, refuse_target
from coordinator.core.kinds.modern.topics import have_topics_changed, metadata_hash
from coordinator.core.kinds.modern.transition import GroupTransition
from coordinator.core.kinds.modern.validation import unknown_member
from coordinator.core.kinds.share import record_builders
from coordinator.core.kinds.share.group import Member, ShareGroup
from coordinator.core.kinds.share.state_partitions import ask_for_states, has_unassigned
from coordinator.core.kinds.share.target import compute_target
from coordinator.core.kinds.share.validation import (
    no_share_group,
    validate_epoch,
    validate_heartbeat,
    validate_room,
)
from coordinator.core.limits import Limits
from coordinator.core.record_types import ShareGroupMemberMetadataValue as Metadata
from coordinator.core.refusal import Refusal
from coordinator.core.result import Call, Result, SetTimer
from coordinator.core.timers import session
from coordinator.core.topics import Topics
from protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    ShareGroupHeartbeatResponseAssignment,
    ShareGroupHeartbeatResponseTopicPartitions,
)

BY: Final = "ShareGroupHeartbeat"


def share_group_heartbeat(group: Any, request: ShareGroupHeartbeatRequest, env: Env) -> Result[Any]:
    """Decide one heartbeat. `group` is None, or a share group."""
    wrong = validate_heartbeat(request)
    if wrong is not None:
        return refuse_heartbeat(wrong)
    decide = _leave if request.member_epoch == LEFT else _beat
    answer = decide(group, request, env)
    if answer is TOO_LARGE:
        return refuse_too_large(group, request, env)
    return refuse_heartbeat(answer) if isinstance(answer, Refusal) else answer


def refuse_too_large(group: Any, request: ShareGroupHeartbeatRequest, env: Env) -> Result[Any]:
    """Refuse a heartbeat whose records are more than the log takes at once."""
    timeout_ms = env.limits.group_share_session_timeout_ms
    return refuse_and_renew(group, request, refuse_heartbeat(TOO_LARGE), timeout_ms, env)


def refuse_other_kind(group: Any, request: ShareGroupHeartbeatRequest, env: Env) -> Result[Any]:
    """Refuse a heartbeat to a group of another kind. Even an empty one never becomes a share group."""
    return refuse_heartbeat(validate_heartbeat(request) or no_share_group(request.group_id))


def refuse_malformed(request: ShareGroupHeartbeatRequest, version: int, limits: Limits) -> Any:
    """Return the response to a heartbeat that is refused whether its group is served or not, else None."""
    wrong = validate_heartbeat(request)
    return None if wrong is None else refuse_heartbeat(wrong).response


def refuse_heartbeat(refusal: Refusal) -> Result[Any]:
    """Answer a heartbeat with an error. Nothing changes."""
    return Result(response=ShareGroupHeartbeatResponse(error_code=refusal.error, error_message=refusal.message))


def _beat(group: ShareGroup | None, request: ShareGroupHeartbeatRequest, env: Env) -> Result[Any] | Refusal:
    """Handle the heartbeat of a member that joins or stays."""
    limits, member_id, is_joining = env.limits, request.member_id, request.member_epoch == 0
    if group is None and not is_joining:
        return no_share_group(request.group_id)
    transition = GroupTransition(group or ShareGroup(request.group_id), env, BY)
    if full := validate_room(transition.group, member_id, limits):
        return full
    old = transition.group.members.get(member_id)
    if old is None and not is_joining:
        return unknown_member(member_id, request.group_id)
    found = old or Member(member_id)
    if fenced := validate_epoch(found, request.member_epoch):
        return fenced
    if group is None:
        transition.tell(Cause.GROUP_CREATED)
    is_raised = _advance(transition, found, _metadata(found, request, env.call), is_new=old is None)
    if too_large := refuse_target(transition.group):
        return too_large
    if is_target_due(transition.group, limits.group_share_assignment_interval_ms, transition.now_ms):
        compute_target(transition)
    member = _reconcile(transition, member_id, is_raised=is_raised)
    at_ms = transition.now_ms + limits.group_share_session_timeout_ms
    transition.effects.append(SetTimer(session(request.group_id, member_id), at_ms))
    ask_for_states(transition)
    is_told = is_joining or request.subscribed_topic_names is not None or member.assigned != found.assigned
    return transition.result(
        ShareGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=limits.group_share_heartbeat_interval_ms,
            assignment=_assignment(member.assigned) if is_told else None,
        )
    )


def _metadata(member: Member, request: ShareGroupHeartbeatRequest, call: Call) -> Metadata:
    """Return the member with the fields that the request changes. Null means unchanged."""
    said: dict[str, Any] = {"client_id": call.client_id or "", "client_host": call.client_host}
    if request.rack_id is not None:
        said["rack_id"] = request.rack_id
    if request.subscribed_topic_names is not None:
        said["subscribed_topic_names"] = tuple(sorted(set(request.subscribed_topic_names)))
    return replace(member.metadata, **said)


def _advance(transition: GroupTransition[ShareGroup], old: Member, metadata: Metadata, *, is_new: bool) -> bool:
    """Keep what is new, and raise the group's epoch if that changes what the group wants. Returns whether it did."""
    group_id, topics = transition.group.group_id, transition.topics
    is_raised = metadata.subscribed_topic_names != old.names
    has_states = transition.group.assignment_epoch >= transition.group.epoch and has_unassigned(transition.group)
    if metadata != old.metadata or is_new:
        transition.write(record_builders.member(group_id, old.member_id, metadata))
    member = transition.group.members[old.member_id] if is_raised else None
    cause = Cause.MEMBER_JOINED if is_new else Cause.SUBSCRIPTION_CHANGED
    if is_raised or has_states or have_topics_changed(transition.group, topics):
        found = metadata_hash(transition.group, topics)
        has_other_topics = found != transition.group.metadata_hash
        if not is_raised and (has_other_topics or has_states):
            is_raised = True
            cause = Cause.TOPICS_CHANGED if has_other_topics else Cause.PARTITIONS_INITIALIZED
        if is_raised:
            transition.write(record_builders.epoch(group_id, transition.group.epoch + 1, found))
            transition.tell(cause, member)
        transition.group = replace(transition.group, topics_seen=topics.version)
    return is_raised


def _reconcile(transition: GroupTransition[ShareGroup], member_id: str, *, is_raised: bool) -> Member:
    """Let the member take its target, as far as it subscribes to the topics. Kafka: `ShareGroupAssignmentBuilder`."""
    group = transition.group
    member: Member = group.members[member_id]
    epoch = group.assignment_epoch
    if member.epoch == epoch and not is_raised:
        return member
    assigned = _of_subscription(group.target(member_id), member, transition.topics)
    previous = member.previous_epoch if member.epoch == epoch else member.epoch
    after = replace(member, epoch=epoch, previous_epoch=previous, assigned=assigned)
    if after != member:
        transition.write(record_builders.current(group.group_id, after))
        if after.assigned != member.assigned:
            transition.tell(Cause.MEMBER_RECONCILED, after)
    return after


def _of_subscription(target: Assignment, member: Member, topics: Topics) -> Assignment:
    names = frozenset(member.names) if target else ()
    return {
        topic_id: partitions
        for topic_id, partitions in target.items()
        if (topic := topics.by_id(topic_id)) is not None and topic.name in names
    }


def _assignment(assigned: Assignment) -> ShareGroupHeartbeatResponseAssignment:
    entry = ShareGroupHeartbeatResponseTopicPartitions
    return ShareGroupHeartbeatResponseAssignment(
        tuple([entry(topic_id, tuple(assigned[topic_id])) for topic_id in sorted(assigned)])
    )


def _leave(group: ShareGroup | None, request: ShareGroupHeartbeatRequest, env: Env) -> Result[Any] | Refusal:
    """Handle the heartbeat of a member that leaves."""
    if group is None:
        return no_share_group(request.group_id)
    member = group.members.get(request.member_id)
    if member is None:
        return unknown_member(request.member_id, request.group_id)
    transition = GroupTransition(group, env, BY)
    response = ShareGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
    return remove_members(transition, (member,), Cause.MEMBER_LEFT).result(response)


def remove_members(
    transition: GroupTransition[ShareGroup], members: tuple[Member, ...], cause: Cause, reason: str = ""
) -> GroupTransition[ShareGroup]:
    """Let members go: gone in one batch and with one rise of the epoch. Kafka: `shareGroupFenceMember`."""
    if not members:
        return transition
    group = transition.group
    for member in members:
        transition.write(*record_builders.removal(group.group_id, member.member_id))
    found = metadata_hash(transition.group, transition.topics)
    transition.write(record_builders.epoch(group.group_id, group.epoch + 1, found))
    for member in members:
        transition.tell(cause, member, reason=reason)
    return transition
