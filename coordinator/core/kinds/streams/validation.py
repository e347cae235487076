"""Whether a request counts: what is wrong with a StreamsGroupHeartbeat as such, and whose offsets may be committed.

Shown by tests/conformance/stories/{streams_join,streams_offsets}.py.
"""

from coordinator.core.env import Env
from coordinator.core.kinds.modern import validation
from coordinator.core.kinds.modern.epochs import AWAY, fenced_epoch
from coordinator.core.kinds.modern.validation import invalid, is_blank
from coordinator.core.kinds.streams.configuration import ConfiguredTopology
from coordinator.core.kinds.streams.group import Member, StreamsGroup
from coordinator.core.kinds.streams.tasks import ReportedTasks
from coordinator.core.kinds.streams.topology import refuse_names, validate_topology
from coordinator.core.refusal import Refusal
from coordinator.core.topics import Topic
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest


def validate_heartbeat(request: StreamsGroupHeartbeatRequest) -> Refusal | None:
    """Return the first thing that is wrong, in the order in which Kafka looks; None if nothing is."""
    topology = request.topology
    if topology is not None and (wrong := refuse_names(topology)):
        return wrong
    if wrong := _refuse_unsupported(request):
        return wrong
    for field, text in (
        ("MemberId", request.member_id),
        ("GroupId", request.group_id),
        ("InstanceId", request.instance_id),
        ("RackId", request.rack_id),
    ):
        if is_blank(text):
            return invalid(f"{field} can't be empty.")
    lists = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if request.member_epoch == 0:
        if wrong := _refuse_join(request):
            return wrong
    elif request.member_epoch == AWAY:
        return invalid("InstanceId can't be null.")  # one with an instance id was refused above
    elif request.member_epoch < AWAY:
        return invalid(f"MemberEpoch {request.member_epoch}: expected -2 or more.")
    if any(one is not None for one in lists) and None in lists:
        return invalid("Tasks of one kind are given: expected lists of all three kinds.")
    if request.member_epoch != 0 and topology is not None:
        return invalid("Topology can only be provided when (re-)joining.")
    return None


def _refuse_unsupported(request: StreamsGroupHeartbeatRequest) -> Refusal | None:
    """Return what of the request Kafka 4.3 does not have yet."""
    if request.instance_id is not None:
        return invalid("Static members are not supported yet.")
    if request.task_offsets is not None or request.task_end_offsets is not None:
        return invalid("Offsets of tasks are not supported yet.")
    if request.warmup_tasks:
        return invalid("Warm-up tasks are not supported yet.")
    if request.topology is not None and any(each.source_topic_regex for each in request.topology.subtopologies):
        return invalid("Regular expressions for source topics are not supported yet.")
    return None


def _refuse_join(request: StreamsGroupHeartbeatRequest) -> Refusal | None:
    if request.rebalance_timeout_ms == -1:
        return invalid("RebalanceTimeoutMs must be provided in first request.")
    for field in ("active_tasks", "standby_tasks", "warmup_tasks"):
        listed = getattr(request, field)
        if listed is None or listed:
            return invalid(f"{field}: expected an empty list when (re-)joining.")
    if request.topology is None:
        return invalid("Topology must be non-null when (re-)joining.")
    return validate_topology(request.topology)


def validate_epoch(member: Member, epoch: int, reported: ReportedTasks | None) -> Refusal | None:
    """Return why a heartbeat's epoch is refused; None when it is good.

    The epoch before the current one is good for a member that owns nothing but what it was assigned: the response that
    raised its epoch may have been lost. Epoch 0 always is: a member that was fenced rejoins with it.
    """
    if epoch in (0, member.epoch):
        return None
    if epoch == member.previous_epoch and epoch < member.epoch and reported is not None:
        if reported.is_within(member.assigned):
            return None
    return fenced_epoch("streams", epoch, member.epoch)


def validate_tasks(reported: ReportedTasks | None, configured: ConfiguredTopology) -> Refusal | None:
    """Return which of the tasks that a member reports cannot exist; None if all can, or while the topology is not
    ready."""
    if reported is None or not configured.is_ready:
        return None
    for entry in (*reported.active, *reported.standby, *reported.warmup):
        subtopology = configured.subtopologies.get(entry.subtopology_id)
        if subtopology is None:
            return invalid(f"There is no subtopology {entry.subtopology_id}.")
        for partition in entry.partitions:
            if not 0 <= partition < subtopology.task_count:
                expected = f"expected less than {subtopology.task_count}"
                return invalid(f"Task {partition} of subtopology {entry.subtopology_id}: {expected}.")
    return None


def validate_commit(group: StreamsGroup, request: OffsetCommitRequest | TxnOffsetCommitRequest, env: Env) -> ErrorCode:
    """Return NONE if a member may commit these offsets."""
    return validation.validate_commit(group, request, env, _stale, _has_owned_since)


def validate_fetch(group: StreamsGroup, member_id: str | None, epoch: int) -> ErrorCode:
    """Return NONE if the member may read the group's offsets."""
    return validation.validate_fetch(group, member_id, epoch, _stale)


def _stale(member: Member) -> ErrorCode:
    return ErrorCode.STALE_MEMBER_EPOCH


def _has_owned_since(group: StreamsGroup, member: Member, topic: Topic, partition: int, epoch: int) -> bool:
    """Return whether the member has had the active task of the partition at that epoch already."""
    number = None if group.topology is None else group.topology.readers.get(topic.name)
    if number is None:
        return False
    for tasks in (member.assigned, member.pending):
        since = tasks.active.get(number, {}).get(partition)
        if since is not None:
            return epoch >= since
    return False
