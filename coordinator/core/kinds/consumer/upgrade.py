"""A classic group becomes a consumer group: by a member of the new protocol that joins it.

An empty one simply ends, and its offsets stay. One with members goes on: its generation becomes the epoch, what its
leader assigned last becomes target and current assignment, and its members keep speaking the classic protocol to it.

Shown by tests/core/scripts/consumer/{upgrade*,migrated_topics,empty_groups_convert}.txt and
tests/conformance/stories/migration.py.
"""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final

from coordinator.core.assignors.spec import Assignment
from coordinator.core.env import Env
from coordinator.core.events import Cause
from coordinator.core.kinds.classic import durable
from coordinator.core.kinds.classic.group import ClassicGroup
from coordinator.core.kinds.classic.group import Member as ClassicMember
from coordinator.core.kinds.classic.replies import refuse_parked_requests
from coordinator.core.kinds.classic.voting import CONSUMER
from coordinator.core.kinds.consumer import record_builders
from coordinator.core.kinds.consumer.group import ClassicMetadata, ConsumerGroup, Member, Metadata
from coordinator.core.kinds.consumer.transition import GroupTransition
from coordinator.core.kinds.kind import Group
from coordinator.core.kinds.modern.topics import existing_topics, metadata_hash
from coordinator.core.limits import Limits
from coordinator.core.records import ConsumerGroupMemberMetadataValueClassicProtocol
from coordinator.core.refusal import Refusal
from coordinator.core.timers import SESSION
from coordinator.core.topics import Topics
from protocol.errors import ErrorCode, ProtocolError
from protocol.messages.consumer_protocol import read_assignment, read_subscription

UNKNOWN_HASH: Final = 0  # differs from that of any topics: the next heartbeat raises the epoch, and so a new target


def begin_transition(
    group: Group | None,
    group_id: str,
    env: Env,
    by: str,
) -> GroupTransition | Refusal:
    """Return the consumer group that a member may join, as it is, made new, or made of a classic one."""
    if type(group) is ConsumerGroup:
        return GroupTransition(group, env, by)
    transition = GroupTransition(ConsumerGroup(group_id), env, by, None if group is None else group.state)
    if group is None:
        transition.tell(Cause.GROUP_CREATED)
        return transition
    if type(group) is not ClassicGroup:
        return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
    if group.is_empty:
        transition.records.append(durable.tombstone(group_id))
        transition.tell(Cause.PROTOCOL_UPGRADED)
        return transition
    return _wrong_policy(group, env.limits) or _convert(transition, group)


def _wrong_policy(group: ClassicGroup, limits: Limits) -> Refusal | None:
    if not limits.group_consumer_migration_policy.upgrades:
        return _cannot(group, "online upgrade is disabled")
    if group.protocol_type != CONSUMER:
        return _cannot(group, "the group does not use the consumer embedded protocol")
    if len(group.members) > limits.group_consumer_max_size:
        return _cannot(group, "the group size exceeds the consumer group maximum size")
    if group.protocol is None:
        # Kafka fails with an internal error, which kills the client; this one makes it try again.
        message = f"Classic group {group.group_id} is still forming its first generation."
        return Refusal(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, message)
    return None


def _cannot(group: ClassicGroup, why: str) -> Refusal:
    message = f"Cannot upgrade classic group {group.group_id} to consumer group because {why}."
    return Refusal(ErrorCode.GROUP_ID_NOT_FOUND, message)


def _convert(transition: GroupTransition, group: ClassicGroup) -> GroupTransition | Refusal:
    """Convert a classic group to a consumer group of the same members. Parked joins and syncs are told to rejoin."""
    try:
        members = [_member(member, group, transition.topics) for member in group.members.values()]
        assigned = _assigned_partitions(members)
    except ProtocolError:
        return _cannot(group, "the embedded consumer protocol is malformed")
    except NotUpgradable as reason:
        return _cannot(group, str(reason))
    group_id, epoch = group.group_id, group.generation
    for waiting in group.members.values():
        transition.effects += refuse_parked_requests(waiting, ErrorCode.REBALANCE_IN_PROGRESS, waiting.member_id)
    transition.records.append(durable.tombstone(group_id))
    transition.write(*(record_builders.member(group_id, member.member_id, member.metadata) for member in members))
    is_whole = _covers_topics(transition.group, assigned, transition.topics)
    topics_hash = metadata_hash(transition.group, transition.topics) if is_whole else UNKNOWN_HASH
    transition.write(record_builders.epoch(group_id, epoch, topics_hash))
    transition.write(*(record_builders.target(group_id, member.member_id, _bare(member)) for member in members))
    transition.write(record_builders.target_epoch(group_id, epoch, 0))
    transition.write(*(record_builders.current(group_id, member) for member in members))
    transition.tell(Cause.PROTOCOL_UPGRADED)
    for classic in group.members.values():
        transition.set_timer(SESSION, classic.member_id, classic.session_timeout_ms)
    return transition


def _covers_topics(group: ConsumerGroup, assigned: AbstractSet[tuple[bytes, int]], topics: Topics) -> bool:
    """Return whether every partition of the group's topics is assigned: not those added since the leader synced.

    Kafka does not look, and no member owns these partitions before the group changes in some other way.
    """
    found = [topics[name] for name in existing_topics(group, topics)]
    return all((topic.id, partition) in assigned for topic in found for partition in range(topic.partitions))


class NotUpgradable(Exception):  # noqa: N818 - it says what is found
    """An assignment with which a consumer group cannot go on. The text is the reason."""


def _assigned_partitions(members: Sequence[Member]) -> AbstractSet[tuple[bytes, int]]:
    """Return the partitions that the members are assigned. Raises NotUpgradable if two of them have the same one."""
    assigned = [(topic_id, p) for member in members for topic_id, held in member.assigned.items() for p in held]
    distinct = set(assigned)
    if len(distinct) < len(assigned):
        raise NotUpgradable("a partition is assigned to several members")
    return distinct


def _member(member: ClassicMember, group: ClassicGroup, topics: Topics) -> Member:
    """Return a classic member as one of a consumer group, at the epoch of its generation.

    Raises ProtocolError and NotUpgradable.
    """
    subscription = read_subscription(member.metadata(group.protocol))
    assigned = _read_target(member.assignment, topics)
    protocols = tuple(ConsumerGroupMemberMetadataValueClassicProtocol(*protocol) for protocol in member.protocols)
    metadata = Metadata(
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(set(subscription.topics))),
        subscribed_topic_regex="",
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic_member_metadata=ClassicMetadata(member.session_timeout_ms, protocols),
    )
    owned = {topic_id: dict.fromkeys(partitions, group.generation) for topic_id, partitions in assigned.items()}
    return Member(member.member_id, metadata, group.generation, group.generation, assigned=owned)


def _read_target(assignment: bytes, topics: Topics) -> Assignment:
    """Read the leader's assignment, by topic id. A member that has never synced has none.

    Raises ProtocolError, and NotUpgradable for user data (the assignor that put it there would miss it) and for
    partitions that do not exist: all that is kept of a topic's owners is as long as its greatest partition.
    """
    if not assignment:
        return {}
    read = read_assignment(assignment)
    if read.user_data:
        raise NotUpgradable("an unsupported custom assignor is in use")
    assigned: dict[bytes, set[int]] = {}
    for entry in read.assigned_partitions:
        topic = topics.get(entry.topic)
        if topic is not None and entry.partitions:
            if not 0 <= min(entry.partitions) <= max(entry.partitions) < topic.partitions:
                raise NotUpgradable("partitions are assigned that do not exist")
            assigned.setdefault(topic.id, set()).update(entry.partitions)
    return {topic_id: tuple(sorted(partitions)) for topic_id, partitions in assigned.items()}


def _bare(member: Member) -> Assignment:
    return {topic_id: tuple(held) for topic_id, held in member.assigned.items()}
