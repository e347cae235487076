"""Produce: batches are judged, then kept as they came, but for their place in the log.

Who asks for no acknowledgement gets no answer, not even of an error: `NO_ANSWER`.
"""

from struct import Struct
from typing import Final

import msgspec

from coordinator.core.catalog.names import INTERNAL
from coordinator.core.catalog.settings import TopicSettings
from coordinator.core.result import Call
from coordinator.core.transactions.membership import error_unless_joined, joined
from coordinator.dataplane.state import State
from protocol import produced, record_batch
from protocol.errors import ErrorCode
from protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartitionData,
    ProduceResponse,
    ProduceResponseBatchIndexAndErrorMessage,
    ProduceResponsePartition,
    ProduceResponseTopic,
)
from protocol.produced import Refusal, Rules
from protocol.record_batch import BatchHeader
from storage.log import Log
from storage.producers import Written

NO_ANSWER: Final = object()
BY_ID_SINCE: Final = 13
JOINS_SINCE: Final = 12  # KIP-890: a transactional batch joins its partition to the transaction
ABORTABLE_SINCE: Final = 11  # before that version clients do not know TRANSACTION_ABORTABLE
ACKS: Final = (-1, 0, 1)

_ATTRIBUTES, _MAX_TIMESTAMP, _CRC = Struct(">h"), Struct(">q"), Struct(">I")


class Appended(msgspec.Struct, frozen=True):
    """Where a batch stands in the log; the time is the broker's, or -1 where the producer's counts."""

    base_offset: int
    time_ms: int
    start_offset: int


def produce(state: State, request: ProduceRequest, call: Call) -> object:
    """Append each partition's batch that can be; one that cannot does not hold up the others."""
    topics: list[ProduceResponseTopic] = []
    refused = _refusal_of_all(request)
    for topic in request.topic_data:
        by_id = call.version >= BY_ID_SINCE
        name = state.name_of(topic.topic_id) if by_id else topic.name
        results: list[ProduceResponsePartition] = []
        for data in topic.partition_data:
            done = refused or _appended(state, request.transactional_id, name, data, call)
            results.append(_result(data.index, done))
        topics.append(ProduceResponseTopic(topic.name, topic.topic_id, tuple(results)))
    return ProduceResponse(responses=tuple(topics)) if request.acks else NO_ANSWER


def _refusal_of_all(request: ProduceRequest) -> Refusal | None:
    """What is wrong with the request as a whole, and is told to each of its partitions."""
    if request.acks not in ACKS:
        return Refusal(ErrorCode.INVALID_REQUIRED_ACKS, f"Invalid required acks value {request.acks}")
    if request.transactional_id is None and any(
        _is_transactional(data.records) for topic in request.topic_data for data in topic.partition_data
    ):
        return Refusal(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "A transactional batch without its id")
    return None


def _is_transactional(records: bytes | None) -> bool:
    """By the attributes of the first batch, whatever else is to be said of it."""
    return records is not None and len(records) >= record_batch.HEADER_BYTES and bool(records[22] & 0x10)


def _appended(
    state: State, transactional_id: str | None, name: str | None, data: ProduceRequestPartitionData, call: Call
) -> Appended | Refusal:
    if name is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    if not state.has(name, data.index):
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    if name in INTERNAL:
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {name}")
    governing = state.catalog.governing(name)
    wrong = produced.refusal(data.records, call.version, rules(governing), call.now_ms)
    if wrong is not None:
        return wrong
    assert data.records is not None, "no records are refused"
    log = state.logs.log(name, data.index)
    header = record_batch.header_at(data.records)
    if header.attributes & record_batch.LOG_APPEND_TIME:
        return Refusal(ErrorCode.INVALID_TIMESTAMP, "Producer should not set timestamp type to LogAppendTime.")
    if header.producer_id != record_batch.NO_PRODUCER:
        known = _of_producer(state, log, transactional_id, (name, data.index), header, call)
        if isinstance(known, Refusal):
            return known
        if known is not None:
            return Appended(
                known.base_offset, known.timestamp if governing.is_log_append_time else -1, log.start_offset
            )
    batch = data.records
    if governing.is_log_append_time:
        batch = _stamped(batch, header, call.now_ms)
    base_offset = log.append(batch)
    state.logs.touch(name, data.index, log)
    state.polls.appended((name, data.index), len(batch))
    return Appended(base_offset, call.now_ms if governing.is_log_append_time else -1, log.start_offset)


def _stamped(batch: bytes, header: BatchHeader, now_ms: int) -> bytes:
    """The batch with the broker's time: one attribute, one time, and the checksum over them; the records stay."""
    raw = bytearray(batch)
    _ATTRIBUTES.pack_into(raw, 21, header.attributes | record_batch.LOG_APPEND_TIME)
    _MAX_TIMESTAMP.pack_into(raw, 35, now_ms)
    _CRC.pack_into(raw, 17, record_batch.crc_of(raw, 0, len(raw)))
    return bytes(raw)


def _of_producer(
    state: State, log: Log, transactional_id: str | None, partition: tuple[str, int], header: BatchHeader, call: Call
) -> Refusal | Written | None:
    """Why this producer may not write this batch now, or the batch that it repeats, or None when it may."""
    verdict = log.producers.check(header)
    if verdict.error:
        return Refusal(verdict.error, verdict.message)
    if verdict.duplicate is not None:
        return verdict.duplicate
    is_open = header.producer_id in log.producers and log.producers[header.producer_id].first_open_offset is not None
    if not header.is_transactional:
        if is_open:
            return Refusal(ErrorCode.INVALID_TXN_STATE, "Expected a transactional batch while a transaction is open")
        return None
    if is_open and log.producers[header.producer_id].epoch == header.producer_epoch:
        return None
    return _of_transaction(state, transactional_id or "", partition, header, call)


def _of_transaction(
    state: State, transactional_id: str, partition: tuple[str, int], header: BatchHeader, call: Call
) -> Refusal | None:
    """The first batch of a transaction in this partition: it joins it, or must have been announced."""
    producer = (header.producer_id, header.producer_epoch)
    if call.version >= JOINS_SINCE:
        outcome = joined(state.transactions, transactional_id, producer, (partition,), call.now_ms)
        if not isinstance(outcome, ErrorCode):
            if outcome.records:
                state.announce(outcome, call.now_ms)
            return None
        error = outcome
    elif state.verifies_transactions:
        error = error_unless_joined(state.transactions, transactional_id, producer, partition)
    else:
        return None
    return None if error == ErrorCode.NONE else Refusal(_for_producers(error, call.version), _NOT_JOINED)


_NOT_JOINED: Final = "The partition could not be verified to be in the producer's transaction"


def _for_producers(error: ErrorCode, version: int) -> ErrorCode:
    """The transaction's error as producers of that version understand it."""
    if error == ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if error == ErrorCode.TRANSACTION_ABORTABLE and version < ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    if error == ErrorCode.CONCURRENT_TRANSACTIONS and version < JOINS_SINCE:
        return ErrorCode.NOT_ENOUGH_REPLICAS  # which they try again without a word to the application
    return error


def rules(governing: TopicSettings) -> Rules:
    """What a topic asks of a batch."""
    return Rules(
        compacted=governing.is_compacted,
        batch_bytes_max=governing.max_message_bytes,
        before_max_ms=governing.timestamp_before_max_ms,
        after_max_ms=governing.timestamp_after_max_ms,
    )


def _result(index: int, done: Appended | Refusal) -> ProduceResponsePartition:
    if isinstance(done, Appended):
        return ProduceResponsePartition(
            index=index,
            base_offset=done.base_offset,
            log_append_time_ms=done.time_ms,
            log_start_offset=done.start_offset,
        )
    at_fault = () if done.record is None else (ProduceResponseBatchIndexAndErrorMessage(done.record, done.message),)
    return ProduceResponsePartition(
        index=index, error_code=done.error, base_offset=-1, record_errors=at_fault, error_message=done.message
    )
