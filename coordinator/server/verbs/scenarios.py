"""Scenarios under way: each step is done as soon as its moment has come."""

from collections.abc import Callable

from coordinator.control.faults import STEPS
from coordinator.control.scenarios import After, Scenario, ScenarioSpec, check_scenario
from coordinator.control.scenarios import Verb as ScenarioVerb
from coordinator.server.verbs.groups import GroupVerbs
from coordinator.server.verbs.refusal import Refusal
from coordinator.server.verbs.requests import RequestVerbs


class ScenarioVerbs:
    """The verbs for scenarios, and the steps that they lead to."""

    def __init__(self, groups: GroupVerbs, requests: RequestVerbs) -> None:
        self._groups = groups
        self._requests = requests
        self._scenarios: dict[int, Scenario] = {}
        self._numbers = 0
        self._is_playing = False

    def add(self, spec: ScenarioSpec) -> Scenario:
        """Begin a scenario. Raises SpecError."""
        check_scenario(spec)
        self._numbers += 1
        scenario = self._scenarios[self._numbers] = Scenario(self._numbers, spec)
        self.play()
        return scenario

    def get(self, number: int) -> Scenario:
        """Return a scenario, done or under way. Raises Refusal."""
        if number not in self._scenarios:
            raise Refusal(f"there is no scenario {number}", is_conflict=True)
        return self._scenarios[number]

    def remove(self, number: int) -> Scenario:
        """End a scenario, with the fault that it has in force."""
        scenario = self.get(number)
        del self._scenarios[number]
        if scenario.fault is not None and self._requests.faults.get(scenario.fault) is not None:
            self._requests.remove_fault(scenario.fault)
        return scenario

    def remove_of(self, is_meant: Callable[[str], bool]) -> None:
        """End the scenarios that name a group or a topic of these names."""
        for scenario in list(self._scenarios.values()):
            if any(map(is_meant, scenario.spec.names)):
                self.remove(scenario.number)

    def clear(self) -> None:
        """Forget every scenario. Their faults stay."""
        self._scenarios.clear()

    def play(self) -> None:
        """Do the steps that are due. A verb may run turns of the poll loop, and those do not call this again."""
        if self._is_playing or not self._scenarios:
            return
        self._is_playing = True
        try:
            for scenario in list(self._scenarios.values()):
                while self._play_step(scenario):
                    scenario.reached += 1
                    scenario.error = ""
        finally:
            self._is_playing = False

    def _play_step(self, scenario: Scenario) -> bool:
        """Do the step at hand, if its moment has come. Returns whether it is done."""
        step = scenario.step
        if step is None:
            return False
        if step.fault is not None:
            if scenario.fault is None:
                scenario.fault = self._requests.add_fault(step.fault).number
            rule = self._requests.faults.get(scenario.fault)
            if rule is not None and not rule.is_used_up:
                return False
            if rule is not None:
                self._requests.remove_fault(rule.number)
            scenario.fault = None
            return True
        assert step.after is not None, "a verb comes after something"
        assert step.verb is not None, "a step that is no fault is a verb"
        if not self._holds(step.after):
            return False
        try:
            self._do_verb(step.after.group, step.verb)
        except Refusal as refusal:
            scenario.error = str(refusal)
            return False
        return True

    def _holds(self, after: After) -> bool:
        view = self._groups.find(after.group)
        return (
            view is not None
            and after.state in ("", view.state)
            and after.members in (None, len(view.members))
            and (after.generation is None or view.generation >= after.generation)
        )

    def _do_verb(self, group_id: str, verb: ScenarioVerb) -> None:
        if name := verb.expire:
            self._groups.expire(group_id, name)
        elif name := verb.kick:
            self._groups.kick(group_id, name)
        elif name := verb.fence:
            self._groups.fence(group_id, name)
        elif verb.rebalance:
            self._groups.rebalance(group_id)
        elif verb.forget:
            self._groups.forget(group_id)
        elif verb.hold in STEPS:
            self._requests.hold(group_id, verb.hold)
        elif verb.release:
            self._requests.release(group_id)
        else:
            raise Refusal(f"invalid hold {verb.hold!r}: expected one of {', '.join(STEPS)}")
