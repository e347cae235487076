"""ListTransactions: all transactional producers, or those in some states, of some ids, or open for long."""

from typing import Any

from coordinator.core import regex
from coordinator.core.result import Call, Result
from coordinator.core.transactions.states import BY_SHOWN, NEVER_SEEN
from coordinator.core.transactions.transaction import Transaction
from coordinator.core.transactions.transactions import Transactions
from protocol.errors import ErrorCode
from protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    ListTransactionsResponseTransactionState,
)


def list_transactions(transactions: Transactions, request: ListTransactionsRequest, call: Call) -> Result[Any]:
    """List what passes every filter that is given. A state that does not exist passes nothing, and is named."""
    unknown = tuple([name for name in request.state_filters if name not in BY_SHOWN and name not in NEVER_SEEN])
    pattern = request.transactional_id_pattern
    if pattern and regex.reason_invalid(pattern) is not None:
        return Result(response=ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION))
    found = {name: one for name, one in transactions.by_id.items() if _passes(one, request, call.now_ms)}
    listed = regex.matches(pattern, found) if pattern else found
    states = [
        ListTransactionsResponseTransactionState(name, found[name].producer_id, found[name].state.shown)
        for name in listed
    ]
    return Result(response=ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=tuple(states)))


def _passes(one: Transaction, request: ListTransactionsRequest, now_ms: int) -> bool:
    if request.state_filters and one.state.shown not in request.state_filters:
        return False
    if request.producer_id_filters and one.producer_id not in request.producer_id_filters:
        return False
    # One that never began counts as begun at -1, that is as open for ever: so it is in Kafka.
    return request.duration_filter < 0 or now_ms - one.started_ms > request.duration_filter
