"""AddPartitionsToTxn: what a producer is going to write to. From version 4 on it speaks of several transactions."""

from collections.abc import Callable
from typing import Any

from coordinator.core.acls.names import Operation, Resource
from coordinator.core.catalog.names import INTERNAL
from coordinator.core.catalog.records import CatalogRecord
from coordinator.core.result import Call, Result
from coordinator.core.topics import Topics
from coordinator.core.transactions.membership import add_to_transaction, for_version, verify_partition
from coordinator.core.transactions.transaction import Partition
from coordinator.core.transactions.transactions import Transactions
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
    AddPartitionsToTxnRequestTransaction,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResponsePartitionResult,
    AddPartitionsToTxnResponseResult,
    AddPartitionsToTxnResponseTopicResult,
)

BATCHED_SINCE = 4

_Results = tuple[AddPartitionsToTxnResponseTopicResult, ...]


def add_partitions_to_txn(
    transactions: Transactions, topics: Topics, request: AddPartitionsToTxnRequest, call: Call
) -> Result[Any]:
    """Join the partitions of each transaction to it, all of them or none."""
    if call.version < BATCHED_SINCE:
        only = AddPartitionsToTxnRequestTransaction(
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            topics=request.v3_and_below_topics,
        )
        results, records = _add_partitions(transactions, topics, only, call)
        return Result(response=AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results), records=records)
    answers: list[AddPartitionsToTxnResponseResult] = []
    facts: list[CatalogRecord] = []
    for one in request.transactions:
        results, records = _add_partitions(transactions, topics, one, call)
        answers.append(AddPartitionsToTxnResponseResult(one.transactional_id, results))
        facts += records
    return Result(response=AddPartitionsToTxnResponse(results_by_transaction=tuple(answers)), records=tuple(facts))


def _add_partitions(
    transactions: Transactions, topics: Topics, asked: AddPartitionsToTxnRequestTransaction, call: Call
) -> tuple[_Results, tuple[CatalogRecord, ...]]:
    partitions = [(topic.name, index) for topic in asked.topics for index in topic.partitions]
    refusals = {partition: error for partition in partitions if (error := _validate(topics, partition, call))}
    if refusals:  # one stops them all; the others are told that it was not their fault
        return _results(asked.topics, lambda each: refusals.get(each, ErrorCode.OPERATION_NOT_ATTEMPTED)), ()
    producer = (asked.producer_id, asked.producer_epoch)
    if asked.verify_only:
        return _results(
            asked.topics,
            lambda partition: for_version(
                verify_partition(transactions, asked.transactional_id, producer, partition), call.version
            ),
        ), ()
    outcome = add_to_transaction(transactions, asked.transactional_id, producer, partitions, call.now_ms)
    error = outcome if isinstance(outcome, ErrorCode) else ErrorCode.NONE
    results = _results(asked.topics, lambda _: for_version(error, call.version))
    return results, () if isinstance(outcome, ErrorCode) else outcome.records


def _validate(topics: Topics, partition: Partition, call: Call) -> ErrorCode:
    """Return why a client cannot write to a partition in a transaction, NONE if it can."""
    if partition[0] in INTERNAL:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if call.version < BATCHED_SINCE and not call.may(Operation.WRITE, Resource.TOPIC, partition[0]):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.NONE if topics.has_partition(*partition) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _results(asked: tuple[AddPartitionsToTxnRequestTopic, ...], error_of: Callable[[Partition], ErrorCode]) -> _Results:
    return tuple([
        AddPartitionsToTxnResponseTopicResult(
            topic.name,
            tuple([
                AddPartitionsToTxnResponsePartitionResult(index, error_of((topic.name, index)))
                for index in topic.partitions
            ]),
        )
        for topic in asked
    ])  # fmt: skip
