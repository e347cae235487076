"""Which function decides a request about the catalog or a transaction: the one of the API's name."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from coordinator.core.result import Call, Result


def decide(package: str, state: Any, request: Any, call: Call) -> Any:
    """Return what the handler in `coordinator.core.<package>` returns: a result, or the steps to a response.

    `state` is the catalog or the transactions.
    """
    name = type(request).__module__.rpartition(".")[2]
    return getattr(import_module(f"coordinator.core.{package}.{name}"), name)(state, request, call)


def decide_all(package: str, state: Any, request: Any, call: Call) -> Iterator[Result[Any]]:
    """Yield the results of a request that may be decided in steps, each to be made so before the next one."""
    decided = decide(package, state, request, call)
    yield from (decided,) if isinstance(decided, Result) else decided
