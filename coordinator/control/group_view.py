"""A group as a person or a test sees it: its state, its members with what they own, its offsets."""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from coordinator.core.groups import Group
from coordinator.core.kinds.classic.group import ClassicGroup
from coordinator.core.kinds.classic.states import State
from coordinator.core.kinds.consumer.group import ConsumerGroup
from coordinator.core.kinds.consumer.states import GroupState
from coordinator.core.offsets.store import OffsetStore
from coordinator.core.topics import Topics
from protocol.errors import ProtocolError
from protocol.messages.consumer_protocol import read_assignment

Assignment = dict[str, list[int]]  # partitions by topic

STATES: Final = tuple(dict.fromkeys(str(state) for state in (*State, *GroupState) if state != State.DEAD))
"""The states in which a group can be seen, by Kafka's names."""


class MemberView(Struct, frozen=True):
    """One member. `epoch` is null in a classic group, where all members are of the group's generation."""

    member_id: str
    client_id: str
    instance_id: str | None
    host: str
    assignment: Assignment
    epoch: int | None = None
    waits_in: str = ""  # the request that is parked: JoinGroup or SyncGroup


class GroupView(Struct, frozen=True):
    """One group."""

    group: str
    type: str
    state: str
    generation: int  # or the group epoch
    assignor: str
    members: list[MemberView]
    offsets: dict[str, dict[str, int]]  # by topic and partition


def view_group(group: Group, offsets: OffsetStore, topics: Topics) -> GroupView:
    """Return what there is to see of a group."""
    committed = {
        topic: {str(partition): one.offset for partition, one in sorted(partitions.items())}
        for topic, partitions in sorted(offsets.of_group(group.group_id).items())
    }
    if isinstance(group, ClassicGroup):
        members = [_classic_member(group, member) for member in group.members.values()]
        return GroupView(
            group.group_id, "classic", group.state.value, group.generation, group.protocol or "", members, committed
        )
    members = [_consumer_member(group, member, topics) for member in group.members.values()]
    return GroupView(group.group_id, "consumer", group.state.value, group.epoch, "", members, committed)


def _classic_member(group: ClassicGroup, member: Any) -> MemberView:
    waits_in = "JoinGroup" if member.join_ticket is not None else "SyncGroup" if member.sync_ticket is not None else ""
    return MemberView(
        member.member_id,
        member.client_id,
        member.instance_id,
        member.client_host,
        _decode_assignment(member.assignment) if group.protocol_type == "consumer" else {},
        waits_in=waits_in,
    )


def _decode_assignment(data: bytes) -> Assignment:
    """Read an assignment of a consumer. One that cannot be read belongs to the clients, and shows as empty."""
    try:
        assigned = read_assignment(data).assigned_partitions
    except ProtocolError:
        return {}
    return {one.topic: sorted(one.partitions) for one in assigned}


def _consumer_member(group: ConsumerGroup, member: Any, topics: Topics) -> MemberView:
    return MemberView(
        member.member_id,
        member.metadata.client_id,
        member.instance_id,
        member.metadata.client_host,
        name_topics(member.assigned, topics),
        epoch=member.epoch,
    )


def name_topics(owned: Mapping[bytes, Any], topics: Topics) -> Assignment:
    """Return partitions by the name of their topic. A topic that is gone shows by its id."""
    named = {}
    for topic_id, partitions in owned.items():
        topic = topics.by_id(topic_id)
        named[topic.name if topic is not None else topic_id.hex()] = sorted(partitions)
    return dict(sorted(named.items()))
