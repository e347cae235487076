"""Make handlers of the pure functions of the catalog and of transactions, which know neither logs nor connections."""

from collections.abc import Callable, Generator
from typing import Any, Final

from coordinator.core.catalog.catalog import Catalog
from coordinator.core.result import Call, Decisions, Result
from coordinator.core.transactions.transactions import Transactions
from coordinator.dataplane.state import Env, State

Handler = Callable[[State, Any, Env], Any]

NO_ANSWER: Final = object()
"""In place of the response to a Produce with acks=0, which has none even for an error."""


def by_catalog(decide: Callable[[Catalog, Any, Call], Result[Any]]) -> Handler:
    """Return a handler that lets the catalog decide, and writes its records."""
    return lambda state, request, env: state.runtime.record(decide(state.catalog, request, env.call), env.call.now_ms)


def by_catalog_in_steps(decide: Callable[[Catalog, Any, Call], Decisions]) -> Handler:
    """Return a handler that lets the catalog decide in steps."""

    def handle(state: State, request: Any, env: Env) -> Generator[None, None, Any]:
        response = None
        for result in decide(state.catalog, request, env.call):
            response = state.runtime.record(result, env.call.now_ms)
            if response is None:
                yield
        return response

    return handle


def by_configs(decide: Callable[[Catalog, Any, Call], Decisions]) -> Handler:
    """Return a handler in steps for changes of settings. Open logs take over those of their topics."""
    handle_in_steps = by_catalog_in_steps(decide)

    def handle(state: State, request: Any, env: Env) -> Generator[None, None, Any]:
        response = yield from handle_in_steps(state, request, env)
        state.logs.reconfigure()
        return response

    return handle


def by_transactions(decide: Callable[[Transactions, Any, Call], Result[Any]]) -> Handler:
    """Return a handler that lets the transactions decide, and writes their records."""
    return lambda state, request, env: state.runtime.record(
        decide(state.transactions, request, env.call), env.call.now_ms
    )
