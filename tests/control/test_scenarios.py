"""Scenarios: faults and verbs one after the other, each when its moment has come."""

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from itertools import product

import pytest

from coordinator.control.faults import Action, Match
from coordinator.control.names import SpecError
from coordinator.control.scenarios import After, ScenarioSpec, ScenarioStep, Verb, check_scenario
from coordinator.core.events import Cause
from coordinator.server.connection import Connection
from coordinator.server.poller import T
from coordinator.server.verbs.clock import keep_nobody
from protocol.apis import names_with
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.traits import Trait
from tests.control.steered import SteeredNode, stable_group
from tests.members import ClassicMember
from tests.requests import commit, create_topics

ERROR = ScenarioStep(on=Match(api="Heartbeat", client="a"), do=Action(error="NOT_COORDINATOR"))


def test_each_step_waits_for_the_one_before_it() -> None:
    server = SteeredNode(offsets_topic_num_partitions=1)
    second = ScenarioStep(on=Match(api="Heartbeat", client="a", nth=2), do=Action(error="COORDINATOR_NOT_AVAILABLE"))
    expire = ScenarioStep(after=After("g", state="Stable"), verb=Verb(expire="a"))
    scenario = server.operator.scenarios.add(ScenarioSpec([ERROR, second, expire]))
    (a,) = stable_group(server, "a")
    answers = []
    for _ in range(4):
        answers.append(a.beat())
        server.operator.wake()
    assert answers == [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NONE,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert (scenario.reached, scenario.step, list(server.operator.requests.faults)) == (3, None, [])


def test_a_verb_waits_for_its_group() -> None:
    server = SteeredNode(offsets_topic_num_partitions=1)
    hold = ScenarioStep(after=After("g", members=2, generation=1), verb=Verb(hold="heartbeat"))
    scenario = server.operator.scenarios.add(ScenarioSpec([hold]))
    assert scenario.reached == 0
    stable_group(server, "a", "b")
    server.operator.wake()
    assert scenario.reached == 1
    assert {rule.spec.on.api for rule in server.operator.requests.faults} == names_with(Trait.HEARTBEAT)


@pytest.mark.parametrize("members", [None, 0, 1, 2, 3])
@pytest.mark.parametrize("state", ["", "Stable", "Empty"])
@pytest.mark.parametrize("generation", [None, 0, 1, 2])
def test_a_verb_waits_until_each_of_its_conditions_holds(
    members: int | None, state: str, generation: int | None, pair: SteeredNode
) -> None:
    holds = members in (None, 2) and state != "Empty" and generation != 2
    after = After("g", state=state, members=members, generation=generation)
    steps = [
        ScenarioStep(after=after, verb=Verb(hold="commit")),
        ScenarioStep(after=After("h"), verb=Verb(forget=True)),
    ]
    scenario = pair.operator.scenarios.add(ScenarioSpec(steps))
    held = {rule.spec.on.api for rule in pair.operator.requests.release("g")}
    pair.operator.scenarios.remove(scenario.number)
    assert (scenario.reached, held) == ((1, {"OffsetCommit", "TxnOffsetCommit"}) if holds else (0, set()))


@pytest.fixture(scope="module")
def pair() -> SteeredNode:
    server = SteeredNode(offsets_topic_num_partitions=1)
    stable_group(server, "a", "b")
    return server


@pytest.mark.parametrize(
    ("verb", "cause", "code"),
    [
        (Verb(expire="b"), "session_expired", ErrorCode.UNKNOWN_MEMBER_ID),
        (Verb(kick="b"), "member_kicked", ErrorCode.UNKNOWN_MEMBER_ID),
        (Verb(fence="b"), "member_fenced", ErrorCode.UNKNOWN_MEMBER_ID),
        (Verb(rebalance=True), "rebalance_requested", ErrorCode.REBALANCE_IN_PROGRESS),
        (Verb(forget=True), "group_forgotten", ErrorCode.UNKNOWN_MEMBER_ID),
        (Verb(release=True), "leader_synced", ErrorCode.NONE),
    ],
)
def test_each_verb_is_done_to_its_group(verb: Verb, cause: str, code: ErrorCode) -> None:
    """And to its member, and to no other group."""
    server = SteeredNode(offsets_topic_num_partitions=1)
    (other,) = stable_group(server, "b", group="h")
    _, b = stable_group(server, "a", "b")
    for group in "gh":
        server.operator.requests.hold(group, "commit")
    scenario = server.operator.scenarios.add(ScenarioSpec([ScenarioStep(after=After("g"), verb=verb)]))
    assert (scenario.reached, server.events[-1].group) == (1, "g")
    assert cause in server.causes()[-2:]
    assert (b.beat(), other.beat()) == (code, ErrorCode.NONE)
    held = {rule.spec.on.group for rule in server.operator.requests.faults if rule.spec.do.hold}
    assert held == ({"h"} if verb.release else {"g", "h"})


def test_a_generation_that_was_passed_by_between_two_looks_has_come() -> None:
    server = SteeredNode(offsets_topic_num_partitions=1)
    hold = ScenarioStep(after=After("g", generation=2), verb=Verb(hold="heartbeat"))
    scenario = server.operator.scenarios.add(ScenarioSpec([hold]))
    (a,) = stable_group(server, "a")
    server.operator.wake()
    assert scenario.reached == 0, "the first generation is not the second"
    for _ in range(2):
        a.join()
        a.sync()
    view = server.operator.groups.find("g")
    assert view is not None and (view.generation or 0) > 2
    server.operator.wake()
    assert scenario.reached == 1


def test_a_verb_that_cannot_be_done_says_why_and_is_tried_again() -> None:
    server = SteeredNode(offsets_topic_num_partitions=1)
    stable_group(server, "a")
    kick = ScenarioStep(after=After("g"), verb=Verb(kick="late"))
    scenario = server.operator.scenarios.add(ScenarioSpec([kick]))
    assert "there is no member 'late' in group 'g'" in scenario.error
    late = ClassicMember(server.connect("late"))
    late.join()
    server.operator.wake()
    assert (scenario.reached, scenario.error) == (1, "")


def test_a_verb_in_whose_turns_the_server_looks_at_scenarios_is_done_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As each turn does in the end."""
    server = SteeredNode(offsets_topic_num_partitions=1)
    stable_group(server, "a")
    turn = server.turn

    def turn_and_look() -> Iterable[Connection]:
        touched = turn()
        server.operator.wake()
        return touched

    monkeypatch.setattr(server, "turn", turn_and_look)
    rebalance = ScenarioStep(after=After("g"), verb=Verb(rebalance=True))
    scenario = server.operator.scenarios.add(ScenarioSpec([rebalance]))
    assert (scenario.reached, scenario.error) == (1, "")
    assert [event.cause for event in server.events].count(Cause.REBALANCE_REQUESTED) == 1


def test_a_scenario_that_is_removed_takes_its_fault_along() -> None:
    server = SteeredNode(offsets_topic_num_partitions=1)
    scenario = server.operator.scenarios.add(ScenarioSpec([ERROR]))
    assert len(list(server.operator.requests.faults)) == 1
    server.operator.scenarios.remove(scenario.number)
    assert list(server.operator.requests.faults) == []


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        (ScenarioStep(), "invalid step 1: expected either on and do, or after and verb"),
        (ScenarioStep(do=Action()), "step 1: invalid do: expected one of"),
        (ScenarioStep(do=Action(hold=True)), "step 1: invalid do.hold: expected a step with the verb hold"),
        (ScenarioStep(do=Action(hold=True), verb=Verb(rebalance=True)), "invalid step 1: expected either"),
        (ScenarioStep(verb=Verb(rebalance=True)), "invalid step 1: expected after with a group, and one verb"),
        (ScenarioStep(after=After("g"), verb=Verb(expire="a", kick="b")), "invalid step 1: expected after"),
        (ScenarioStep(after=After("g"), verb=Verb(hold="lunch")), "step 1: invalid verb.hold 'lunch': expected one of"),
        (
            ScenarioStep(after=After("g", state="Stabel"), verb=Verb(rebalance=True)),
            "step 1: invalid after.state 'Stabel': expected one of Empty, ",
        ),
    ],
)
def test_a_step_that_could_never_be_done_is_refused(step: ScenarioStep, sentence: str) -> None:
    with pytest.raises(SpecError, match=sentence):
        check_scenario(ScenarioSpec([step]))


@pytest.mark.parametrize("has", list(product([False, True], repeat=4)))
def test_a_step_is_a_fault_or_a_verb_with_its_own_condition_and_nothing_else(has: tuple[bool, ...]) -> None:
    on, do, after, verb = has
    step = ScenarioStep(
        on=Match(api="Heartbeat") if on else None,
        do=Action(drop="request") if do else None,
        after=After("g") if after else None,
        verb=Verb(rebalance=True) if verb else None,
    )
    is_fault, is_verb = do and not after and not verb, verb and after and not on and not do
    with nullcontext() if is_fault or is_verb else pytest.raises(SpecError, match=r"^invalid step 1: expected "):
        check_scenario(ScenarioSpec([step]))


def play_after_verbs(server: SteeredNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let scenarios go on at the end of a verb's turn, as in a server."""
    perform = server.poller.perform

    def perform_and_wake(action: Callable[[int], T]) -> T:
        result = perform(action)
        server.operator.wake()
        return result

    monkeypatch.setattr(server.poller, "perform", perform_and_wake)


@pytest.mark.parametrize("is_reset", [False, True])
def test_faults_end_together_with_those_of_scenarios(is_reset: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that one of them has held meets the scenario's, whose time is over before it is removed."""
    server = SteeredNode(offsets_topic_num_partitions=1)
    (a,) = stable_group(server, "a")
    play_after_verbs(server, monkeypatch)
    requests = server.operator.requests
    requests.hold("g", "heartbeat")
    scenario = server.operator.scenarios.add(ScenarioSpec([ERROR]))
    a.peer.send((HeartbeatRequest("g", a.generation, a.member_id), 4))
    server.turn()
    if is_reset:
        server.operator.state.reset()
    else:
        requests.remove_faults()
        assert a.peer.answers[-1][1].error_code == ErrorCode.NOT_COORDINATOR and scenario.step is None
    assert not list(requests.faults)


@pytest.mark.parametrize("is_moving", [False, True])
def test_a_large_group_is_forgotten_though_the_clock_is_on_its_way(
    is_moving: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turns of a move are the operator's, and in them a scenario goes on; its group is removed in steps."""
    server = SteeredNode(offsets_topic_num_partitions=1)
    (a,) = stable_group(server, "a")
    if is_moving:
        play_after_verbs(server, monkeypatch)
    offsets = {"t": dict.fromkeys(range(1_100), 1)}
    server.connect("tool").ask(create_topics({"t": 1_100}), 7)
    a.peer.ask(commit("g", offsets, a.generation, member_id=a.member_id), 8)
    forget = ScenarioStep(after=After("g", state="Empty"), verb=Verb(forget=True))
    scenario = server.operator.scenarios.add(ScenarioSpec([forget]))
    server.frontend.turn.seconds = 0.0  # no turn does more than one step
    server.operator.clock.advance(60_000, keep_nobody)
    server.operator.wake()
    assert (scenario.reached, scenario.error) == (1, "")
    assert server.operator.groups.find("g") is None
