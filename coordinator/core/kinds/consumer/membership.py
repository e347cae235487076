"""Find the member that a request is from, check its epoch, and let a new member take over from a static one.

Shown by tests/core/scripts/consumer/{changed_instance,static_*}.txt and tests/conformance/stories/consumer_static.py.
"""

from msgspec.structs import replace

from coordinator.core.kinds.consumer import record_builders
from coordinator.core.kinds.consumer.group import ConsumerGroup, Member
from coordinator.core.kinds.consumer.reconcile import ReportedOwnership, is_within
from coordinator.core.kinds.consumer.transition import GroupTransition
from coordinator.core.kinds.consumer.validation import fenced_instance, unknown_instance
from coordinator.core.kinds.modern.epochs import AWAY, fenced_epoch
from coordinator.core.kinds.modern.validation import unknown_member
from coordinator.core.limits import Limits
from coordinator.core.refusal import Refusal
from coordinator.core.timers import JOIN, REBALANCE, SYNC
from protocol.errors import ErrorCode


def is_full(group: ConsumerGroup, member_id: str, instance_id: str | None, limits: Limits) -> bool:
    """Return whether there is no room for a member that is not in the group. One that takes over from another needs
    none.

    Kafka 4.3.1 refuses a returning static member of a full group; a later release mends that (KAFKA-20601).
    """
    if len(group.members) < limits.group_consumer_max_size or member_id in group.members:
        return False
    return instance_id is None or instance_id not in group.instances


def group_full(limits: Limits) -> Refusal:
    """Refuse a new member, because the group has as many members as it may have."""
    message = f"The consumer group has reached its maximum capacity of {limits.group_consumer_max_size} members."
    return Refusal(ErrorCode.GROUP_MAX_SIZE_REACHED, message)


def find_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> Member | Refusal:
    """Return the member that has these ids; an instance id must belong to the member id."""
    if instance_id is None:
        member = group.members.get(member_id)
        return unknown_member(member_id, group.group_id) if member is None else member
    member = group.by_instance(instance_id)
    if member is None:
        return unknown_instance(instance_id)
    return member if member.member_id == member_id else fenced_instance(instance_id, member_id)


def validate_epoch(member: Member, epoch: int, told: ReportedOwnership) -> Refusal | None:
    """Return why a heartbeat's epoch is refused; None when it is good.

    The epoch before the current one is good for a member that owns nothing but what it was told: the answer that raised
    its epoch may have been lost. Epoch 0 always is: a member that was fenced rejoins with it.
    """
    if epoch in (0, member.epoch):
        return None
    if epoch == member.previous_epoch and epoch < member.epoch and is_within(told, member.assigned):
        return None
    return fenced_epoch("consumer", epoch, member.epoch)


def replace_static_member(transition: GroupTransition, old: Member, member_id: str) -> Member:
    """Return a static member under a new member id: with all that the old one had, at epoch 0."""
    group_id, target = transition.group.group_id, transition.group.target(old.member_id)
    if member_id != old.member_id and member_id in transition.group.members:
        _remove_namesake(transition, transition.group.members[member_id])
    member = replace(old, member_id=member_id, epoch=0, previous_epoch=0)
    transition.write(
        *record_builders.removal(group_id, old.member_id),
        record_builders.member(group_id, member_id, member.metadata),
        record_builders.target(group_id, member_id, target),
        record_builders.current(group_id, member),
    )
    return member


def _remove_namesake(transition: GroupTransition, member: Member) -> None:
    """Remove a member whose id a static one brings from now on, with its timers: the id stays, and so would they."""
    group_id, member_id = transition.group.group_id, member.member_id
    transition.write(*record_builders.removal(group_id, member_id))
    if member.pattern and member.pattern not in transition.group.patterns:
        transition.write(record_builders.no_pattern(group_id, member.pattern))
    for timer in (REBALANCE, JOIN, SYNC):
        transition.cancel_timer(timer, member_id)


def validate_takeover(member: Member, instance_id: str) -> Refusal | None:
    """Return why nobody may take over from this static member of the consumer protocol: it has not said that it is
    away."""
    if member.classic is not None or member.epoch == AWAY:
        return None
    message = f"Static member {member.member_id} with instance id {instance_id} is in use and has not left."
    return Refusal(ErrorCode.UNRELEASED_INSTANCE_ID, message)
