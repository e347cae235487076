"""The part of the control API that waits until something holds."""

from collections.abc import Mapping
from typing import Any, Final

import trio

from coordinator.admin.control_types import Wait
from coordinator.admin.operations import Input, Operation
from coordinator.admin.operations import Refusal as Refused
from coordinator.admin.verb_calls import check_bounds, refuse_nonsense
from coordinator.control.names import check_state
from coordinator.control.verify import Times
from coordinator.core.group_view import GroupView
from coordinator.server.operator import Operator
from coordinator.server.verbs.records import STATES

WAIT_MS_MAX: Final = 300_000
WAIT_NAMES_MAX: Final = 10_000  # members, topics, partitions and offsets that one wait names: each turn looks for them
OF_MEMBERS: Final = ("state", "members", "generation", "assigned", "tasks", "offsets", "exists")
OF_GROUPS: Final = (*OF_MEMBERS, "records", "coordinator")
"""Conditions of a wait that are about its group."""


class WaitControl:
    """The handler of the call that waits."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator

    def operations(self) -> list[Operation]:
        """Return the table of this one operation."""
        return [
            Operation("POST", "/v1/wait", "Wait until something holds", self._wait, body=Wait, result=GroupView | None),
        ]

    async def _wait(self, given: Input) -> GroupView | None:
        body: Wait = given.body
        if not body.group and body.fault is None:
            raise Refused("invalid wait: expected a group or a fault")
        if not body.group and (surplus := [name for name in OF_GROUPS if getattr(body, name) != getattr(Wait(), name)]):
            raise Refused(f"invalid wait: expected a group with {', '.join(surplus)}")
        refuse_nonsense(check_state, "state", body.state)
        check_bounds("number of names", _count_names(body), 0, WAIT_NAMES_MAX)
        _refuse_strange_records(body)
        timeout_ms = check_bounds("timeout_ms", body.timeout_ms, 0, WAIT_MS_MAX)
        with trio.move_on_after(timeout_ms / 1000):
            while self._find_difference(body) is not None:
                await self._operator.next_turn()
        difference = self._find_difference(body)
        if difference is not None:
            raise Refused(f"not within {timeout_ms} ms: {difference}", 408)
        return self._operator.groups.find(body.group) if body.group else None

    def _find_difference(self, body: Wait) -> str | None:
        """Return what does not hold yet, None if everything holds."""
        if body.fault is not None:
            rule = self._operator.requests.faults.get(body.fault)
            if rule is None:
                return f"there is no fault {body.fault}"
            if rule.hits < body.hits:
                return f"fault {body.fault} has met {rule.hits} requests, expected {body.hits}"
        if not body.group:
            return None
        if body.coordinator is not None:
            coordinator = self._operator.brokers.coordinator(body.group)
            if coordinator.is_loading or coordinator.broker != body.coordinator:
                state = "is loaded by" if coordinator.is_loading else "is coordinated by"
                return f"group {body.group!r} {state} broker {coordinator.broker}, expected {body.coordinator}"
        if body.records is not None:
            difference = self._operator.records.find_difference(body.group, body.records)
            if difference is not None or all(getattr(body, name) == getattr(Wait(), name) for name in OF_MEMBERS):
                return difference
        view = self._operator.groups.find(body.group)
        if view is None and (obstacle := self._operator.groups.find_obstacle(body.group)):
            return obstacle
        if view is None or not body.exists:
            if (view is not None) == body.exists:
                return None
            return f"there is {'no' if body.exists else 'a'} group {body.group!r}"
        return find_difference(view, body)


def _count_names(body: Wait) -> int:
    """Return how many names the conditions have, up to one more than they may."""
    left: list[Any] = [one for one in (body.assigned, body.tasks, body.offsets, body.records) if one]
    count = 0
    while left and count <= WAIT_NAMES_MAX:
        names = left.pop()
        count += len(names)
        if isinstance(names, Mapping) and count <= WAIT_NAMES_MAX:
            left += [one for one in names.values() if isinstance(one, Mapping | list)]
    return min(count, WAIT_NAMES_MAX + 1)


def _refuse_strange_records(body: Wait) -> None:
    """Refuse states, offsets and partitions that no record can ever have."""
    for topic, partitions in (body.records or {}).items():
        for partition, records in partitions.items():
            if not (partition.isascii() and partition.isdigit() and len(partition) < 10):
                raise Refused(f"invalid partition {partition!r} of {topic}: expected a number")
            for offset, state in records.items():
                if not (offset.isascii() and offset.isdigit() and len(offset) < 20):
                    raise Refused(f"invalid offset {offset!r} of {topic}-{partition}: expected a number")
                if state not in STATES:
                    raise Refused(f"invalid state {state!r} of record {offset}: expected {', '.join(STATES)}")


def find_difference(view: GroupView, body: Wait) -> str | None:
    """Return what a group lacks of what is waited for, None if it lacks nothing."""
    if body.state not in ("", view.state):
        return f"the state is {view.state}, expected {body.state}"
    for name, expected, found in (
        ("members", body.members, len(view.members)),
        ("generation", body.generation, view.generation),
    ):
        if expected is not None and not _times(expected).agrees(found):
            return f"{name}: {found}, expected {_times(expected)}"
    for name, topics in (body.assigned or {}).items():
        owned = next(
            (one.assignment for one in view.members if name in (one.member_id, one.client_id, one.instance_id)), None
        )
        wanted = {topic: sorted(partitions) for topic, partitions in topics.items() if partitions}
        if owned != wanted:
            return f"{name} owns {owned}, expected {wanted}"
    for name, roles in (body.tasks or {}).items():
        held = next((one.tasks for one in view.members if name in (one.member_id, one.client_id)), None)
        if not isinstance(held, dict):
            return f"{name} is no member with tasks, expected {roles}"
        if any(sorted(held.get(role, [])) != sorted(tasks) for role, tasks in roles.items()):
            return f"{name} has tasks {held}, expected {roles}"
    for topic, partitions in (body.offsets or {}).items():
        for partition, expected in partitions.items():
            offset = view.offsets.get(topic, {}).get(partition)
            if offset is None or not _times(expected).agrees(offset):
                return f"the offset of {topic}-{partition} is {offset}, expected {_times(expected)}"
    return None


def _times(expected: int | Times) -> Times:
    return Times(expected, expected) if isinstance(expected, int) else expected
