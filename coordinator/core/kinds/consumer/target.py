"""The target assignment: what each member shall own, computed when the group's epoch has run ahead of it.

It is computed by the request that finds it due, never by a timer, and at most once an interval (KIP-1263): a group
that many members join one after the other is assigned once a second and not once a member. For a large group it is
computed in steps, after that request (`modern/long_targets`), unless the assignor is of another package: such a one is
called in one piece, and what it raises fails the request.

Shown by tests/core/scripts/consumer/assignment_interval.txt, tests/core/assignors/test_*.py and
tests/core/kinds/modern/test_long_targets.py.
"""

from typing import Any, Final

from coordinator.core.assignors import SteppedAssignor
from coordinator.core.assignors.hash_order import members_in_order
from coordinator.core.assignors.spec import NOTHING, Assignment, Assignor, GroupSpec, MemberSpec
from coordinator.core.decision import Steps
from coordinator.core.env import Env
from coordinator.core.kinds.consumer import record_builders
from coordinator.core.kinds.consumer.group import ConsumerGroup, Member
from coordinator.core.kinds.consumer.subscription import is_homogeneous, topic_ids
from coordinator.core.kinds.consumer.transition import GroupTransition
from coordinator.core.kinds.modern import long_targets
from coordinator.core.kinds.modern.target import call_assignor, existing_partitions
from coordinator.core.kinds.modern.topics import count_partitions
from coordinator.core.limits import Limits
from coordinator.core.pace import Pace
from coordinator.core.records import Record
from coordinator.core.result import Result, TakeTarget
from coordinator.core.topics import Topics

MEMBER_WORK: Final = 3  # a member takes as long as so many tasks of a streams group
PARTITIONS_A_TASK: Final = 10  # partitions are handed out many at once


def assignor_name(group: ConsumerGroup, limits: Limits) -> str:
    """Return the assignor that most members ask for, or the first one if nobody asks for any.

    Of those asked for equally often Kafka takes the first in the order of a hash map: `uniform` before `range`.
    Kafka: `ConsumerGroup.preferredServerAssignor`.
    """
    configured = limits.group_consumer_assignors
    voted = [name for name in configured if name in group.votes]
    return max(members_in_order(voted), key=group.votes.__getitem__) if voted else configured[0]


def compute_target(transition: GroupTransition) -> None:
    """Compute a new target, or have it computed in steps. Raises AssignorError."""
    group, name = transition.group, assignor_name(transition.group, transition.limits)
    assignor = transition.env.assignors[name]
    work = 0
    if isinstance(assignor, SteppedAssignor):
        partitions = count_partitions(group, transition.topics)
        work = MEMBER_WORK * len(group.members) + partitions // PARTITIONS_A_TASK
    steps = _find_target(group, transition.topics, assignor)
    long_targets.compute(transition, work, steps, name, record_builders)


def take_target(group: ConsumerGroup, taken: TakeTarget, env: Env) -> Result[Any]:
    """Take a target that was computed in steps."""
    return long_targets.take(GroupTransition(group, env, taken.target.by), taken, record_builders, _find_heir)


def _find_heir(group: ConsumerGroup, gone: Member) -> str | None:
    """Return the member that has taken over from a static member."""
    return None if gone.instance_id is None else group.instances.get(gone.instance_id)


def _find_target(group: ConsumerGroup, topics: Topics, assignor: Assignor) -> Steps[tuple[Record, ...]]:
    """Return the records of the members that a new target changes, in steps."""
    spec = yield from spec_of(group, topics)
    targets = yield from call_assignor(assignor, spec)
    return (yield from long_targets.target_records(group, targets, NOTHING, record_builders))


def spec_of(group: ConsumerGroup, topics: Topics) -> Steps[GroupSpec]:
    """Return the question for the assignor, in steps. Members that subscribe alike share one tuple of topics."""
    pace = Pace()
    subscribed: dict[tuple[tuple[str, ...], str], tuple[bytes, ...]] = {}
    counts: dict[bytes, int] = {}
    members = {}
    for member_id, member in group.members.items():
        if pace.is_due():
            yield
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
