"""The target assignment of a share group: what each member shall read, of the partitions that have a state.

For a large group it is computed in steps, after the request that finds it due (`modern/long_targets`).
"""

from collections.abc import Mapping
from typing import Any, Final

from coordinator.core.assignors import simple
from coordinator.core.assignors.spec import NOTHING, Assignment, GroupSpec, MemberSpec
from coordinator.core.decision import Steps
from coordinator.core.env import Env
from coordinator.core.kinds.modern import long_targets
from coordinator.core.kinds.modern.topics import count_partitions
from coordinator.core.kinds.modern.transition import GroupTransition
from coordinator.core.kinds.share import record_builders
from coordinator.core.kinds.share.group import ShareGroup
from coordinator.core.pace import Pace
from coordinator.core.record_types import Record
from coordinator.core.result import Result, TakeTarget
from coordinator.core.topics import Topics

ASSIGNOR = "simple"
_NOTHING: Final[frozenset[int]] = frozenset()


def compute_target(transition: GroupTransition[ShareGroup]) -> None:
    """Compute a new target, or have it computed in steps."""
    group, topics = transition.group, transition.topics
    work = len(group.members) + count_partitions(group, topics)
    long_targets.compute(transition, work, _find_target(group, topics), ASSIGNOR, record_builders)


def take_target(group: ShareGroup, taken: TakeTarget, env: Env) -> Result[Any]:
    """Take a target that was computed in steps."""
    return long_targets.take(GroupTransition(group, env, taken.target.by), taken, record_builders)


def _find_target(group: ShareGroup, topics: Topics) -> Steps[tuple[Record, ...]]:
    """Return the records of the members that a new target changes, in steps."""
    spec = yield from spec_of(group, topics)
    assignable = {topic_id: one.partitions for topic_id, one in group.initialized.items()}
    targets = yield from simple.assign(spec, assignable)
    return (yield from long_targets.target_records(group, targets, NOTHING, record_builders))


def spec_of(group: ShareGroup, topics: Topics) -> Steps[GroupSpec]:
    """Return the question for the assignor, in steps. Members that subscribe alike share one tuple of topics."""
    pace = Pace()
    subscribed: dict[tuple[str, ...], tuple[bytes, ...]] = {}
    states = {topic_id: frozenset(one.partitions) for topic_id, one in group.initialized.items()}
    members = {}
    for member_id, member in group.members.items():
        if pace.is_due():
            yield
        if member.names not in subscribed:
            found = (topics.get(name) for name in member.names)
            subscribed[member.names] = tuple([topic.id for topic in found if topic is not None])
        previous = _keep_assignable(group.target(member_id), states, topics)
        members[member_id] = MemberSpec(subscribed[member.names], previous)
    names = topics.existing_names(group.names.keys())
    counts = {topic.id: topic.partitions for name in names if (topic := topics[name])}
    is_homogeneous = all(count == len(members) for count in group.names.values())
    return GroupSpec(members, counts, is_homogeneous)


def _keep_assignable(target: Assignment, states: Mapping[bytes, frozenset[int]], topics: Topics) -> Assignment:
    """Return a target without those partitions of existing topics that have no state: an operator has forced them.

    The assignor would count them, and leave others without a member.
    """
    if all(states.get(topic_id, _NOTHING).issuperset(partitions) for topic_id, partitions in target.items()):
        return target
    return {
        topic_id: partitions
        if topics.by_id(topic_id) is None
        else tuple([index for index in partitions if index in states.get(topic_id, _NOTHING)])
        for topic_id, partitions in target.items()
    }
