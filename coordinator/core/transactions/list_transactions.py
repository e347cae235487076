"""ListTransactions: all transactional producers, or those in some states, of some ids, or open for long.

Shown by tests/core/transactions/test_*.py and tests/conformance/stories/transactions.py.
"""

from collections.abc import Generator, Set
from typing import Final

from coordinator.core import regex
from coordinator.core.response_budget import ResponseBudget
from coordinator.core.result import Call
from coordinator.core.transactions.states import BY_SHOWN, NEVER_SEEN
from coordinator.core.transactions.transaction import Transaction
from coordinator.core.transactions.transactions import Transactions
from protocol.errors import ErrorCode
from protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    ListTransactionsResponseTransactionState,
)

STEP_IDS: Final = 1_000  # looked at in one step, less with a pattern that is much work


def list_transactions(
    transactions: Transactions, request: ListTransactionsRequest, call: Call
) -> Generator[None, None, ListTransactionsResponse]:
    """List what passes every filter that is given, in steps. A state that does not exist passes nothing, and is named.

    The transactions are those of the first step; those that are gone before they are looked at are left out.
    """
    unknown = tuple([name for name in request.state_filters if name not in BY_SHOWN and name not in NEVER_SEEN])
    pattern = request.transactional_id_pattern
    if pattern and regex.reason_invalid(pattern) is not None:
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    states, producers = frozenset(request.state_filters), frozenset(request.producer_id_filters)
    by_id, names, end = transactions.by_id, tuple(transactions.by_id), 0
    listed: list[ListTransactionsResponseTransactionState] = []
    budget = ResponseBudget()
    while end < len(names):
        if end:
            yield
        some = names[end : end + STEP_IDS]
        if pattern:
            matched = regex.match(pattern, some)
            some, end = matched.names, end + matched.end
        else:
            end += len(some)
        for name in some:
            if (one := by_id.get(name)) is not None and _passes(one, request, states, producers, call):
                budget.charge_elements(1)
                listed.append(ListTransactionsResponseTransactionState(name, one.producer_id, one.state.kafka_name))
    return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=tuple(listed))


def _passes(
    one: Transaction, request: ListTransactionsRequest, states: Set[str], producers: Set[int], call: Call
) -> bool:
    if states and one.state.kafka_name not in states:
        return False
    if producers and one.producer_id not in producers:
        return False
    # One that never began counts as begun at -1, that is as open for ever: so it is in Kafka.
    return request.duration_filter < 0 or call.now_ms - one.started_ms > request.duration_filter
