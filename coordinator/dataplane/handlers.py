"""Make handlers of the pure functions of the catalog and of transactions, which know neither logs nor connections."""

from collections.abc import Callable
from typing import Any

from coordinator.core.catalog.catalog import Catalog
from coordinator.core.decision import Decision, Steps, answers, in_steps
from coordinator.core.result import Call, Decisions, Result
from coordinator.core.transactions.transactions import Transactions
from coordinator.dataplane.state import Env, State

Handler = Callable[[State, Any, Env], Decision]


def by_catalog_in_steps(decide: Callable[[Catalog, Any, Call], Decisions]) -> Handler:
    """Return a handler that lets the catalog decide in steps."""
    return in_steps(
        lambda state, request, env: record_in_steps(
            state.runtime.record, decide(state.catalog, request, env.call), env.call.now_ms
        )
    )


def by_transactions(decide: Callable[[Transactions, Any, Call], Result[Any]]) -> Handler:
    """Return a handler that lets the transactions decide, and writes their records."""
    return answers(
        lambda state, request, env: state.runtime.record(decide(state.transactions, request, env.call), env.call.now_ms)
    )


def record_in_steps(record: Callable[[Result[Any], int], Any], decisions: Decisions, now_ms: int) -> Steps[Any]:
    """Make each result so before the next one is decided. Returns the response, which the last one has."""
    response = None
    for result in decisions:
        response = record(result, now_ms)
        if response is None:
            yield
    return response
