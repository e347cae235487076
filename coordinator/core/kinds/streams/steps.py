"""The steps of a heartbeat: keep what the member says, compare the topology with the topics, raise the epoch, compute
the target, move the member. Each writes its records in the order that Kafka's log has them.
"""

from msgspec import Struct
from msgspec.structs import replace

from coordinator.core.assignors.spec import AssignorError
from coordinator.core.assignors.task_spec import TaskAssignment
from coordinator.core.events import Cause
from coordinator.core.kinds.modern.epochs import is_being_computed, is_within_interval, refuse_target
from coordinator.core.kinds.modern.topics import hash_topics
from coordinator.core.kinds.streams import record_builders
from coordinator.core.kinds.streams.configuration import ConfiguredTopology, configure_topology
from coordinator.core.kinds.streams.group import NO_TARGET, Member, Metadata, StreamsGroup
from coordinator.core.kinds.streams.owners import TaskOwners
from coordinator.core.kinds.streams.reconcile import reconcile
from coordinator.core.kinds.streams.sizes import InvalidTopologyError
from coordinator.core.kinds.streams.states import MemberState
from coordinator.core.kinds.streams.target import compute_target, settings_of
from coordinator.core.kinds.streams.tasks import ReportedTasks, describe_given
from coordinator.core.kinds.streams.topology import Topology, read_topology, to_record
from coordinator.core.kinds.streams.transition import GroupTransition
from coordinator.core.kinds.streams.validation import validate_tasks
from coordinator.core.refusal import Refusal
from coordinator.core.timers import INITIAL, REBALANCE
from coordinator.core.topics import Topics
from protocol.errors import ErrorCode
from protocol.messages.streams_group_heartbeat import (
    StatusCode,
    StreamsGroupHeartbeatRequestTopology,
    StreamsGroupHeartbeatResponseStatus,
)

NOT_VALIDATED = -1  # in place of the epoch of a topology that is not ready


class Changes(Struct, frozen=True):
    """The outcome of the steps."""

    member: Member
    statuses: tuple[StreamsGroupHeartbeatResponseStatus, ...]


def advance(
    transition: GroupTransition,
    found: Member,
    metadata: Metadata,
    sent: StreamsGroupHeartbeatRequestTopology | None,
    reported: ReportedTasks | None,
) -> Changes | Refusal:
    """Take all steps, for the member as it was found and what its heartbeat says."""
    was_empty, owners = transition.group.is_empty, transition.group.owners
    raised = _keep(transition, found, metadata)
    wrong = _take_topology(transition, sent)
    if wrong is not None:
        return wrong
    statuses = list(_stale_status(transition.group, metadata))
    cause = _configure(transition, raised)
    if isinstance(cause, Refusal):
        return cause
    configured = _find_configuration(transition)
    if wrong := validate_tasks(reported, configured):
        return wrong
    if cause is not None:
        transition.tell(cause, transition.group.members[found.member_id])
    if was_empty and (delay_ms := transition.limits.group_streams_initial_rebalance_delay_ms) > 0:
        if not transition.group.is_delayed:
            transition.group = replace(transition.group, is_delayed=True)
            transition.set_timer(INITIAL, "", delay_ms)
    wrong = _assign(transition, configured, statuses)
    if wrong is not None:
        return wrong
    member = _move(transition, owners, found.member_id, reported)
    if isinstance(member, Refusal):
        return member
    if configured.problem is not None:
        problem = configured.problem
        statuses.append(StreamsGroupHeartbeatResponseStatus(problem.code, problem.detail))
    return Changes(member, tuple(statuses))


def _keep(transition: GroupTransition, found: Member, metadata: Metadata) -> Cause | None:
    """Keep what the member says; return why that raises the epoch, None if it does not."""
    group = transition.group
    is_new = found.member_id not in group.members
    if not is_new and metadata == found.metadata:
        return None
    transition.write(record_builders.member(group.group_id, found.member_id, metadata))
    return Cause.MEMBER_JOINED if is_new else Cause.METADATA_CHANGED


def _take_topology(transition: GroupTransition, sent: StreamsGroupHeartbeatRequestTopology | None) -> Refusal | None:
    """Take the topology of the first member that joins. Kafka 4.3 has no way from one topology to another."""
    group = transition.group
    if sent is None:
        return None
    value = to_record(sent)
    if group.topology is None:
        transition.write(record_builders.topology(group.group_id, value))
        return None
    if sent.epoch < group.topology.epoch or read_topology(value) == group.topology:
        return None
    message = f"The topology is not the one of group {group.group_id}, and topology updates are not supported yet."
    return Refusal(ErrorCode.INVALID_REQUEST, message)


def _stale_status(group: StreamsGroup, metadata: Metadata) -> tuple[StreamsGroupHeartbeatResponseStatus, ...]:
    if group.topology is None or metadata.topology_epoch >= group.topology.epoch:
        return ()
    detail = f"the member has topology epoch {metadata.topology_epoch}, the group {group.topology.epoch}"
    return (StreamsGroupHeartbeatResponseStatus(StatusCode.STALE_TOPOLOGY, detail),)


def _configure(transition: GroupTransition, raised: Cause | None) -> Cause | Refusal | None:
    """Compare the topology with the topics, and raise the epoch if it has to. Return why it was raised."""
    group, topics = transition.group, transition.topics
    topology = group.topology
    assert topology is not None, "a group without a topology takes that of the first join"
    metadata_hash = group.metadata_hash
    if group.configured is None or _have_topics_changed(group, topology, topics):
        metadata_hash = hash_topics(topology.required_topics, topics)
        if group.configured is None or metadata_hash != group.metadata_hash:
            try:
                configured = configure_topology(topology, topics)
            except InvalidTopologyError as error:
                return Refusal(ErrorCode.STREAMS_INVALID_TOPOLOGY, f"The topology cannot be used: {error}.")
            transition.group = replace(transition.group, configured=configured)
    if transition.group.topics_seen != topics.version:
        transition.group = replace(transition.group, topics_seen=topics.version)
    validated = topology.epoch if _find_configuration(transition).is_ready else NOT_VALIDATED
    settings = settings_of(transition.limits)
    if raised is None and (metadata_hash != group.metadata_hash or validated != group.validated_epoch):
        raised = Cause.TOPICS_CHANGED
    if raised is None and settings != group.settings:
        raised = Cause.SETTINGS_CHANGED
    if raised is not None:
        record = record_builders.epoch(group.group_id, group.epoch + 1, metadata_hash, validated, settings)
        transition.write(record)
    return raised


def _find_configuration(transition: GroupTransition) -> ConfiguredTopology:
    configured = transition.group.configured
    assert configured is not None, "the topology was held against the topics"
    return configured


def _have_topics_changed(group: StreamsGroup, topology: Topology, topics: Topics) -> bool:
    seen = group.topics_seen
    return seen is None or topics.may_have_changed(topology.required_topics, seen)


def _assign(
    transition: GroupTransition, configured: ConfiguredTopology, statuses: list[StreamsGroupHeartbeatResponseStatus]
) -> Refusal | None:
    """Compute the target if it is due. The request fails if the assignor does, or if the target is too large."""
    group = transition.group
    if group.is_delayed:
        detail = "the initial rebalance delay is running"
    elif group.epoch <= group.assignment_epoch:
        return None
    elif is_within_interval(group, transition.limits.group_streams_assignment_interval_ms, transition.now_ms):
        detail = "the assignment interval is not over"
    elif (too_large := refuse_target(group)) is not None:
        return too_large
    else:
        if not is_being_computed(group):
            try:
                compute_target(transition, configured)
            except AssignorError:
                return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)
        if not is_being_computed(transition.group):
            return None
        detail = "the assignment is being computed"
    statuses.append(StreamsGroupHeartbeatResponseStatus(StatusCode.ASSIGNMENT_DELAYED, f"assignment delayed: {detail}"))
    return None


def _move(
    transition: GroupTransition, owners: TaskOwners, member_id: str, reported: ReportedTasks | None
) -> Member | Refusal:
    """Move the member one step towards its target. During the initial delay that is nothing.

    The owners of tasks are those before the heartbeat: a member that comes back in another process, and has lost an
    active task, may have the task as a standby there at once.
    """
    group = transition.group
    before: Member = group.members[member_id]
    target: TaskAssignment = NO_TARGET if group.is_delayed else group.target(member_id)
    member = reconcile(owners, before, target, group.assignment_epoch, reported)
    if isinstance(member, Refusal) or member == before:
        return member
    if member.state is MemberState.UNREVOKED_TASKS:
        transition.set_timer(REBALANCE, member_id, member.metadata.rebalance_timeout_ms)
    elif before.state is MemberState.UNREVOKED_TASKS:
        transition.cancel_timer(REBALANCE, member_id)
        transition.tell(Cause.PARTITIONS_REVOKED, member)
    transition.write(record_builders.current(group.group_id, member))
    if member.state is MemberState.UNREVOKED_TASKS:
        transition.tell(Cause.REVOCATION_AWAITED, member)
    elif member.is_at(group.assignment_epoch) and not before.is_at(group.assignment_epoch):
        transition.tell(Cause.MEMBER_RECONCILED, member)
    if given := describe_given(before.assigned, member.assigned):
        transition.tell(Cause.TASKS_ASSIGNED, member, tasks=given)
    return member
