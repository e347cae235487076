"""DescribeTransactions: how far the transactions of some producers are.

Shown by tests/core/transactions/test_*.py and tests/conformance/stories/transactions.py.
"""

from typing import Final

from coordinator.core.decision import Steps
from coordinator.core.pace import Pace, name_units
from coordinator.core.response_budget import ResponseBudget
from coordinator.core.result import Call
from coordinator.core.transactions.transaction import Transaction
from coordinator.core.transactions.transactions import Transactions
from coordinator.core.weights import weigh
from protocol.errors import ErrorCode
from protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsResponseTopicData,
    DescribeTransactionsResponseTransactionState,
)

Described = DescribeTransactionsResponseTransactionState
_PARTITIONS_A_UNIT: Final = 50  # that are sorted and copied


def describe_transactions(
    transactions: Transactions, request: DescribeTransactionsRequest, call: Call
) -> Steps[DescribeTransactionsResponse]:
    """Describe each id that is asked for, in steps; one that is named again is the same entry again."""
    budget, pace = ResponseBudget(), Pace()
    known: dict[str, tuple[Described, int]] = {}
    states: list[Described] = []
    for name in request.transactional_ids:
        if pace.is_due(name_units(name)):
            yield
        if name not in known:
            described = yield from _describe(transactions, name, pace)
            known[name] = described, weigh(described)
        state, price = known[name]
        budget.charge(price)
        states.append(state)
    return DescribeTransactionsResponse(transaction_states=tuple(states))


def _describe(transactions: Transactions, transactional_id: str, pace: Pace) -> Steps[Described]:
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
        topics=(yield from _topics(known, pace)),
    )


def _topics(transaction: Transaction, pace: Pace) -> Steps[tuple[DescribeTransactionsResponseTopicData, ...]]:
    found: list[DescribeTransactionsResponseTopicData] = []
    for topic, indexes in transaction.partitions_by_topic().items():
        if pace.is_due(1 + len(indexes) // _PARTITIONS_A_UNIT):
            yield
        found.append(DescribeTransactionsResponseTopicData(topic, indexes))
    return tuple(found)
