"""Requests of administrators: their handlers are imported with the first of them."""

from coordinator.dataplane.administration import HANDLERS
from coordinator.dataplane.dataplane import ADMINISTRATION


def test_the_names_are_those_of_the_handlers() -> None:
    assert sorted(f"{name}Request" for name in ADMINISTRATION) == sorted(request.__name__ for request in HANDLERS)
