"""A consumer group becomes a classic one: when the last member of the new protocol goes, and classic ones stay.

The epoch becomes the generation, and what each member may hold its assignment. Where that is not all of the target, the
classic group begins with a rebalance, also after a restart.
"""

from collections.abc import Collection, Mapping
from typing import Any

from msgspec.structs import replace

from coordinator.core.classic import durable
from coordinator.core.classic.events import Why, event
from coordinator.core.classic.group import ClassicGroup
from coordinator.core.classic.group import Member as ClassicMember
from coordinator.core.classic.rebalance import prepare_rebalance, session_timer
from coordinator.core.classic.states import State
from coordinator.core.classic.voting import CONSUMER, choose_protocol, subscribed_topics
from coordinator.core.consumer import record_builders
from coordinator.core.consumer.group import ConsumerGroup, Member
from coordinator.core.consumer.transition import GroupTransition
from coordinator.core.events import Cause
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
    """Return whether the group can be a classic one without these members: somebody stays, and all who do are
    classic."""
    return len(members) < len(group.members) and _is_possible(group, members, len(group.members) - len(members), limits)


def is_possible_replacing(group: ConsumerGroup, member: Member, limits: Limits) -> bool:
    """Return whether it can with a classic member in the place of this one."""
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
    """Return the classic group of those who stay, in its first rebalance, answering `response`."""
    for member in leaving.values():
        transition.tell(cause, member)
    staying = [member for member_id, member in transition.group.members.items() if member_id not in leaving]
    return _convert(transition, staying, response, rebalances=True)


def downgrade_after_replacement(transition: GroupTransition, response: Any) -> Result[Any] | Refusal:
    """The same after a classic member has taken over from the last other one: a rebalance unless each has its target.

    Kafka does not look. The group is stable there while a member holds what another one is given, and a member that
    waits for partitions never gets them.
    """
    members = tuple(transition.group.members.values())
    is_settled = all(member.is_at(transition.group.epoch) for member in members)
    return _convert(transition, members, response, rebalances=not is_settled)


def _convert(
    transition: GroupTransition, members: Collection[Member], response: Any, *, rebalances: bool
) -> Result[Any] | Refusal:
    """The classic group of these members: stable, with what each has of its target; or in a rebalance.

    A rebalance is in the record: nobody leads, and the members have what they may hold. Kafka writes a leader and their
    targets: a group that is loaded before its members have rejoined, or upgraded again, is then taken for one whose
    members have all taken their targets, and what one of them has yet to give up has two owners.
    """
    group = classic_group(transition.group, members, transition.topics, transition.now_ms)
    if isinstance(group, Refusal):
        return group
    why = Why(Cause.PROTOCOL_DOWNGRADED, transition.by)
    if not rebalances:
        told = event(group, group, transition.now_ms, why)
        return _write_conversion(transition, group, Result(group, events=(told,)), response)
    group = replace(group, leader=None)
    return _write_conversion(
        transition, group, prepare_rebalance(group, transition.now_ms, transition.limits, why), response
    )


def tombstones(group: ConsumerGroup) -> tuple[Record, ...]:
    """Return the records that delete a consumer group, in the order that replay insists on."""
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


def classic_group(
    group: ConsumerGroup, staying: Collection[Member], topics: Topics, now_ms: int
) -> ClassicGroup | Refusal:
    """Return the classic group of those who stay: at the generation of the epoch, with what each may hold."""
    members = {member.member_id: _classic_member(member) for member in staying}
    made = ClassicGroup(group.group_id, State.STABLE, now_ms, generation=group.epoch, protocol_type=CONSUMER).with_all(
        members
    )
    made = replace(made, protocol=choose_protocol(made))
    held = {member.member_id: _owned_places(member) for member in staying}
    try:
        assigned = {
            member_id: replace(
                member, assignment=assignment_bytes(held[member_id], member.metadata(made.protocol), topics)
            )
            for member_id, member in members.items()
        }
    except ProtocolError as error:
        message = f"Cannot downgrade the consumer group {group.group_id}: {error}."
        return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, message)
    made = made.with_each(assigned)
    return made.subscribing(subscribed_topics(made))


def _write_conversion(
    transition: GroupTransition, group: ClassicGroup, result: Result[ClassicGroup], response: Any
) -> Result[Any]:
    """Add the records of the conversion to `result`, and replace all timers by those of a classic group."""
    sessions = [session_timer(group.group_id, member, transition.now_ms) for member in group.members.values()]
    records = (*transition.records, *tombstones(transition.group), durable.record(group), *result.records)
    return replace(
        result.preceded_by(*sessions, events=tuple(transition.events)),
        response=response,
        records=records,
    )


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


def _owned_places(member: Member) -> dict[bytes, set[int]]:
    """What the member may own: its target, once it has all of it and nothing else."""
    held: dict[bytes, set[int]] = {}
    for owned in (member.assigned, member.pending):
        for topic_id, partitions in owned.items():
            held.setdefault(topic_id, set()).update(partitions)
    return held


def assignment_bytes(assignment: Mapping[bytes, Collection[int]], metadata: bytes, topics: Topics) -> bytes:
    """Return partitions as ConsumerProtocolAssignment, in the version of the member's own subscription."""
    found = ((topics.by_id(topic_id), partitions) for topic_id, partitions in assignment.items())
    entries = sorted((topic.name, tuple(sorted(partitions))) for topic, partitions in found if topic is not None)
    message = ConsumerProtocolAssignment(
        tuple(ConsumerProtocolAssignmentTopicPartition(name, partitions) for name, partitions in entries)
    )
    return write(message, min(version_of(metadata), VERSION_MAX))
