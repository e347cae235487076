"""JoinGroup to a consumer group: a member of the classic protocol joins, or comes back for its next step.

Nobody waits: the answer names the member's epoch as its generation, and no leader, so that no client ever assigns. What
a member of the new protocol hears in one answer, a classic one learns in turns: Heartbeat tells it to rejoin, JoinGroup
says which partitions it owns, SyncGroup tells it what it may own.

Shown by tests/core/scripts/consumer/{eager_member,join_refused,classic_replaces_pattern}.txt,
tests/core/kinds/consumer/test_migration.py and tests/conformance/stories/migration.py.
"""

from typing import Any, Final

from msgspec.structs import replace

from coordinator.core.env import Env
from coordinator.core.events import Cause
from coordinator.core.kinds.classic.join_group import join_group as classic_join_group
from coordinator.core.kinds.classic.voting import CONSUMER
from coordinator.core.kinds.consumer import downgrade
from coordinator.core.kinds.consumer.group import ClassicMetadata, ConsumerGroup, Member, Metadata
from coordinator.core.kinds.consumer.membership import find_member, is_full, replace_static_member
from coordinator.core.kinds.consumer.reconcile import ReportedOwnership
from coordinator.core.kinds.consumer.steps import advance, keep, move
from coordinator.core.kinds.consumer.transition import GroupTransition
from coordinator.core.limits import Limits, MigrationPolicy
from coordinator.core.records import ConsumerGroupMemberMetadataValueClassicProtocol
from coordinator.core.refusal import Refusal, refuse_join
from coordinator.core.result import Call, Result
from coordinator.core.timers import JOIN, SESSION, SYNC
from coordinator.core.topics import Topics
from protocol.errors import ErrorCode, ProtocolError
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequestTopicPartitions
from protocol.messages.consumer_protocol import ConsumerProtocolSubscription, read_subscription
from protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

BY: Final = "JoinGroup"
MEMBER_ID_REQUIRED_SINCE: Final = 4  # KIP-394


def join_group(group: ConsumerGroup, request: JoinGroupRequest, env: Env) -> Result[Any]:
    """Admit a classic member. An empty consumer group ends, and a classic one begins in its place."""
    call, limits = env.call, env.limits
    if not limits.group_min_session_timeout_ms <= request.session_timeout_ms <= limits.group_max_session_timeout_ms:
        return Result(response=refuse_join(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id, call.version))
    if group.is_empty:
        return _replace_group(group, request, env)
    transition = GroupTransition(group, env, BY)
    member_id = request.member_id or call.fresh_uuid()
    if error := _validate(group, member_id, request, limits):
        return _refuse(error, call)
    has_id = request.member_id or request.group_instance_id is not None
    if not has_id and call.version >= MEMBER_ID_REQUIRED_SINCE:
        return Result(response=refuse_join(ErrorCode.MEMBER_ID_REQUIRED, member_id, call.version))
    result = _admit(transition, member_id, request, call)
    return _refuse(result.error, call) if isinstance(result, Refusal) else result


def _refuse(error: ErrorCode, call: Call) -> Result[Any]:
    return Result(response=refuse_join(error, "", call.version))


def _validate(group: ConsumerGroup, member_id: str, request: JoinGroupRequest, limits: Limits) -> ErrorCode:
    """Return why the member may not join, NONE if it may: by the policy, the size of the group and the protocols."""
    if limits.group_consumer_migration_policy is MigrationPolicy.DISABLED:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if is_full(group, member_id, request.group_instance_id, limits):
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    shared = (group.protocols.get(protocol.name, 0) == group.classics for protocol in request.protocols)
    if request.protocol_type != CONSUMER or not any(shared):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    return ErrorCode.NONE


def _replace_group(group: ConsumerGroup, request: JoinGroupRequest, env: Env) -> Result[Any]:
    result = classic_join_group(None, request, env)
    if result.group is None:
        return result
    transition = GroupTransition(group, env, BY)
    transition.tell(Cause.PROTOCOL_DOWNGRADED)
    written = (*downgrade.tombstones(group), *result.records)
    return replace(result, records=written).prepend(events=tuple(transition.events))


def _admit(transition: GroupTransition, member_id: str, request: JoinGroupRequest, call: Call) -> Result[Any] | Refusal:
    before = transition.group
    found = _find_or_create_member(transition, member_id, request)
    if isinstance(found, Refusal):
        return found
    try:
        subscription = read_subscription(request.protocols[0].metadata)
    except ProtocolError as error:
        # Kafka 4.3.1 fails with an internal error; a later release answers this (KAFKA-20662).
        return Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(error))
    metadata, told = _metadata(found, request, subscription, call), _reported_ownership(subscription, transition.topics)
    old = None if request.group_instance_id is None else before.by_instance(request.group_instance_id)
    if old is not None and downgrade.is_possible_replacing(before, old, transition.limits):
        return _downgrade(transition, found, metadata, told, call)
    changes = advance(transition, found, metadata, told, call)
    if isinstance(changes, Refusal):
        return changes
    transition.cancel_timer(JOIN, found.member_id)
    transition.set_timer(SESSION, found.member_id, request.session_timeout_ms)
    transition.set_timer(SYNC, found.member_id, metadata.rebalance_timeout_ms)
    return transition.result(_response(changes.member))


def _downgrade(
    transition: GroupTransition, found: Member, metadata: Metadata, told: ReportedOwnership, call: Call
) -> Result[Any] | Refusal:
    """Convert the group to the classic protocol, since the member replaces the last one of the consumer protocol."""
    before = transition.group
    changes = keep(transition, found, metadata, call)
    if isinstance(changes, Refusal):
        return changes
    is_behind = transition.group.assignment_epoch < transition.group.epoch
    if not is_behind:
        changes = move(transition, changes, told)
        if isinstance(changes, Refusal):
            return changes
    return downgrade.downgrade_after_replacement(transition, before.epoch, _response(changes.member))


def _find_or_create_member(transition: GroupTransition, member_id: str, request: JoinGroupRequest) -> Member | Refusal:
    """Find the member that joins, or create it. A static member without an id replaces the one with its instance id."""
    instance_id = request.group_instance_id
    if instance_id is not None and request.member_id:
        return find_member(transition.group, request.member_id, instance_id)
    old = None if instance_id is None else transition.group.by_instance(instance_id)
    if old is not None:
        return replace_static_member(transition, old, member_id)
    known = transition.group.members.get(member_id)
    return Member(member_id) if known is None else known


def _metadata(
    member: Member, request: JoinGroupRequest, subscription: ConsumerProtocolSubscription, call: Call
) -> Metadata:
    """Read the member's subscription. All of its protocols are taken to carry the same one."""
    timeout_ms = request.rebalance_timeout_ms
    protocols = tuple(ConsumerGroupMemberMetadataValueClassicProtocol(p.name, p.metadata) for p in request.protocols)
    instance_id, rack_id = request.group_instance_id, subscription.rack_id
    return replace(
        member.metadata,
        instance_id=member.metadata.instance_id if instance_id is None else instance_id,
        rack_id=member.metadata.rack_id if rack_id is None else rack_id,
        client_id=call.client_id or "",
        client_host=call.client_host,
        subscribed_topic_names=tuple(sorted(set(subscription.topics))),
        subscribed_topic_regex="",
        rebalance_timeout_ms=request.session_timeout_ms if timeout_ms == -1 else timeout_ms,
        classic_member_metadata=ClassicMetadata(request.session_timeout_ms, protocols),
    )


def _reported_ownership(subscription: ConsumerProtocolSubscription, topics: Topics) -> ReportedOwnership:
    """Read from the subscription which partitions the member owns, by topic id. Without the field it owns none."""
    found = ((topics.get(entry.topic), entry.partitions) for entry in subscription.owned_partitions)
    return tuple(
        ConsumerGroupHeartbeatRequestTopicPartitions(topic.id, partitions)
        for topic, partitions in found
        if topic is not None
    )


def _response(member: Member) -> JoinGroupResponse:
    assert member.classic is not None, f"member {member.member_id} does not speak the classic protocol"
    return JoinGroupResponse(
        generation_id=member.epoch,
        protocol_type=CONSUMER,
        protocol_name=member.classic.supported_protocols[0].name,
        member_id=member.member_id,
    )
