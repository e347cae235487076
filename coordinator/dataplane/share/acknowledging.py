"""Acknowledgements of a ShareFetch or a ShareAcknowledge: partition by partition, each all or nothing.

Kafka: `KafkaApis.handleAcknowledgements`, `SharePartitionManager.acknowledge`.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from msgspec import Struct

from coordinator.core.acls.names import Operation, Resource
from coordinator.core.decision import Steps
from coordinator.core.pace import Pace
from coordinator.core.share_partitions.acknowledge import AcknowledgementBatch, acknowledge, validate_batches
from coordinator.core.share_partitions.sessions import ShareSession
from coordinator.core.share_partitions.values import AcknowledgeType
from coordinator.core.share_state.values import StateKey
from coordinator.dataplane.share.changes import apply, limits_of
from coordinator.dataplane.state import Env, State
from protocol.errors import ErrorCode

RENEWS_SINCE: Final = 2

MESSAGES: Final = {
    ErrorCode.INVALID_RECORD_STATE: "The member has not acquired all of these records.",
    ErrorCode.INVALID_REQUEST: "The offsets are beyond those that were acquired.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The share coordinator is not available.",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "The offsets of the group were altered meanwhile.",
    ErrorCode.UNKNOWN_SERVER_ERROR: "The share coordinator has refused the change.",
    ErrorCode.GROUP_ID_NOT_FOUND: "The group does not exist.",
}


class PartitionToAcknowledge(Protocol):
    @property
    def partition_index(self) -> int: ...
    @property
    def acknowledgement_batches(self) -> Sequence[AcknowledgementBatch]: ...


class TopicToAcknowledge(Protocol):
    @property
    def topic_id(self) -> bytes: ...
    @property
    def partitions(self) -> Iterable[PartitionToAcknowledge]: ...


class RequestThatAcknowledges(Protocol):
    @property
    def topics(self) -> Iterable[TopicToAcknowledge]: ...
    @property
    def is_renew_ack(self) -> bool: ...


class Acknowledgement(Struct, frozen=True, gc=False):
    """What became of the acknowledgements of a partition."""

    key: StateKey
    error: ErrorCode = ErrorCode.NONE
    message: str | None = None


class Acknowledgements(Struct, frozen=True):
    """The acknowledgements of a request, and the member that makes them."""

    group_id: str
    member_id: str
    topics: Iterable[TopicToAcknowledge]
    by: str  # the API
    is_renewal: bool  # whether the request announces that it renews locks
    session: int  # the number of the member's session


def acknowledgements_of(session: ShareSession, request: RequestThatAcknowledges, by: str) -> Acknowledgements:
    """Return what a request of a session acknowledges."""
    group_id, member_id, _ = session.key
    return Acknowledgements(group_id, member_id, request.topics, by, request.is_renew_ack, session.number)


def acknowledge_all(state: State, asked: Acknowledgements, env: Env) -> Steps[list[Acknowledgement]]:
    """Acknowledge in each partition that is named, in steps. A partition that is named twice counts the last time."""
    named = {(topic.topic_id, one.partition_index): one for topic in asked.topics for one in topic.partitions}
    pace, done = Pace(), list[Acknowledgement]()
    is_any_acknowledged = False
    for (topic_id, index), one in named.items():
        if pace.is_due():
            yield
        key = StateKey(asked.group_id, topic_id, index)
        error = yield from _refuse(state, key, one, asked, env)
        if error is not None:
            done.append(Acknowledgement(key, error))
        elif not one.acknowledgement_batches:
            done.append(Acknowledgement(key))
        else:
            is_any_acknowledged = True
            done.append((yield from _acknowledge(state, key, one, asked, env)))
    if is_any_acknowledged:
        return done
    return [one for one in done if one.error]  # as Kafka: then it says nothing of partitions without acknowledgements


def _refuse(
    state: State, key: StateKey, one: PartitionToAcknowledge, asked: Acknowledgements, env: Env
) -> Steps[ErrorCode | None]:
    """Return why a partition is refused before it is looked at, None if it is not."""
    name = state.name_of(key.topic_id)
    if name is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    can_renew = env.call.version >= RENEWS_SINCE
    batches = one.acknowledgement_batches
    if (yield from validate_batches(batches, AcknowledgeType.RENEW if can_renew else AcknowledgeType.REJECT)):
        return ErrorCode.INVALID_REQUEST
    if not asked.is_renewal and _has_renewal(batches):
        return ErrorCode.INVALID_REQUEST
    if not env.call.may(Operation.READ, Resource.TOPIC, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return None if state.has(name, key.partition) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _has_renewal(batches: Iterable[AcknowledgementBatch]) -> bool:
    return any(AcknowledgeType.RENEW in batch.acknowledge_types for batch in batches)


def _acknowledge(
    state: State, key: StateKey, one: PartitionToAcknowledge, asked: Acknowledgements, env: Env
) -> Steps[Acknowledgement]:
    share, now_ms = state.share, env.call.now_ms
    while key in share.changing:
        yield
    partition = share.find(key)
    if partition is None:
        return _refusal(key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    batches = one.acknowledgement_batches
    if _has_renewal(batches) and not state.runtime.group_limits(key.group_id).share_renew_acknowledge_enable:
        return _refusal(key, ErrorCode.INVALID_RECORD_STATE)
    share.changing[key] = False
    try:
        limits = limits_of(state, key.group_id)
        change = yield from acknowledge(partition, asked.member_id, batches, limits, now_ms, asked.session)
        if share.find(key) is not partition:  # its topic has gone between two steps
            return _refusal(key, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        error = change if isinstance(change, ErrorCode) else apply(state, key, change, asked.by, now_ms)
    finally:
        if share.changing.pop(key):
            state.polls.wake(key)
        share.wait_for_lock(key)  # one that has ended meanwhile
    return _refusal(key, error) if error else Acknowledgement(key)


def _refusal(key: StateKey, error: ErrorCode) -> Acknowledgement:
    return Acknowledgement(key, error, MESSAGES.get(error))
