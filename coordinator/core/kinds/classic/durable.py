"""A classic group as the record that keeps it, and back.

Shown by tests/core/scripts/classic/{restart*,*_at_load}.txt and tests/conformance/stories/restart.py.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from coordinator.core.kinds.classic.group import ClassicGroup, Member
from coordinator.core.kinds.classic.states import State
from coordinator.core.kinds.classic.voting import subscribed_topics
from coordinator.core.records import GroupMetadataKey, GroupMetadataValue, GroupMetadataValueMember, Record


def record(group: ClassicGroup) -> Record:
    """Return the fact of a generation: written when its leader has assigned, when the group is empty, and when it is
    new."""
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader,
        current_state_timestamp=group.state_since_ms,
        members=tuple([_store_member(member, group.protocol) for member in group.members.values()]),
    )
    return Record(GroupMetadataKey(group.group_id), value)


def record_of_new_group(group: ClassicGroup) -> Record:
    """Return the fact that a group exists that nobody has completed a join to: empty, whatever it looks like
    meanwhile."""
    value = GroupMetadataValue(current_state_timestamp=group.state_since_ms)
    return Record(GroupMetadataKey(group.group_id), value)


def tombstone(group_id: str) -> Record:
    """Return the fact that there is no such group."""
    return Record(GroupMetadataKey(group_id), None)


def apply_record(group: ClassicGroup | None, record: Record) -> ClassicGroup | None:
    """Return the group after a record of its own, which says all of it; None after its tombstone."""
    key, value = record.key, record.value
    assert isinstance(key, GroupMetadataKey), f"{key!r} is of no classic group"
    return None if value is None else restore_group(key.group, value)  # type: ignore[arg-type]  # the key says which


def restore_group(group_id: str, value: GroupMetadataValue) -> ClassicGroup:
    """Return the group that a record describes: stable if it has members. Each offers the chosen protocol only.

    Members without a leader are those of a consumer group that was converted and has not rebalanced since.
    """
    group = ClassicGroup(
        group_id=group_id,
        state=State.STABLE if value.members else State.EMPTY,
        state_since_ms=value.current_state_timestamp,
        generation=value.generation,
        protocol_type=value.protocol_type or None,
        protocol=value.protocol,
    ).with_members(_members(value))
    return replace(group, leader=value.leader, topics=subscribed_topics(group))


def _members(value: GroupMetadataValue) -> Mapping[str, Member]:
    return {kept.member_id: _restore_member(kept, value.protocol) for kept in value.members}


def _store_member(member: Member, protocol: str | None) -> GroupMetadataValueMember:
    return GroupMetadataValueMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=member.rebalance_timeout_ms,
        session_timeout=member.session_timeout_ms,
        subscription=member.metadata(protocol),
        assignment=member.assignment,
    )


def _restore_member(kept: GroupMetadataValueMember, protocol: str | None) -> Member:
    return Member(
        member_id=kept.member_id,
        client_id=kept.client_id,
        client_host=kept.client_host,
        session_timeout_ms=kept.session_timeout,
        rebalance_timeout_ms=kept.session_timeout if kept.rebalance_timeout == -1 else kept.rebalance_timeout,
        protocols=((protocol or "", kept.subscription),),
        instance_id=kept.group_instance_id,
        assignment=kept.assignment,
    )
