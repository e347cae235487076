"""The target assignment of a share group: what each member shall read, of the partitions that have a state."""

from coordinator.core.assignors import simple
from coordinator.core.assignors.spec import NOTHING, GroupSpec, MemberSpec
from coordinator.core.kinds.share import record_builders
from coordinator.core.kinds.share.group import ShareGroup
from coordinator.core.record_types import Record
from coordinator.core.topics import Topics

ASSIGNOR = "simple"


def compute_target(group: ShareGroup, topics: Topics, now_ms: int) -> tuple[Record, ...]:
    """Return the records of a new target: of each member that it changes for, and of its epoch."""
    assigned = simple.assign(
        spec_of(group, topics), {topic_id: one.partitions for topic_id, one in group.initialized.items()}
    )
    records = []
    for member_id in group.members:
        target = assigned.get(member_id, NOTHING)
        if group.targets.get(member_id) != target:
            records.append(record_builders.target(group.group_id, member_id, target))
    return (*records, record_builders.target_epoch(group.group_id, group.epoch, now_ms))


def spec_of(group: ShareGroup, topics: Topics) -> GroupSpec:
    """Return the question for the assignor. Members that subscribe alike share one tuple of topics."""
    subscribed: dict[tuple[str, ...], tuple[bytes, ...]] = {}
    members = {}
    for member_id, member in group.members.items():
        if member.names not in subscribed:
            found = (topics.get(name) for name in member.names)
            subscribed[member.names] = tuple([topic.id for topic in found if topic is not None])
        members[member_id] = MemberSpec(subscribed[member.names], group.target(member_id))
    counts = {topic.id: topic.partitions for name in topics.existing(group.names.keys()) if (topic := topics[name])}
    is_homogeneous = all(count == len(members) for count in group.names.values())
    return GroupSpec(members, counts, is_homogeneous)
