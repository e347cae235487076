"""Convert a consumer group to a classic one, when its last member of the consumer protocol goes and classic ones stay.

The epoch becomes the generation, and the partitions that a member may own become its assignment. If these are not its
whole target, the classic group begins with a rebalance, also after a restart.

Shown by tests/core/scripts/consumer/{downgrade*,takes_over_and_downgrades,deletion}.txt and
tests/conformance/stories/migration.py.
"""

from collections.abc import Collection, Mapping
from typing import Any

from msgspec.structs import replace

from coordinator.core.events import Cause
from coordinator.core.kinds.classic import durable
from coordinator.core.kinds.classic.events import Why, event
from coordinator.core.kinds.classic.group import ClassicGroup
from coordinator.core.kinds.classic.group import Member as ClassicMember
from coordinator.core.kinds.classic.rebalance import prepare_rebalance, session_timer
from coordinator.core.kinds.classic.states import State
from coordinator.core.kinds.classic.voting import CONSUMER, choose_protocol, subscribed_topics
from coordinator.core.kinds.consumer import record_builders
from coordinator.core.kinds.consumer.group import ConsumerGroup, Member
from coordinator.core.kinds.consumer.transition import GroupTransition
from coordinator.core.limits import Limits
from coordinator.core.records import Record
from coordinator.core.refusal import Refusal
from coordinator.core.result import Result
from coordinator.core.topics import Topics
from protocol.errors import ErrorCode, ProtocolError
from protocol.messages.consumer_protocol import (
    VERSION_MAX,
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    version_of,
    write,
)


def is_possible_without(group: ConsumerGroup, members: Mapping[str, Member], limits: Limits) -> bool:
    """Return whether the group can be converted without these members: others stay, and all of them are classic."""
    return len(members) < len(group.members) and _is_possible(group, members, len(group.members) - len(members), limits)


def is_possible_replacing(group: ConsumerGroup, member: Member, limits: Limits) -> bool:
    """Return whether the group can be converted when a classic member replaces this one."""
    return _is_possible(group, {member.member_id: member}, len(group.members), limits)


def _is_possible(group: ConsumerGroup, without: Mapping[str, Member], size: int, limits: Limits) -> bool:
    classics = sum(member.classic is not None for member in without.values())
    return (
        group.classics - classics == len(group.members) - len(without)
        and limits.group_consumer_migration_policy.downgrades
        and size <= limits.group_max_size
    )


def downgrade_without(
    transition: GroupTransition, leaving: Mapping[str, Member], response: Any, cause: Cause
) -> Result[Any] | Refusal:
    """Convert the group to a classic one of the members that stay, in its first rebalance."""
    for member in leaving.values():
        transition.tell(cause, member)
    staying = [member for member_id, member in transition.group.members.items() if member_id not in leaving]
    return _convert(transition, staying, response, transition.group.epoch, rebalances=True)


def downgrade_after_replacement(transition: GroupTransition, generation: int, response: Any) -> Result[Any] | Refusal:
    """Convert the group after a classic member has replaced the last other one; rebalance unless each has its target.

    Kafka does not check that. There the group is stable while one member holds partitions that are assigned to another
    one, and a member that waits for partitions never receives them. The generation is the epoch before this request.
    """
    members = tuple(transition.group.members.values())
    is_settled = all(member.is_at(transition.group.epoch) for member in members)
    return _convert(transition, members, response, generation, rebalances=not is_settled)


def _convert(
    transition: GroupTransition, members: Collection[Member], response: Any, generation: int, *, rebalances: bool
) -> Result[Any] | Refusal:
    """Make a classic group of these members: stable, or in a rebalance.

    The record of a rebalance has no leader, and each member's assignment is what it may still own. Kafka writes a
    leader, and the targets as the assignments: if the group is loaded before its members have rejoined, or upgraded
    again, Kafka takes all targets for reached, and a partition that a member has yet to give up has two owners.
    """
    built = build_classic_group(transition.group, members, transition.topics, transition.now_ms)
    if isinstance(built, Refusal):
        return built
    group = replace(built, generation=generation)
    why = Why(Cause.PROTOCOL_DOWNGRADED, transition.by)
    if rebalances:
        group = replace(group, leader=None)
        result = prepare_rebalance(group, transition.now_ms, transition.limits, why)
    else:
        result = Result(group, events=(event(group, group, transition.now_ms, why),))
    return _write_conversion(transition, group, result, response)


def tombstones(group: ConsumerGroup) -> tuple[Record, ...]:
    """Return the records that delete a consumer group, in the order that replay expects."""
    group_id = group.group_id
    return (
        *(record_builders.no_current(group_id, member_id) for member_id in group.members),
        *(record_builders.no_target(group_id, member_id) for member_id in group.members),
        record_builders.no_target_epoch(group_id),
        *(record_builders.no_member(group_id, member_id) for member_id in group.members),
        *(record_builders.no_pattern(group_id, pattern) for pattern in group.resolved),
        record_builders.no_topics(group_id),
        record_builders.no_epoch(group_id),
    )


def build_classic_group(
    group: ConsumerGroup, staying: Collection[Member], topics: Topics, now_ms: int
) -> ClassicGroup | Refusal:
    """Build the classic group of the members that stay; its generation is the epoch."""
    classic = ClassicGroup(
        group.group_id, State.STABLE, now_ms, generation=group.epoch, protocol_type=CONSUMER
    ).with_members({member.member_id: _classic_member(member) for member in staying})
    classic = replace(classic, protocol=choose_protocol(classic))
    members: dict[str, ClassicMember] = {}
    for owner in staying:
        member = classic.members[owner.member_id]
        try:
            assignment = encode_assignment(_find_owned_partitions(owner), member.metadata(classic.protocol), topics)
        except ProtocolError as error:
            message = f"Cannot downgrade the consumer group {group.group_id}: {error}."
            return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, message)
        members[owner.member_id] = replace(member, assignment=assignment)
    classic = classic.with_updated_members(members)
    return classic.with_topics(subscribed_topics(classic))


def _write_conversion(
    transition: GroupTransition, group: ClassicGroup, result: Result[ClassicGroup], response: Any
) -> Result[Any]:
    """Add the records of the conversion to `result`, and replace all timers by those of a classic group."""
    sessions = [session_timer(group.group_id, member, transition.now_ms) for member in group.members.values()]
    records = (*transition.records, *tombstones(transition.group), durable.record(group), *result.records)
    downgraded, *more = result.events
    events = (*transition.events, replace(downgraded, before=transition.told), *more)
    return replace(result.prepend(*sessions), response=response, records=records, events=events)


def _classic_member(member: Member) -> ClassicMember:
    metadata = member.metadata
    classic = metadata.classic_member_metadata
    assert classic is not None, f"member {member.member_id} does not speak the classic protocol"
    return ClassicMember(
        member_id=member.member_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        session_timeout_ms=classic.session_timeout_ms,
        rebalance_timeout_ms=metadata.rebalance_timeout_ms,
        protocols=tuple((protocol.name, protocol.metadata) for protocol in classic.supported_protocols),
        instance_id=metadata.instance_id,
    )


def _find_owned_partitions(member: Member) -> dict[bytes, set[int]]:
    """Return the partitions that the member may own: those of its target, and those that it has yet to give up."""
    owned: dict[bytes, set[int]] = {}
    for part in (member.assigned, member.pending):
        for topic_id, partitions in part.items():
            owned.setdefault(topic_id, set()).update(partitions)
    return owned


def encode_assignment(assignment: Mapping[bytes, Collection[int]], metadata: bytes, topics: Topics) -> bytes:
    """Encode an assignment as ConsumerProtocolAssignment, in the version of the member's subscription."""
    found = ((topics.by_id(topic_id), partitions) for topic_id, partitions in assignment.items())
    entries = sorted((topic.name, tuple(sorted(partitions))) for topic, partitions in found if topic is not None)
    message = ConsumerProtocolAssignment(
        tuple(ConsumerProtocolAssignmentTopicPartition(name, partitions) for name, partitions in entries)
    )
    return write(message, min(version_of(metadata), VERSION_MAX))
