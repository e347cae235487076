"""What an operator sees of streams groups, and does to them: tasks, members, targets, holds, and what is verified."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from coordinator.admin.control_types import Wait
from coordinator.admin.control_waiting import find_difference
from coordinator.control.journal import Filter
from coordinator.control.lint import lint
from coordinator.control.names import SpecError
from coordinator.control.verify import Expectation, check
from coordinator.control.verify import verify as verify_events
from coordinator.server.verbs.refusal import Refusal
from tests.control.steered import SteeredNode
from tests.members import TOPOLOGY, StreamsMember


@pytest.fixture
def server() -> SteeredNode:
    return serve()


def serve() -> SteeredNode:
    return SteeredNode(
        journal_bytes=1 << 20,
        topics={"lines": 2},
        group_streams_initial_rebalance_delay_ms=0,
        group_streams_assignment_interval_ms=0,
        group_streams_num_standby_replicas=1,
    )


def connect(server: SteeredNode, name: str) -> StreamsMember:
    """A member on a connection of its own, with its name as its client id."""
    return StreamsMember(server.connect(client_id=name), name)


def settle(*members: StreamsMember) -> None:
    for _ in range(6):
        for member in members:
            answer = member.beat()
            assert not answer.error_code, answer


def pair(server: SteeredNode) -> tuple[StreamsMember, StreamsMember]:
    a, b = connect(server, "a"), connect(server, "b")
    settle(a, b)
    return a, b


def tasks(server: SteeredNode) -> dict[str, dict[str, list[str]]]:
    """Tasks by role, of each client."""
    return {
        member.client_id: {role: listed for role, listed in member.tasks.items() if listed}
        for member in server.operator.groups.view("app").members
    }


def verify(server: SteeredNode, *expected: dict[str, Any], in_order: bool = False) -> list[str]:
    wanted = msgspec.convert(expected, list[Expectation])
    check(wanted)
    return verify_events(wanted, (), enumerate(server.events, 1), in_order=in_order).differences


def test_tasks_are_shown_by_member_process_and_role(server: SteeredNode) -> None:
    pair(server)
    view = server.operator.groups.view("app")
    assert view.state == "Stable"
    assert {member.client_id: member.process_id for member in view.members} == {"a": "a", "b": "b"}
    found = tasks(server)
    assert sorted(found["a"]["active"] + found["b"]["active"]) == ["0_0", "0_1", "1_0", "1_1"]
    stateful = {name: [task for task in roles["active"] if task.startswith("1_")] for name, roles in found.items()}
    assert (found["a"]["standby"], found["b"]["standby"]) == (stateful["b"], stateful["a"])


def test_a_task_moved_after_a_session_ended_and_nowhere_else(server: SteeredNode) -> None:
    _, b = pair(server)
    (moving,) = (task for task in tasks(server)["a"]["active"] if task.startswith("0_"))
    before = sum(event.cause == "tasks_assigned" and moving in event.tasks for event in server.events)
    server.operator.groups.expire("app", "a")
    settle(b)
    expired = {"event": "session_expired", "group": "app", "client": "a", "times": 1}
    moved = {"event": "tasks_assigned", "group": "app", "task": moving, "client": "b", "from": "a", "times": 1}
    nowhere_else = {"event": "tasks_assigned", "group": "app", "task": moving, "times": before + 1}
    assert verify(server, expired, moved, in_order=True) == []
    assert verify(server, nowhere_else) == []
    (difference,) = verify(server, {**moved, "from": "b"})
    assert difference.startswith("event tasks_assigned group=app client=b task=0_0 from=b: expected 1, found 0; ")
    assert "near miss: group is app, client is b, from a" in difference


def test_tasks_are_forced_and_those_that_do_not_exist_are_refused(server: SteeredNode) -> None:
    a, b = pair(server)
    server.operator.groups.set_target("app", {"a": {"0": [0, 1], "1": [0, 1]}}, {"b": {"1": [0, 1]}})
    settle(a, b)
    assert tasks(server) == {"a": {"active": ["0_0", "0_1", "1_0", "1_1"]}, "b": {"standby": ["1_0", "1_1"]}}
    with pytest.raises(Refusal, match="there is no task 1_7"):
        server.operator.groups.set_target("app", {"a": {"1": [7]}})
    with pytest.raises(Refusal, match="active twice"):
        server.operator.groups.set_target("app", {"a": {"0": [0]}, "b": {"0": [0]}})


@pytest.mark.parametrize(("verb", "error"), [("kick", 25), ("fence", 110), ("expire", 25)])
def test_a_member_is_removed_and_told(server: SteeredNode, verb: str, error: int) -> None:
    a, b = pair(server)
    getattr(server.operator.groups, verb)("app", "a")
    assert a.beat().error_code == error
    settle(b)
    assert set(tasks(server)) == {"b"}
    a.epoch, a.tasks = 0, [(), (), ()]
    settle(a, b)
    assert set(tasks(server)) == {"a", "b"}


def test_a_reconciliation_is_held(server: SteeredNode) -> None:
    """While the heartbeats of one member are held, its tasks stay its own and the other member waits for them."""
    a = connect(server, "a")
    settle(a)
    server.operator.requests.hold("app", "heartbeat", "a")
    b = connect(server, "b")
    for _ in range(4):
        b.beat()
    assert tasks(server)["a"]["active"] == ["0_0", "0_1", "1_0", "1_1"]
    assert server.operator.groups.view("app").state == "Reconciling"
    server.operator.requests.release("app")
    settle(a, b)
    assert server.operator.groups.view("app").state == "Stable"


def test_a_test_waits_for_tasks_in_a_role(server: SteeredNode) -> None:
    pair(server)
    roles = tasks(server)["a"]
    view = server.operator.groups.view("app")
    assert (
        find_difference(view, Wait("app", tasks={"a": {role: listed[::-1] for role, listed in roles.items()}})) is None
    )
    assert find_difference(view, Wait("app", tasks={"a": {"warmup": []}, "a-id": {"active": roles["active"]}})) is None
    difference = find_difference(view, Wait("app", tasks={"b": {"active": roles["active"]}}))
    assert difference is not None and difference.startswith("b has tasks {'active': [")
    assert find_difference(view, Wait("app", tasks={"c": {"active": ["0_0"]}})) is not None


def test_an_epochs_way_is_told_with_its_causes(server: SteeredNode) -> None:
    _, b = pair(server)
    seen = len(server.events)
    server.operator.groups.kick("app", "a")
    settle(b)
    causes = [str(event.cause) for event in server.events[seen:]]
    assert causes[0] == "member_kicked"
    assert causes.index("assignment_computed") < causes.index("tasks_assigned")
    assert [str(event.after) for event in server.events[seen:]][-1] == "Stable"


def test_a_task_is_expected_of_its_own_event_alone(server: SteeredNode) -> None:
    with pytest.raises(SpecError, match="expected task and from only of the event tasks_assigned"):
        verify(server, {"event": "member_left", "task": "0_0"})
    with pytest.raises(SpecError, match="expected a task beside from"):
        verify(server, {"event": "tasks_assigned", "from": "a"})
    pair(server)
    (difference,) = verify(server, {"event": "tasks_assigned", "task": "9_9"})
    assert "tasks are 0_0" in difference


@given(st.lists(st.booleans(), min_size=1, max_size=8))
@settings(max_examples=40)
def test_a_member_that_keeps_what_it_has_to_give_up_is_found(keeps: list[bool]) -> None:
    """Three reports in a row are too many, whatever it does afterwards."""
    server = serve()
    a = connect(server, "a")
    settle(a)
    before, b = list(a.tasks), connect(server, "b")
    b.beat()
    a.beat()
    given_up = list(a.tasks)
    for keeps_now in keeps:
        a.tasks = list(before if keeps_now else given_up)
        a.beat()
    is_late = any(all(keeps[at : at + 3]) for at in range(len(keeps) - 2))
    assert [one[:2] for one in findings(server)] == [("tasks_not_given_up", "a")] * is_late
    if all(keeps) and is_late:
        evidence = f"{len(keeps)} reports in a row, of tasks that the member has to give up"
        assert findings(server) == [("tasks_not_given_up", "a", evidence)]


def test_a_member_of_the_same_id_in_another_group_keeps_nothing_of_the_first(server: SteeredNode) -> None:
    """As two environments of an application have, whose ids are chosen."""
    a = connect(server, "a")
    settle(a)
    namesake = StreamsMember(server.connect(client_id="a"), "a", "other")
    second = StreamsMember(server.connect(client_id="b"), "b", "other")
    settle(namesake, second)
    for member in (a, namesake, a):
        for _ in range(4):
            member.beat()
    assert findings(server) == []


def test_members_that_give_up_what_they_are_told_to_are_not(server: SteeredNode) -> None:
    a, b = pair(server)
    server.operator.groups.kick("app", "a")
    settle(b)
    a.epoch, a.tasks = 0, [(), (), ()]
    settle(a, b)
    assert findings(server) == []


def test_an_older_version_of_an_application_is_found(server: SteeredNode) -> None:
    new = connect(server, "new")
    new.topology = replace(TOPOLOGY, epoch=1)
    settle(new)
    old = connect(server, "old")
    old.beat()
    assert findings(server) == [("stale_topology", "old", "1 heartbeat, of an older topology than the group's")]


def findings(server: SteeredNode) -> list[tuple[str, str, str]]:
    journal = server.operator.requests.journal
    return [(one.rule, one.client, one.evidence) for one in lint(entry for entry, _ in journal.entries(Filter()))]
