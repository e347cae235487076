"""The table of handlers is made of what the kinds of groups say, and is complete."""

import subprocess
import sys
from types import NoneType

import pytest
from msgspec.structs import replace

from coordinator.core import dispatch
from coordinator.core.dispatch import HANDLERS, OF_EVERY_KIND, TIMERS, Incomplete, plan_handlers
from coordinator.core.kinds.classic.kind import CLASSIC
from coordinator.core.kinds.consumer import heartbeat
from coordinator.core.kinds.consumer.group import ConsumerGroup
from coordinator.core.kinds.consumer.kind import CONSUMER
from coordinator.core.kinds.kind import Late
from coordinator.core.kinds.registry import KINDS
from coordinator.core.verbs import Forget
from protocol.messages.heartbeat import HeartbeatRequest

REQUESTS = {request for kind in KINDS.values() for request in kind.creates} | {*dispatch.OF_EVERY_KIND, *dispatch.VERBS}
GROUPS = (NoneType, *[kind.cls for kind in KINDS.values()])


@pytest.mark.parametrize("group", GROUPS)
def test_every_request_and_verb_has_a_handler_for_every_kind_of_groups_and_for_none(group: type) -> None:
    assert {request for request in REQUESTS if callable(HANDLERS[request, group])} == REQUESTS
    assert not [request for request in REQUESTS if isinstance(HANDLERS[request, group], Late)], "found when needed"


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
def test_every_late_function_of_a_kind_is_there(kind: object) -> None:
    late = [
        value for name in kind.__struct_fields__ for value in _values(getattr(kind, name)) if isinstance(value, Late)
    ]
    assert all(callable(one.resolve()) for one in late)


def _values(field: object) -> list[object]:
    if isinstance(field, dict):
        return list(field.values())
    described = getattr(field, "describe", None)
    return [field, described]


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.name)
@pytest.mark.parametrize("request_type", sorted(REQUESTS, key=lambda one: one.__name__), ids=lambda one: one.__name__)
def test_a_pair_without_a_handler_is_found_when_the_table_is_made(kind: object, request_type: type) -> None:
    """For each request that a kind answers itself: without it nothing is left but what other kinds say of it."""
    if request_type not in kind.handlers:
        return
    fewer = {request: handler for request, handler in kind.handlers.items() if request is not request_type}
    others = [one for one in KINDS.values() if one is not kind]
    is_refused_by_its_owner = any(request_type in one.refuses for one in others)
    broken = [*others, replace(kind, handlers=fewer)]
    if is_refused_by_its_owner or request_type in OF_EVERY_KIND:
        plan_handlers(broken)
    else:
        with pytest.raises(Incomplete, match=request_type.__name__):
            plan_handlers(broken)


@pytest.mark.parametrize(
    "broken",
    [
        replace(CONSUMER, refuses={}),
        replace(CONSUMER, creates={}),
        replace(CONSUMER, creates=CLASSIC.creates),
        replace(CONSUMER, keys=CLASSIC.keys),
        replace(CONSUMER, member_timers=frozenset({"unheard-of"})),
        replace(CONSUMER, handlers={**CONSUMER.handlers, str: CONSUMER.handlers[Forget]}),
        replace(CONSUMER, cls=CLASSIC.cls),
    ],
)
def test_a_kind_that_leaves_something_unsaid_is_refused(broken: object) -> None:
    with pytest.raises(Incomplete):
        plan_handlers([CLASSIC, broken])


def test_a_kind_that_is_refused_changes_nothing() -> None:
    before = dict(KINDS)
    with pytest.raises(Incomplete):
        dispatch.register(replace(CONSUMER, name="other"))
    assert before == KINDS
    assert HANDLERS[HeartbeatRequest, ConsumerGroup] is heartbeat.heartbeat


def test_what_is_not_in_the_table_cannot_happen() -> None:
    with pytest.raises(KeyError):
        HANDLERS[str, ConsumerGroup]
    with pytest.raises(KeyError):
        TIMERS["unheard-of", ConsumerGroup]


def test_a_server_without_consumer_groups_does_without_their_handlers() -> None:
    program = "import sys, coordinator.core.dispatch; print('coordinator.core.kinds.consumer.reconcile' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "False\n"
