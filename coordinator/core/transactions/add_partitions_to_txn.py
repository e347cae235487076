"""AddPartitionsToTxn: what a producer is going to write to. From version 4 on it speaks of several transactions.

Shown by tests/core/transactions/test_*.py and tests/conformance/stories/transactions.py.
"""

from collections.abc import Collection, Generator, Iterable
from itertools import repeat
from typing import Any, Final

from coordinator.core.acls.names import Operation, Resource
from coordinator.core.catalog.names import INTERNAL
from coordinator.core.catalog.records import CatalogRecord
from coordinator.core.pace import Pace
from coordinator.core.result import Call, Decisions, Result
from coordinator.core.topics import Topics
from coordinator.core.transactions.membership import add_to_transaction, for_version, verify_partition
from coordinator.core.transactions.transaction import Partition
from coordinator.core.transactions.transactions import Transactions
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTransaction,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResponsePartitionResult,
    AddPartitionsToTxnResponseResult,
    AddPartitionsToTxnResponseTopicResult,
)

BATCHED_SINCE = 4
_RESULTS_A_UNIT: Final = 10

_Results = tuple[AddPartitionsToTxnResponseTopicResult, ...]
_Checkpoints = Generator[Result[Any], None, tuple[_Results, tuple[CatalogRecord, ...]]]


def add_partitions_to_txn(
    transactions: Transactions, topics: Topics, request: AddPartitionsToTxnRequest, call: Call
) -> Decisions:
    """Join the partitions of each transaction to it, all of them or none, in steps."""
    pace = Pace()
    if call.version < BATCHED_SINCE:
        only = AddPartitionsToTxnRequestTransaction(
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        results, records = yield from _add_partitions(transactions, topics, only, call, pace)
        yield Result(response=AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results), records=records)
        return
    answers: list[AddPartitionsToTxnResponseResult] = []
    records = ()
    for one in request.transactions:
        if records or pace.is_due():
            yield Result(records=records)  # a transaction may be named again
        results, records = yield from _add_partitions(transactions, topics, one, call, pace)
        answers.append(AddPartitionsToTxnResponseResult(one.transactional_id, results))
    yield Result(response=AddPartitionsToTxnResponse(results_by_transaction=tuple(answers)), records=records)


def _add_partitions(
    transactions: Transactions, topics: Topics, asked: AddPartitionsToTxnRequestTransaction, call: Call, pace: Pace
) -> _Checkpoints:
    """Return the response about one transaction, and what is still to be recorded."""
    partitions: list[Partition] = []
    refusals: dict[Partition, ErrorCode] = {}
    for topic in asked.topics:
        for index in topic.partitions:
            if pace.is_due():
                yield Result()
            partition = (topic.name, index)
            partitions.append(partition)
            if error := _validate(topics, partition, call):
                refusals[partition] = error
    producer = (asked.producer_id, asked.producer_epoch)
    records: tuple[CatalogRecord, ...] = ()
    told: Iterable[tuple[str, Collection[int], Iterable[ErrorCode]]]
    if refusals or asked.verify_only:  # then Kafka's answer has each partition once, and no topic without any
        by_name: dict[str, dict[int, ErrorCode]] = {}
        for partition in partitions:
            if pace.is_due():
                yield Result()
            if refusals:  # one stops them all; the others are told that it was not their fault
                error = refusals.get(partition, ErrorCode.OPERATION_NOT_ATTEMPTED)
            else:
                error = verify_partition(transactions, asked.transactional_id, producer, partition)
            by_name.setdefault(partition[0], {})[partition[1]] = for_version(error, call.version)
        told = ((name, found.keys(), found.values()) for name, found in by_name.items())
    else:
        outcome = add_to_transaction(transactions, asked.transactional_id, producer, partitions, call.now_ms)
        error = outcome if isinstance(outcome, ErrorCode) else ErrorCode.NONE
        records = () if isinstance(outcome, ErrorCode) else outcome.records
        every = repeat(for_version(error, call.version))
        told = ((topic.name, topic.partitions, every) for topic in asked.topics)
    results: list[AddPartitionsToTxnResponseTopicResult] = []
    for name, indexes, errors in told:
        if pace.is_due(1 + len(indexes) // _RESULTS_A_UNIT):
            yield Result(records=records)
            records = ()
        entries = tuple(map(AddPartitionsToTxnResponsePartitionResult, indexes, errors))
        results.append(AddPartitionsToTxnResponseTopicResult(name, entries))
    return tuple(results), records


def _validate(topics: Topics, partition: Partition, call: Call) -> ErrorCode:
    """Return why a partition cannot be written to in a transaction, NONE if it can."""
    is_of_client = call.version < BATCHED_SINCE  # a broker names the partitions of the offsets topic as well
    if is_of_client and (partition[0] in INTERNAL or not call.may(Operation.WRITE, Resource.TOPIC, partition[0])):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.NONE if topics.has_partition(*partition) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
