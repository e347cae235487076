"""Which handler decides which request about transactions."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from coordinator.core.catalog.outcome import Outcome
from coordinator.core.result import Call
from coordinator.core.transactions.describe_transactions import describe_transactions
from coordinator.core.transactions.end_txn import end_txn
from coordinator.core.transactions.init_producer_id import init_producer_id
from coordinator.core.transactions.list_transactions import list_transactions
from coordinator.core.transactions.transactions import Transactions
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_transactions import ListTransactionsRequest

# AddPartitionsToTxn asks about topics as well, AddOffsetsToTxn about the partition of a group.
HANDLERS: Final[Mapping[type, Callable[[Transactions, Any, Call], Outcome]]] = {
    DescribeTransactionsRequest: describe_transactions,
    EndTxnRequest: end_txn,
    InitProducerIdRequest: init_producer_id,
    ListTransactionsRequest: list_transactions,
}
