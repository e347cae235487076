"""The steps that a heartbeat and a classic JoinGroup share: keep what the member says, raise the epoch, compute the
target, move the member. Each writes its records in the order that Kafka's log has them.
"""

from msgspec import Struct
from msgspec.structs import replace

from coordinator.core.assignors.spec import AssignorError
from coordinator.core.events import Cause
from coordinator.core.kinds.consumer import patterns, record_builders, target
from coordinator.core.kinds.consumer.group import ConsumerGroup, Member, Metadata
from coordinator.core.kinds.consumer.reconcile import ReportedOwnership, reconcile
from coordinator.core.kinds.consumer.states import MemberState
from coordinator.core.kinds.consumer.transition import GroupTransition
from coordinator.core.kinds.consumer.validation import of_pattern
from coordinator.core.kinds.modern.epochs import is_target_due, refuse_target
from coordinator.core.kinds.modern.topics import have_topics_changed, metadata_hash
from coordinator.core.refusal import Refusal
from coordinator.core.result import Call
from coordinator.core.timers import REBALANCE
from protocol.errors import ErrorCode


class Changes(Struct, frozen=True):
    """The outcome of the step."""

    member: Member
    resubscribed: bool  # its topics or its pattern are others


class PatternChange(Struct, frozen=True):
    """Update the group's regular expressions when a member changes its own."""

    is_changed: bool = False
    raises_epoch: bool = False  # the topics of the new one are known already, or there are none any more
    is_new: bool = False  # nobody had it: it has to be resolved


def advance(
    transition: GroupTransition, found: Member, metadata: Metadata, told: ReportedOwnership, call: Call
) -> Changes | Refusal:
    """Take all steps, for the member as it was found and the request at hand."""
    changes = keep(transition, found, metadata, call)
    if isinstance(changes, Refusal):
        return changes
    if wrong := assign(transition):
        return wrong
    return move(transition, changes, told)


def keep(transition: GroupTransition, found: Member, metadata: Metadata, call: Call) -> Changes | Refusal:
    """Keep what the member says, and raise the epoch if the group wants something else by that."""
    before, group_id = transition.group, transition.group.group_id
    is_new = found.member_id not in before.members
    change = _pattern_change(before, found.pattern, metadata.subscribed_topic_regex or "")
    if change.is_new and (wrong := of_pattern(metadata.subscribed_topic_regex or "")):
        return wrong
    if is_new or metadata != found.metadata:
        transition.write(record_builders.member(group_id, found.member_id, metadata))
    if change.is_changed and found.pattern and found.pattern not in transition.group.patterns:
        transition.write(record_builders.no_pattern(group_id, found.pattern))
    _refresh(transition, before, change, call)
    has_other_names = metadata.subscribed_topic_names != found.names
    has_other_assignor = _has_other_assignor(transition, before)
    raises = has_other_names or change.raises_epoch or has_other_assignor
    if raises or have_topics_changed(before, transition.topics):
        raises = _raise_epoch(transition, raises) or raises
    elif transition.group.topics_seen != transition.topics.version:
        transition.group = replace(transition.group, topics_seen=transition.topics.version)
    member = transition.group.members[found.member_id]
    resubscribed = has_other_names or change.is_changed
    if is_new:
        transition.tell(Cause.MEMBER_JOINED, member)
    elif found.epoch == 0 and found.previous_epoch == 0 and found.instance_id is not None:
        transition.tell(Cause.STATIC_MEMBER_RETURNED, member)
    elif raises:
        cause = Cause.METADATA_CHANGED if has_other_assignor else Cause.TOPICS_CHANGED
        transition.tell(Cause.SUBSCRIPTION_CHANGED if resubscribed else cause, member)
    return Changes(member, resubscribed)


def assign(transition: GroupTransition) -> Refusal | None:
    """Compute the target if it is due, and not being computed. An assignor that fails fails the request, and so does a
    target that is too large.
    """
    if (too_large := refuse_target(transition.group)) is not None:
        return too_large
    if not is_target_due(transition.group, transition.limits.group_consumer_assignment_interval_ms, transition.now_ms):
        return None
    try:
        target.compute_target(transition)
    except AssignorError:
        return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)
    return None


def move(transition: GroupTransition, changes: Changes, told: ReportedOwnership) -> Changes | Refusal:
    """Move the member one step towards its target."""
    before = changes.member
    member = reconcile(transition.group, before, told, transition.topics, resubscribed=changes.resubscribed)
    if isinstance(member, Refusal):
        return member
    if member == before:
        return changes
    has_given_up = (
        before.state is MemberState.UNREVOKED_PARTITIONS and member.state is not MemberState.UNREVOKED_PARTITIONS
    )
    if has_given_up:
        transition.cancel_timer(REBALANCE, member.member_id)
        transition.tell(Cause.PARTITIONS_REVOKED, member)
    transition.write(record_builders.current(transition.group.group_id, member))
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if member.classic is None:  # classic members have timers of their own, for joining and syncing
            transition.set_timer(REBALANCE, member.member_id, member.metadata.rebalance_timeout_ms)
        transition.tell(Cause.REVOCATION_AWAITED, member)
    elif member.is_at(transition.group.assignment_epoch) and not before.is_at(transition.group.assignment_epoch):
        transition.tell(Cause.MEMBER_RECONCILED, member)
    return replace(changes, member=member)


def _has_other_assignor(transition: GroupTransition, before: ConsumerGroup) -> bool:
    """Return whether the members' votes choose another assignor than before."""
    group, limits = transition.group, transition.limits
    if group.votes == before.votes:
        return False
    return target.assignor_name(group, limits) != target.assignor_name(before, limits)


def _pattern_change(group: ConsumerGroup, old: str, new: str) -> PatternChange:
    if old == new:
        return PatternChange()
    if not new:
        return PatternChange(is_changed=True, raises_epoch=True)
    if new not in group.patterns:
        return PatternChange(is_changed=True, is_new=True)
    return PatternChange(is_changed=True, raises_epoch=new in group.resolved)


def _refresh(transition: GroupTransition, before: ConsumerGroup, change: PatternChange, call: Call) -> None:
    """Have the group's patterns resolved again, if it is time."""
    if transition.group.resolving is not None or not (transition.group.patterns or before.patterns):
        return
    if not patterns.may_refresh(before.resolved, transition.now_ms):
        return
    if change.is_new or patterns.is_stale(
        transition.group.patterns, before.resolved, transition.topics, transition.limits, transition.now_ms
    ):
        patterns.start(transition)


def _raise_epoch(transition: GroupTransition, raises: bool) -> bool:
    """Hold the group against the topics; raise its epoch if it has to, or if they have changed. Whether they have."""
    group = transition.group
    topics_hash = metadata_hash(group, transition.topics)
    has_changed = topics_hash != group.metadata_hash
    if raises or has_changed:
        transition.write(record_builders.epoch(group.group_id, group.epoch + 1, topics_hash))
    if group.has_topics_record:
        transition.write(record_builders.no_topics(group.group_id))
    transition.group = replace(transition.group, topics_seen=transition.topics.version)
    return has_changed
