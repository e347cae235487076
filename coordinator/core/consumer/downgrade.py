"""A consumer group becomes a classic one: when the last member of the new protocol goes, and classic ones stay.

The epoch becomes the generation and each member's target its assignment. What they hold may be something else as yet,
so the classic group begins with a rebalance.
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
    group = classic_group(transition.group, leaving, transition.topics, transition.now_ms)
    if isinstance(group, Refusal):
        return group
    why = Why(Cause.PROTOCOL_DOWNGRADED, transition.by)
    result = prepare_rebalance(group, transition.now_ms, transition.limits, why)
    return _write_conversion(transition, group, result, response)


def downgrade_after_replacement(
    transition: GroupTransition, *, rebalance: bool, response: Any
) -> Result[Any] | Refusal:
    """The same after a classic member has taken over from the last other one: a rebalance only if the target is old."""
    group = classic_group(transition.group, {}, transition.topics, transition.now_ms)
    if isinstance(group, Refusal):
        return group
    why = Why(Cause.PROTOCOL_DOWNGRADED, transition.by)
    if rebalance:
        return _write_conversion(
            transition, group, prepare_rebalance(group, transition.now_ms, transition.limits, why), response
        )
    return _write_conversion(
        transition, group, Result(group, events=(event(group, group, transition.now_ms, why),)), response
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
    group: ConsumerGroup, leaving: Collection[str], topics: Topics, now_ms: int
) -> ClassicGroup | Refusal:
    """Return the classic group that those who stay would be: stable, at the generation of the epoch."""
    staying = [member for member_id, member in group.members.items() if member_id not in leaving]
    members = {member.member_id: _classic_member(member) for member in staying}
    made = ClassicGroup(group.group_id, State.STABLE, now_ms, generation=group.epoch, protocol_type=CONSUMER).with_all(
        members
    )
    made = replace(made, protocol=choose_protocol(made))
    try:
        assigned = {
            member_id: replace(member, assignment=_assignment(group, member, made.protocol, topics))
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


def _assignment(group: ConsumerGroup, member: ClassicMember, protocol: str | None, topics: Topics) -> bytes:
    """Return a member's target in the words of its protocol's version. Topics that are gone are left out."""
    return assignment_bytes(group.target(member.member_id), member.metadata(protocol), topics)


def assignment_bytes(assignment: Mapping[bytes, Collection[int]], metadata: bytes, topics: Topics) -> bytes:
    """Return partitions as ConsumerProtocolAssignment, in the version of the member's own subscription."""
    found = ((topics.by_id(topic_id), partitions) for topic_id, partitions in assignment.items())
    entries = sorted((topic.name, tuple(sorted(partitions))) for topic, partitions in found if topic is not None)
    message = ConsumerProtocolAssignment(
        tuple(ConsumerProtocolAssignmentTopicPartition(name, partitions) for name, partitions in entries)
    )
    return write(message, min(version_of(metadata), VERSION_MAX))
