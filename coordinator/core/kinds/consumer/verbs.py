"""The operator's verbs on a consumer group."""

from collections.abc import Iterator
from typing import Any

from coordinator.core.assignors.spec import NOTHING, GroupSpec
from coordinator.core.env import Env
from coordinator.core.events import Cause
from coordinator.core.kinds.consumer import record_builders
from coordinator.core.kinds.consumer.group import ConsumerGroup
from coordinator.core.kinds.consumer.removal import remove_members
from coordinator.core.kinds.consumer.target import spec_of
from coordinator.core.kinds.consumer.transition import GroupTransition
from coordinator.core.kinds.modern import verbs
from coordinator.core.kinds.modern.target import check_assignment
from coordinator.core.kinds.modern.topics import metadata_hash
from coordinator.core.moves import LoseMembers
from coordinator.core.refusal import Refusal
from coordinator.core.result import Result
from coordinator.core.topics import Topics
from coordinator.core.verbs import BY, Rebalance, RemoveMember, SetTarget, VerbResponse
from protocol.steps import finish_steps


def remove_member(group: ConsumerGroup, verb: RemoveMember, env: Env) -> Result[Any]:
    """Remove a member, whichever protocol it speaks."""
    member = group.members.get(verb.member_id)
    if member is None:
        return verbs.refuse_unknown_member(verb)
    transition = GroupTransition(group, env, BY)
    result = remove_members(transition, {verb.member_id: member}, VerbResponse(), verb.cause, verb.reason)
    if isinstance(result, Refusal):  # the group cannot become a classic one
        assert result.message, "a refusal to downgrade says why"
        return verbs.refuse(result.message)
    return result


def rebalance(group: ConsumerGroup, verb: Rebalance, env: Env) -> Result[ConsumerGroup]:
    """Raise the group's epoch: a new target is computed at the next heartbeat of a member."""
    return verbs.rebalance(GroupTransition(group, env, BY), verb, _raise_epoch)


def set_target(group: ConsumerGroup, verb: SetTarget, env: Env) -> Result[ConsumerGroup]:
    """Write the target assignment as if an assignor had computed it."""
    named = {topic for target in verb.targets.values() for topic in target}
    if verb.standbys:
        return verbs.refuse("invalid standbys: expected none, as a consumer group has no tasks")
    if unknown := sorted(topic for topic in named if topic not in env.topics):
        return verbs.refuse(f"invalid topic {unknown[0]!r}: expected a topic that exists")
    spec = finish_steps(spec_of(group, env.topics))
    if problem := next(_find_problems(verb, spec, env.topics), ""):
        return verbs.refuse(f"invalid target: {problem}")
    wanted = {
        member_id: {env.topics.id_of(topic): partitions for topic, partitions in target.items()}
        for member_id, target in verb.targets.items()
    }
    targets = check_assignment(spec, wanted)
    transition = GroupTransition(group, env, BY)
    _raise_epoch(transition)
    return verbs.write_target(transition, targets, record_builders, NOTHING)


def _find_problems(verb: SetTarget, spec: GroupSpec, topics: Topics) -> Iterator[str]:
    """Yield why no group could follow a target, by the names that the operator has given."""
    taken: set[tuple[str, int]] = set()
    for member_id, target in verb.targets.items():
        if member_id not in spec.members:
            yield f"{member_id} is no member"
        for name, partitions in target.items():
            count = spec.partition_counts.get(topics.id_of(name))
            if count is None:
                yield f"no member subscribes to topic {name!r}"
                continue
            for partition in partitions:
                if not 0 <= partition < count:
                    yield f"topic {name!r} has no partition {partition}: expected 0 to {count - 1}"
                if (name, partition) in taken:
                    yield f"partition {partition} of topic {name!r} is given to two members"
                taken.add((name, partition))


def lose_members(group: ConsumerGroup, verb: LoseMembers, env: Env) -> Result[ConsumerGroup]:
    """Leave the group without members: each is told UNKNOWN_MEMBER_ID, and joins anew."""
    transition = GroupTransition(group, env, BY)
    result = remove_members(transition, dict(group.members.items()), VerbResponse(), Cause.MEMBERS_LOST)
    assert not isinstance(result, Refusal), "a group without members is not downgraded"
    return result


def _raise_epoch(transition: GroupTransition) -> None:
    group = transition.group
    transition.write(record_builders.epoch(group.group_id, group.epoch + 1, metadata_hash(group, transition.topics)))
