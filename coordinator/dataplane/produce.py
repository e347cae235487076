"""Produce: batches are judged, then kept as they came, but for their place in the log.

A producer that asks for no acknowledgement gets no response: SILENT. Its connection is closed if a batch is refused, so
that it looks for topics and leaders again (Kafka: `KafkaApis.handleProduceRequest`).

Shown by tests/dataplane/test_produce.py and tests/conformance/stories/produce.py.
"""

from typing import Final

import msgspec

from coordinator.core.catalog.names import INTERNAL
from coordinator.core.catalog.settings import TopicSettings
from coordinator.core.decision import SILENT, Decision, Done, InSteps, Outcome, Silent, Steps
from coordinator.core.result import Call
from coordinator.core.transactions.membership import add_to_transaction, verify_partition
from coordinator.dataplane.state import Env, State
from coordinator.dataplane.withdrawal import withdraw
from protocol import record_batch
from protocol.batch_validation import AcceptedBatch, Allowance, Refusal, Rules, check_frame, validate_in_steps
from protocol.errors import ErrorCode
from protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartitionData,
    ProduceResponse,
    ProduceResponseBatchIndexAndErrorMessage,
    ProduceResponsePartition,
    ProduceResponseTopic,
)
from protocol.record_batch import BatchHeader
from storage.files import StorageError
from storage.log import Log
from storage.producers import ProducedBatch

BY_ID_SINCE: Final = 13
JOINS_SINCE: Final = 12  # KIP-890: a transactional batch joins its partition to the transaction
ABORTABLE_SINCE: Final = 11  # before that version clients do not know TRANSACTION_ABORTABLE
ACKS: Final = (-1, 0, 1)

_PARTITION_WORK: Final = 50  # what a partition costs beside the walk over its records, counted in records
_OPEN_WORK: Final = 1_000  # to open a log
_NEW_WORK: Final = 4_000  # to make a log on the disk, which is a step of its own
_NOT_HOSTED: Final = "This server does not host this topic-partition, or cannot read it."
_UNKNOWN_ID: Final = "This server does not host this topic ID."


class AppendedBatch(msgspec.Struct, frozen=True):
    """Where a batch stands in the log; the time is the broker's, or -1 where the producer's counts."""

    base_offset: int
    time_ms: int
    start_offset: int


def produce(state: State, request: ProduceRequest, env: Env) -> Decision:
    """Append each partition's batch that can be, in steps; one that cannot does not hold up the others."""
    return InSteps(_produce(state, request, env.call))


def _produce(state: State, request: ProduceRequest, call: Call) -> Steps[Outcome]:
    topics: list[ProduceResponseTopic] = []
    refused, allowance = _validate_request(state, request, call), Allowance()
    losses = state.logs.losses
    for topic in request.topic_data:
        by_id = call.version >= BY_ID_SINCE
        name = state.name_of(topic.topic_id) if by_id else topic.name
        results: list[ProduceResponsePartition] = []
        for data in topic.partition_data:
            if allowance.end_step():
                yield
            opened = state.logs.opened
            append = _validate_and_append(state, request, topic.topic_id, name, data, call, allowance)
            done = refused or (yield from append)
            results.append(_result(state, name, data.index, done))
            allowance.work += _PARTITION_WORK + _OPEN_WORK * (state.logs.opened - opened)
        topics.append(ProduceResponseTopic(topic.name, topic.topic_id, tuple(results)))
    if not request.acks:
        refusals = [one for topic in topics for one in topic.partition_responses if one.error_code]
        return Silent(closes=f"acks=0: {ErrorCode(refusals[0].error_code).name}") if refusals else SILENT
    response = ProduceResponse(responses=tuple(topics))
    if state.logs.losses != losses:  # between two steps: of earlier turns, whose logs could not be synced
        return Done(withdraw(response, state.logs.lost_since(losses), state.name_of))
    return Done(response)


def _validate_request(state: State, request: ProduceRequest, call: Call) -> Refusal | None:
    """Validate the request as a whole. The error is returned for each of its partitions."""
    if request.transactional_id is None:
        for topic in request.topic_data:
            for data in topic.partition_data:
                if is_transactional(data.records):
                    message = "Transactional records need the transactional id of their producer"
                    return Refusal(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, message)
        return None
    if len(_find_transactional_producers(state, request, call)) > 1:
        message = "Transactional records contained more than one producer ID"
        return Refusal(ErrorCode.INVALID_PRODUCER_ID_MAPPING, message, is_told=True)
    return None


def _find_transactional_producers(state: State, request: ProduceRequest, call: Call) -> set[tuple[int, int]]:
    """Find the producers, with their epochs, of the transactional batches that are to be appended: a request speaks
    for one. Kafka: `ReplicaManager.handleProduceAppend`."""
    found: set[tuple[int, int]] = set()
    for topic in request.topic_data:
        name = state.name_of(topic.topic_id) if call.version >= BY_ID_SINCE else topic.name
        for data in topic.partition_data:
            header = _find_transactional_header(data.records, call.version)
            if header is None or name is None or not state.catalog.topics.has_partition(name, data.index):
                continue
            found.add((header.producer_id, header.producer_epoch))
    return found


def is_transactional(records: bytes | None) -> bool:
    """Return whether the attributes of the first batch say so, whatever else is wrong with it."""
    return records is not None and len(records) >= record_batch.HEADER_BYTES and bool(records[22] & 0x10)


def _validate_and_append(
    state: State,
    request: ProduceRequest,
    topic_id: bytes,
    name: str | None,
    data: ProduceRequestPartitionData,
    call: Call,
    allowance: Allowance,
) -> Steps[AppendedBatch | Refusal]:
    """Validate one partition's batch, in steps, and append it. Nothing else happens between its last step and that.

    A transaction comes first, whatever is wrong with its records, so that a zombie learns that it is one. Kafka:
    `ReplicaManager.handleProduceAppend`.
    """
    if name is not None:
        yield from state.open_log_in_steps(name, data.index)
    if name is None or _is_of_another_topic(state, topic_id, name, call):
        return Refusal(ErrorCode.UNKNOWN_TOPIC_ID, _UNKNOWN_ID)
    if (error := state.try_open(name, data.index)) != ErrorCode.NONE:
        return Refusal(error, _NOT_HOSTED)
    header = None if name in INTERNAL else _find_transactional_header(data.records, call.version)
    if header is not None and (refusal := _join(state, request.transactional_id, (name, data.index), header, call)):
        return refusal
    if request.acks not in ACKS:
        refusal = Refusal(ErrorCode.INVALID_REQUIRED_ACKS, f"Invalid required acks value {request.acks}")
        return check_frame(data.records, call.version) or refusal
    if name in INTERNAL:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {name}")
    rules = _rules(state.catalog.settings_of(name), name, data.index)
    steps = allowance.steps
    verdict = yield from validate_in_steps(data.records, call.version, rules, call.now_ms, allowance)
    if isinstance(verdict, Refusal):
        return verdict
    if allowance.steps != steps:  # it may have gone between two of them
        if (error := state.try_open(name, data.index)) != ErrorCode.NONE:
            return Refusal(error, _NOT_HOSTED)
        if _is_of_another_topic(state, topic_id, name, call):
            return Refusal(ErrorCode.UNKNOWN_TOPIC_ID, _UNKNOWN_ID)
        # ... or the transaction may have ended
        if header is not None and (refusal := _join(state, request.transactional_id, (name, data.index), header, call)):
            return refusal
    if not state.logs.log(name, data.index).segments:
        allowance.work += _NEW_WORK
    return _append(state, name, data, verdict, call)


def _is_of_another_topic(state: State, topic_id: bytes, name: str, call: Call) -> bool:
    """Return whether the topic of that id is gone, and `name` may be that of one that was created between two steps."""
    return call.version >= BY_ID_SINCE and state.name_of(topic_id) != name


def _append(
    state: State,
    name: str,
    data: ProduceRequestPartitionData,
    accepted: AcceptedBatch,
    call: Call,
) -> AppendedBatch | Refusal:
    """Append a valid batch, unless its producer may not write it now, or has written it before."""
    settings = state.catalog.settings_of(name)
    assert data.records is not None, "no records are refused"
    partition, header = (name, data.index), accepted.header
    log = state.logs.log(*partition)
    if header.producer_id > record_batch.NO_PRODUCER:
        known = _of_producer(log, header)
        if isinstance(known, Refusal):
            return known
        if known is not None:
            return AppendedBatch(known.base_offset, known.timestamp, log.start_offset)
    if header.size > settings.segment_bytes:
        message = f"The record batch size of {header.size} bytes exceeds that of a segment"
        return Refusal(ErrorCode.RECORD_LIST_TOO_LARGE, message)
    batch, time_ms, latest_ms = data.records[: header.size], -1, accepted.max_timestamp
    if settings.is_log_append_time:
        time_ms = latest_ms = call.now_ms  # whatever the producer says, which nobody has looked at
        batch = record_batch.stamp(batch, header.attributes | record_batch.LOG_APPEND_TIME, time_ms)
    elif accepted.max_timestamp != header.max_timestamp or header.append_time_ms is not None:
        # What the log finds records by must be true, and so must whose time it is.
        batch = record_batch.stamp(batch, header.attributes & ~record_batch.LOG_APPEND_TIME, latest_ms)
    try:
        base_offset = state.logs.append(partition, log, batch, latest_ms, call.now_ms)
    except StorageError as failure:
        return Refusal(
            state.close_failed_partition(name, data.index, failure), "The log of this topic-partition is closed."
        )
    state.polls.note_append(partition, len(batch))
    state.traffic.count_in(name, header.count, len(batch))
    return AppendedBatch(base_offset, time_ms, log.start_offset)


def _find_transactional_header(records: bytes | None, version: int) -> BatchHeader | None:
    """Return the header of a batch of a transaction, whatever is wrong with its records; None if it is none."""
    if not is_transactional(records) or check_frame(records, version) is not None:
        return None
    assert records is not None, "it has a batch"
    header = record_batch.header_at(records)
    return header if header.producer_id > record_batch.NO_PRODUCER else None


def _join(
    state: State, transactional_id: str | None, partition: tuple[str, int], header: BatchHeader, call: Call
) -> Refusal | None:
    """Return why a batch is in no transaction of its producer; the first one of a partition may join it."""
    log = state.logs.log(*partition)
    known = log.producers.get(header.producer_id)
    if known is not None and header.producer_epoch < known.epoch:  # before its transaction is asked for
        message = f"Epoch {header.producer_epoch} of producer {header.producer_id} is older than {known.epoch}"
        return Refusal(ErrorCode.INVALID_PRODUCER_EPOCH, message)
    if known is not None and known.first_open_offset is not None and known.epoch == header.producer_epoch:
        return None
    return _of_transaction(state, log, transactional_id or "", partition, header, call)


def _of_producer(log: Log, header: BatchHeader) -> Refusal | ProducedBatch | None:
    """Return why this producer may not write this batch now, or the batch that it repeats, or None when it may."""
    known = log.producers.get(header.producer_id)
    is_open = known is not None and known.first_open_offset is not None
    verdict = log.producers.check(header)
    if verdict.error:
        return Refusal(verdict.error, verdict.message, is_of_log=True)
    if verdict.duplicate is None and is_open and not header.is_transactional:
        message = "Expected a transactional batch while a transaction is open"
        return Refusal(ErrorCode.INVALID_TXN_STATE, message, is_of_log=True)
    return verdict.duplicate


def _of_transaction(
    state: State, log: Log, transactional_id: str, partition: tuple[str, int], header: BatchHeader, call: Call
) -> Refusal | None:
    """Let the first batch of a transaction add its partition to it, or require that it was added before."""
    producer = (header.producer_id, header.producer_epoch)
    joins = call.version >= JOINS_SINCE
    if not joins and not state.verifies_transactions:
        return None
    if not state.runtime.is_transaction_served(transactional_id):
        error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    elif joins:
        outcome = add_to_transaction(state.transactions, transactional_id, producer, (partition,), call.now_ms)
        if isinstance(outcome, ErrorCode):
            error = outcome
        else:
            error = ErrorCode.NONE
            if outcome.records:
                state.announce(outcome, call.now_ms)
    else:
        error = verify_partition(state.transactions, transactional_id, producer, partition)
    if error not in _STRANGE:
        log.producers.note_attempt(header, begins_at_zero=joins, now_ms=call.now_ms)
    if error == ErrorCode.NONE:
        return None
    error = _for_producers(error, call.version)
    return Refusal(error, _NOT_JOINED, is_told=error in _TOLD)


_STRANGE: Final = frozenset({ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_PRODUCER_ID_MAPPING})
"""The errors of producers that have no transactional id. Nothing is noted of them, for there is no end of such ids."""
_TOLD: Final = frozenset(
    {ErrorCode.INVALID_TXN_STATE, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.CONCURRENT_TRANSACTIONS}
)
_NOT_JOINED: Final = "The partition could not be verified to be in the producer's transaction"


def _for_producers(error: ErrorCode, version: int) -> ErrorCode:
    """Return the transaction's error as producers of that version understand it."""
    if error == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error == ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    is_old = error == ErrorCode.CONCURRENT_TRANSACTIONS and version < JOINS_SINCE
    if is_old or error == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return ErrorCode.NOT_ENOUGH_REPLICAS  # which they try again without a word to the application
    return error


def _rules(settings: TopicSettings, topic: str, index: int) -> Rules:
    """Return the rules of a topic for its batches."""
    return Rules(
        topic=f"{topic}-{index}",
        compacted=settings.is_compacted,
        is_log_append_time=settings.is_log_append_time,
        batch_bytes_max=settings.max_message_bytes,
        before_max_ms=settings.timestamp_before_max_ms,
        after_max_ms=settings.timestamp_after_max_ms,
    )


def _result(state: State, topic: str | None, index: int, done: AppendedBatch | Refusal) -> ProduceResponsePartition:
    if isinstance(done, AppendedBatch):
        return ProduceResponsePartition(
            index=index,
            base_offset=done.base_offset,
            log_append_time_ms=done.time_ms,
            log_start_offset=done.start_offset,
        )
    start = -1
    if done.is_of_log and topic is not None:
        start = state.logs.log(topic, index).start_offset
    return ProduceResponsePartition(
        index=index,
        error_code=done.error,
        base_offset=-1,
        log_start_offset=start,
        record_errors=tuple([ProduceResponseBatchIndexAndErrorMessage(*one) for one in done.records]),
        error_message=done.message if done.is_told else None,
    )
