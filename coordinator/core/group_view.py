"""What an operator sees of a group: its members with what they own, its offsets."""

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from coordinator.core.topics import Topics

Assignment = dict[str, list[int]]  # partitions by topic


class MemberView(Struct, frozen=True):
    """One member. `epoch` is null where all members are of the group's generation, and have none of their own."""

    member_id: str
    client_id: str
    instance_id: str | None
    host: str
    assignment: Assignment
    epoch: int | None = None
    waits_in: str = ""  # the request that is parked: JoinGroup or SyncGroup
    process_id: str | UnsetType = UNSET  # of a member of a streams group
    tasks: dict[str, list[str]] | UnsetType = UNSET  # by role: active, standby, warmup; of a member of a streams group


class GroupView(Struct, frozen=True):
    """One group."""

    group: str
    type: str
    state: str
    counts_by: str  # what `generation` is: generation, or epoch
    generation: int
    assignor: str
    members: list[MemberView]
    offsets: dict[str, dict[str, int]]  # by topic and partition
    problem: str | UnsetType = UNSET  # why a streams group is not ready


def name_topics(owned: Mapping[bytes, Any], topics: Topics) -> Assignment:
    """Return partitions by the name of their topic. A topic that is gone shows by its id."""
    named = {}
    for topic_id, partitions in owned.items():
        topic = topics.by_id(topic_id)
        named[topic.name if topic is not None else topic_id.hex()] = sorted(partitions)
    return dict(sorted(named.items()))
