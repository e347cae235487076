"""How handlers are made of functions that decide: catalog and transactions know neither logs nor connections."""

from collections.abc import Callable, Generator
from typing import Any, Final

from coordinator.core.catalog.catalog import Catalog
from coordinator.core.result import Call, Decisions, Result
from coordinator.core.transactions.transactions import Transactions
from coordinator.dataplane.state import Env, State

Handler = Callable[[State, Any, Env], Any]

NO_ANSWER: Final = object()
"""The response to a Produce that wants none, not even of an error."""


def by_catalog(decide: Callable[[Catalog, Any, Call], Result[Any]]) -> Handler:
    """Make the handler of what the catalog decides."""
    return lambda state, request, env: state.runtime.record(decide(state.catalog, request, env.call), env.call.now_ms)


def by_catalog_in_steps(decide: Callable[[Catalog, Any, Call], Decisions]) -> Handler:
    """Make the handler of what the catalog decides in steps."""

    def handle(state: State, request: Any, env: Env) -> Generator[None, None, Any]:
        response = None
        for result in decide(state.catalog, request, env.call):
            response = state.runtime.record(result, env.call.now_ms)
            if response is None:
                yield
        return response

    return handle


def by_configs(decide: Callable[[Catalog, Any, Call], Decisions]) -> Handler:
    """Make the same for what may change the settings of topics, which their open logs are to follow."""
    handle_in_steps = by_catalog_in_steps(decide)

    def handle(state: State, request: Any, env: Env) -> Generator[None, None, Any]:
        response = yield from handle_in_steps(state, request, env)
        state.logs.reconfigure()
        return response

    return handle


def by_transactions(decide: Callable[[Transactions, Any, Call], Result[Any]]) -> Handler:
    """Make the handler of what the transactions decide."""
    return lambda state, request, env: state.runtime.record(
        decide(state.transactions, request, env.call), env.call.now_ms
    )
