"""DescribeTransactions: how far the transactions of some producers are."""

from typing import Any

from coordinator.core.result import Call, Result
from coordinator.core.transactions.transaction import Transaction
from coordinator.core.transactions.transactions import Transactions
from protocol.errors import ErrorCode
from protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsResponseTopicData,
    DescribeTransactionsResponseTransactionState,
)

Described = DescribeTransactionsResponseTransactionState


def describe_transactions(transactions: Transactions, request: DescribeTransactionsRequest, call: Call) -> Result[Any]:
    """Describe each id that is asked for."""
    states = [_describe(transactions, name) for name in request.transactional_ids]
    return Result(response=DescribeTransactionsResponse(transaction_states=tuple(states)))


def _describe(transactions: Transactions, transactional_id: str) -> Described:
    if not transactional_id:
        return Described(ErrorCode.INVALID_REQUEST, transactional_id)
    known = transactions.by_id.get(transactional_id)
    if known is None:
        return Described(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id)
    return Described(
        transactional_id=transactional_id,
        transaction_state=known.state.kafka_name,
        transaction_timeout_ms=known.timeout_ms,
        transaction_start_time_ms=known.started_ms,
        producer_id=known.producer_id,
        producer_epoch=known.producer_epoch,
        topics=_topics(known),
    )


def _topics(transaction: Transaction) -> tuple[DescribeTransactionsResponseTopicData, ...]:
    by_topic: dict[str, list[int]] = {}
    for topic, index in sorted(transaction.partitions):
        by_topic.setdefault(topic, []).append(index)
    return tuple([DescribeTransactionsResponseTopicData(topic, tuple(found)) for topic, found in by_topic.items()])
