"""How a member gets from what it owns to what it shall own: give up first, then take, each when the group can.

Only the member that speaks is moved. It tells what it owns; what it has to give up stays its own, unassigned but held,
until it tells without it. What it shall get and somebody else holds it is told once that one let go. So no partition
has two owners at any time, without anybody waiting for everybody.

    STABLE ──► UNREVOKED: told to give up partitions, at its old epoch
      │            │ it owns none of them any more
      ▼            ▼
    STABLE ◄── UNRELEASED: at the new epoch, some partitions not free yet

Shown by tests/core/scripts/consumer/{revocation_chain,three_way,lost_answers,unacknowledged}.txt and
tests/conformance/stories/consumer_reconcile.py.
"""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from coordinator.core.assignors.spec import Assignment
from coordinator.core.kinds.consumer.group import ConsumerGroup, Member
from coordinator.core.kinds.consumer.owners import Owned, Owners, is_free
from coordinator.core.kinds.consumer.states import MemberState
from coordinator.core.kinds.consumer.subscription import topic_ids
from coordinator.core.refusal import Refusal
from coordinator.core.topics import Topics
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequestTopicPartitions

ReportedOwnership = Sequence[ConsumerGroupHeartbeatRequestTopicPartitions] | None
"""The partitions that a member reports to own; None in a request without them, which acknowledges nothing."""


def reconcile(
    group: ConsumerGroup, member: Member, told: ReportedOwnership, topics: Topics, *, resubscribed: bool
) -> Member | Refusal:
    """Return the member one step further; the very same when there is nothing to do."""
    if not resubscribed and member.is_at(group.assignment_epoch):
        return member
    if member.state is MemberState.STABLE and member.epoch == group.assignment_epoch:
        return _revoke_other_topics(group, member, told, topics)
    if member.state is MemberState.UNREVOKED_PARTITIONS and owns_any(told, member.pending):
        return _revoke_other_topics(group, member, told, topics) if resubscribed else member
    if member.state is MemberState.UNKNOWN:
        if told is None or told:
            message = "The member is in an unknown state. It must abandon all its partitions and rejoin."
            return Refusal(ErrorCode.FENCED_MEMBER_EPOCH, message)
        return _advance(group, member, told, topics, stay_at=group.assignment_epoch)
    return _advance(group, member, told, topics, stay_at=member.epoch)


def owns_any(told: ReportedOwnership, partitions: Owned) -> bool:
    """Return whether the member may still own any of these. Saying nothing means that it may."""
    if told is None:
        return True
    return any(
        partition in held
        for entry in told
        if (held := partitions.get(entry.topic_id)) is not None
        for partition in entry.partitions
    )


def is_within(told: ReportedOwnership, assigned: Owned) -> bool:
    """Return whether the member says what it owns, and that is all in `assigned`."""
    if told is None:
        return False
    return all(
        (held := assigned.get(entry.topic_id)) is not None and all(partition in held for partition in entry.partitions)
        for entry in told
        if entry.partitions
    )


def _advance(group: ConsumerGroup, member: Member, told: ReportedOwnership, topics: Topics, *, stay_at: int) -> Member:
    """Return the member on its way to the latest target; at epoch `stay_at` when it has to give something up first."""
    subscribed = frozenset(topic_ids(group, member, topics))
    target = {topic: parts for topic, parts in group.target(member.member_id).items() if topic in subscribed}
    kept = _retain_targeted_partitions(member.assigned, target)
    lost = _find_lost(member.assigned, kept)
    if lost and owns_any(told, lost):
        return _move(member, MemberState.UNREVOKED_PARTITIONS, stay_at, kept, lost)
    free, is_blocked = _free(target, kept, member.pending, group.owners)
    owned = {topic_id: dict(held) for topic_id, held in kept.items()}
    for topic_id, partitions in free.items():
        owned.setdefault(topic_id, {}).update(dict.fromkeys(partitions, group.assignment_epoch))
    state = MemberState.UNRELEASED_PARTITIONS if is_blocked else MemberState.STABLE
    return _move(member, state, group.assignment_epoch, owned, {})


def _revoke_other_topics(group: ConsumerGroup, member: Member, told: ReportedOwnership, topics: Topics) -> Member:
    """Revoke the topics that the member has just unsubscribed from and that its target still has."""
    subscribed = frozenset(topic_ids(group, member, topics))
    gone = {topic_id: held for topic_id, held in member.assigned.items() if topic_id not in subscribed}
    if not gone:
        return member
    kept = {topic_id: held for topic_id, held in member.assigned.items() if topic_id in subscribed}
    pending = dict(member.pending)
    for topic_id, held in gone.items():
        pending[topic_id] = {**pending.get(topic_id, {}), **held}
    if owns_any(told, pending):
        return _move(member, MemberState.UNREVOKED_PARTITIONS, member.epoch, kept, pending)
    return _move(member, member.state, member.epoch, kept, member.pending)


def _move(member: Member, state: MemberState, epoch: int, assigned: Owned, pending: Owned) -> Member:
    return replace(member, state=state, epoch=epoch, previous_epoch=member.epoch, assigned=assigned, pending=pending)


def _retain_targeted_partitions(assigned: Owned, target: Assignment) -> Owned:
    kept = {}
    for topic_id, held in assigned.items():
        still = {partition: held[partition] for partition in target.get(topic_id, ()) if partition in held}
        if still:
            kept[topic_id] = still
    return kept


def _find_lost(assigned: Owned, kept: Owned) -> Owned:
    lost = {}
    for topic_id, held in assigned.items():
        still = kept.get(topic_id, {})
        gone = {partition: epoch for partition, epoch in held.items() if partition not in still}
        if gone:
            lost[topic_id] = gone
    return lost


def _free(target: Assignment, kept: Owned, pending: Owned, owners: Owners) -> tuple[Mapping[bytes, list[int]], bool]:
    """Return the partitions of its target that the member may take now, and whether others still hold some of them.

    What the member itself has yet to give up does not stand in its way.
    """
    free: dict[bytes, list[int]] = {}
    is_blocked = False
    for topic_id, partitions in target.items():
        mine, own = kept.get(topic_id, {}), pending.get(topic_id, {})
        for partition in partitions:
            if partition in mine:
                continue
            if partition in own or is_free(owners, topic_id, partition):
                free.setdefault(topic_id, []).append(partition)
            else:
                is_blocked = True
    return free, is_blocked
