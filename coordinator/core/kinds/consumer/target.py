"""The target assignment: what each member shall own, computed when the group's epoch has run ahead of it.

It is computed inside the request that finds it due, never by a timer, and at most once an interval (KIP-1263): a group
that many members join one after the other is assigned once a second and not once a member.

Shown by tests/core/scripts/consumer/assignment_interval.txt and tests/core/assignors/test_*.py.
"""

from collections.abc import Mapping

from coordinator.core.assignors.spec import NOTHING, Assignment, Assignor, AssignorError, GroupSpec, MemberSpec
from coordinator.core.kinds.consumer import record_builders
from coordinator.core.kinds.consumer.group import ConsumerGroup, Member
from coordinator.core.kinds.consumer.subscription import is_homogeneous, topic_ids
from coordinator.core.kinds.modern.target import call_assignor, existing_partitions
from coordinator.core.limits import Limits
from coordinator.core.records import Record
from coordinator.core.topics import Topics


def assignor_name(group: ConsumerGroup, limits: Limits) -> str:
    """Return the assignor that most members ask for; of those asked for equally often the one configured first."""
    configured = limits.group_consumer_assignors
    votes = [group.votes.get(name, 0) for name in configured]
    return configured[votes.index(max(votes))]


def compute_target(
    group: ConsumerGroup, limits: Limits, topics: Topics, assignors: Mapping[str, Assignor], now_ms: int
) -> tuple[Record, ...]:
    """Return the records of a new target: of each member that it changes for, and of its epoch. Raises
    AssignorError."""
    spec = spec_of(group, topics)
    assignor = assignors.get(assignor_name(group, limits))
    if assignor is None:
        raise AssignorError(f"there is no assignor {assignor_name(group, limits)}")
    answer = call_assignor(assignor, spec)
    records = []
    for member_id in group.members:
        target = answer.get(member_id, NOTHING)
        old = group.targets.get(member_id)
        if old is None or (old is not target and old != target):
            records.append(record_builders.target(group.group_id, member_id, target))
    return (*records, record_builders.target_epoch(group.group_id, group.epoch, now_ms))


def spec_of(group: ConsumerGroup, topics: Topics) -> GroupSpec:
    """Return the question for the assignor. Members that subscribe alike share one tuple of topics."""
    subscribed: dict[tuple[tuple[str, ...], str], tuple[bytes, ...]] = {}
    counts: dict[bytes, int] = {}
    members = {}
    for member_id, member in group.members.items():
        kind = (member.names, member.pattern)
        ids = subscribed.get(kind)
        if ids is None:
            ids = subscribed[kind] = topic_ids(group, member, topics)
            counts.update((topic_id, _partitions(topics, topic_id)) for topic_id in ids)
        members[member_id] = _member_spec(member, ids, existing_partitions(group.target(member_id), counts))
    return GroupSpec(members, counts, is_homogeneous(group))


def _member_spec(member: Member, ids: tuple[bytes, ...], previous: Assignment) -> MemberSpec:
    return MemberSpec(ids, previous, member.metadata.instance_id, member.metadata.rack_id)


def _partitions(topics: Topics, topic_id: bytes) -> int:
    topic = topics.by_id(topic_id)
    assert topic is not None, "an id that was just looked up by name"
    return topic.partitions
