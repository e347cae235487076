"""The steps that a heartbeat and a classic JoinGroup share: keep what the member says, raise the epoch, compute the
target, move the member. Each writes its records in the order that Kafka's log has them.
"""

from msgspec import Struct
from msgspec.structs import replace

from coordinator.core.assignors.spec import AssignorError
from coordinator.core.consumer import facts, patterns, target
from coordinator.core.consumer.group import ConsumerGroup, Member, Metadata
from coordinator.core.consumer.reconcile import Told, reconciled
from coordinator.core.consumer.refusal import of_pattern
from coordinator.core.consumer.states import MemberState
from coordinator.core.consumer.subscription import have_changed, metadata_hash
from coordinator.core.consumer.turn import Turn
from coordinator.core.events import Cause
from coordinator.core.refusal import Refusal
from coordinator.core.result import Call
from protocol.errors import ErrorCode


class Changes(Struct, frozen=True):
    """What came of it."""

    member: Member
    resubscribed: bool  # its topics or its pattern are others


class PatternChange(Struct, frozen=True):
    """What a member's change of its regular expression means for the group."""

    is_changed: bool = False
    raises_epoch: bool = False  # the topics of the new one are known already, or there are none any more
    is_new: bool = False  # nobody had it: it has to be resolved


def advance(turn: Turn, found: Member, metadata: Metadata, told: Told, call: Call) -> Changes | Refusal:
    """All steps, for the member as it was found and what it says now."""
    changes = keep(turn, found, metadata, call)
    if isinstance(changes, Refusal):
        return changes
    if wrong := assign(turn):
        return wrong
    return move(turn, changes, told)


def keep(turn: Turn, found: Member, metadata: Metadata, call: Call) -> Changes | Refusal:
    """Keep what the member says, and raise the epoch if the group wants something else by that."""
    before, group_id = turn.group, turn.group.group_id
    is_new = found.member_id not in before.members
    change = _pattern_change(before, found.pattern, metadata.subscribed_topic_regex or "")
    if change.is_new and (wrong := of_pattern(metadata.subscribed_topic_regex or "")):
        return wrong
    if is_new or metadata != found.metadata:
        turn.write(facts.member(group_id, found.member_id, metadata))
    if change.is_changed and found.pattern and found.pattern not in turn.group.patterns:
        turn.write(facts.no_pattern(group_id, found.pattern))
    _refresh(turn, before, change, call)
    has_other_names = metadata.subscribed_topic_names != found.names
    has_other_assignor = target.assignor_name(turn.group, turn.limits) != target.assignor_name(before, turn.limits)
    raises = has_other_names or change.raises_epoch or has_other_assignor
    if raises or have_changed(before, turn.topics):
        raises = _raise_epoch(turn, raises) or raises
    elif turn.group.topics_seen is not turn.topics:
        turn.group = replace(turn.group, topics_seen=turn.topics)
    member = turn.group.members[found.member_id]
    resubscribed = has_other_names or change.is_changed
    if is_new:
        turn.tell(Cause.MEMBER_JOINED, member)
    elif found.epoch == 0 and found.previous_epoch == 0 and found.instance_id is not None:
        turn.tell(Cause.STATIC_MEMBER_RETURNED, member)
    elif raises:
        cause = Cause.METADATA_CHANGED if has_other_assignor else Cause.TOPICS_CHANGED
        turn.tell(Cause.SUBSCRIPTION_CHANGED if resubscribed else cause, member)
    return Changes(member, resubscribed)


def assign(turn: Turn) -> Refusal | None:
    """Compute the target if it is due. An assignor that fails fails the request."""
    if not target.is_due(turn.group, turn.limits, turn.now_ms):
        return None
    try:
        records = target.computed(turn.group, turn.limits, turn.topics, turn.assignors, turn.now_ms)
    except AssignorError:
        return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)
    turn.write(*records)
    turn.tell(Cause.ASSIGNMENT_COMPUTED, protocol=target.assignor_name(turn.group, turn.limits))
    return None


def move(turn: Turn, changes: Changes, told: Told) -> Changes | Refusal:
    """Move the member one step towards its target."""
    before = changes.member
    member = reconciled(turn.group, before, told, turn.topics, resubscribed=changes.resubscribed)
    if isinstance(member, Refusal):
        return member
    if member == before:
        return changes
    has_given_up = (
        before.state is MemberState.UNREVOKED_PARTITIONS and member.state is not MemberState.UNREVOKED_PARTITIONS
    )
    if has_given_up:
        turn.cancel_timer("rebalance", member.member_id)
        turn.tell(Cause.PARTITIONS_REVOKED, member)
    turn.write(facts.current(turn.group.group_id, member))
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if member.classic is None:  # classic members have timers of their own, for joining and syncing
            turn.set_timer("rebalance", member.member_id, member.metadata.rebalance_timeout_ms)
        turn.tell(Cause.REVOCATION_AWAITED, member)
    elif member.is_at(turn.group.assignment_epoch) and not before.is_at(turn.group.assignment_epoch):
        turn.tell(Cause.MEMBER_RECONCILED, member)
    return replace(changes, member=member)


def _pattern_change(group: ConsumerGroup, old: str, new: str) -> PatternChange:
    if old == new:
        return PatternChange()
    if not new:
        return PatternChange(is_changed=True, raises_epoch=True)
    if new not in group.patterns:
        return PatternChange(is_changed=True, is_new=True)
    return PatternChange(is_changed=True, raises_epoch=new in group.resolved)


def _refresh(turn: Turn, before: ConsumerGroup, change: PatternChange, call: Call) -> None:
    """Have the group's patterns resolved again, if it is time."""
    if turn.group.resolving is not None or not (turn.group.patterns or before.patterns):
        return
    if not patterns.may_refresh(before.resolved, turn.now_ms):
        return
    if change.is_new or patterns.is_stale(turn.group.patterns, before.resolved, turn.topics, turn.limits, turn.now_ms):
        patterns.start(turn, call.sees)


def _raise_epoch(turn: Turn, raises: bool) -> bool:
    """Hold the group against the topics; raise its epoch if it has to, or if they have changed. Whether they have."""
    group = turn.group
    topics_hash = metadata_hash(group, turn.topics)
    has_changed = topics_hash != group.metadata_hash
    if raises or has_changed:
        turn.write(facts.epoch(group.group_id, group.epoch + 1, topics_hash))
    if group.has_topics_record:
        turn.write(facts.no_topics(group.group_id))
    turn.group = replace(turn.group, topics_seen=turn.topics)
    return has_changed
