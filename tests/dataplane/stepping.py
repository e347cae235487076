"""Requests that are decided in steps."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from tests.dataplane.broker import NODES, Broker, call, response_of

CALLS = Counter[str]()  # of the noted methods


def note(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    """Count the calls of a method of a class, or of a function of a module."""
    method: Callable[..., Any] = getattr(owner, name)

    def noting(*args: Any, **named: Any) -> Any:
        CALLS[name] += 1
        return method(*args, **named)

    monkeypatch.setattr(owner, name, noting)


def ask_in_steps(broker: Broker, api_key: int, request: Any) -> tuple[Any, list[Counter[str]]]:
    """Return the response to a request, and how often each noted method was called in each of its steps."""
    calls: list[Counter[str]] = [Counter()]
    CALLS.clear()
    response = response_of(broker.node.engine.handle(api_key, request, call(request), NODES))
    while True:
        calls[-1].update(CALLS)
        CALLS.clear()
        if response is not None or not broker.node.engine.unfinished:
            return response, calls
        calls.append(Counter())
        broker.node.engine.long_requests.step()
        broker.node.engine.flush()
        response = next((response_of(outcome) for _, outcome in broker.node.engine.replies()), None)
