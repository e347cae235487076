"""Scenarios: steps that come one after the other, each a fault or a verb that waits for its moment.

    {"name": "commit lost, then fenced", "steps": [
        {"on": {"api": "OffsetCommit", "group": "shop", "nth": 2}, "do": {"apply": true, "drop": "response"}},
        {"after": {"group": "shop", "state": "Stable"}, "verb": {"expire": "till-1"}},
        {"on": {"api": "Heartbeat", "client": "till-1"}, "do": {"error": "FENCED_INSTANCE_ID"}}]}

A step with `on` and `do` is a fault: it is in force until it has met a request. A step with `verb` is done as soon as
`after` holds. Only one step is awaited at a time, so the order is the order of the file.
"""

from itertools import chain
from typing import Final

from msgspec import Struct

from coordinator.control.faults import STEPS, Action, FaultSpec, Match, check
from coordinator.control.names import Name, SpecError, check_state

STEPS_MAX: Final = 1_000


class After(Struct, frozen=True, forbid_unknown_fields=True):
    """Conditions that must hold before a verb is done. An empty field always holds."""

    group: Name
    state: str = ""
    members: int | None = None
    generation: int | None = None  # at least this one


class Verb(Struct, frozen=True, forbid_unknown_fields=True):
    """One verb on the group of `after`: of a member that is named, or of the group."""

    expire: str = ""
    kick: str = ""
    fence: str = ""
    rebalance: bool = False
    forget: bool = False
    hold: str = ""  # a step of the protocol: join, sync, assignment, commit, heartbeat
    release: bool = False


class ScenarioStep(Struct, frozen=True, forbid_unknown_fields=True):
    """A fault (`on`, `do`) or a verb (`after`, `verb`)."""

    on: Match | None = None
    do: Action | None = None
    after: After | None = None
    verb: Verb | None = None

    @property
    def fault(self) -> FaultSpec | None:
        """The fault that the step is, None if it is a verb."""
        return None if self.do is None else FaultSpec(self.do, self.on or Match())


class ScenarioSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """A scenario as it is asked for."""

    steps: list[ScenarioStep]
    name: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The groups and topics that its steps name."""
        places = ((step.after.group,) if step.after else (step.on or Match()).names for step in self.steps)
        return tuple(chain.from_iterable(places))


class Scenario(Struct):
    """A scenario under way."""

    number: int
    spec: ScenarioSpec
    reached: int = 0  # steps that are done
    fault: int | None = None  # the number of the fault in force, if the step at hand is one
    error: str = ""  # why the step at hand cannot be done

    @property
    def step(self) -> ScenarioStep | None:
        """The step at hand, None when all are done."""
        return self.spec.steps[self.reached] if self.reached < len(self.spec.steps) else None


def check_scenario(spec: ScenarioSpec) -> None:
    """Raise SpecError for a scenario with a step that could never be done."""
    if not 0 < len(spec.steps) <= STEPS_MAX:
        raise SpecError(f"invalid steps: expected 1 to {STEPS_MAX} of them")
    for number, step in enumerate(spec.steps, 1):
        is_fault, is_verb = step.do is not None, step.verb is not None
        if is_fault == is_verb or (is_fault and step.after is not None) or (is_verb and step.on is not None):
            raise SpecError(f"invalid step {number}: expected either on and do, or after and verb")
        if step.verb is not None:
            wanted = [name for name in step.verb.__struct_fields__ if getattr(step.verb, name)]
            if len(wanted) != 1 or step.after is None:
                raise SpecError(f"invalid step {number}: expected after with a group, and one verb")
        try:
            _check_names(step)
        except SpecError as error:
            raise SpecError(f"step {number}: {error}") from None


def _check_names(step: ScenarioStep) -> None:
    if step.fault is not None:
        check(step.fault)
        if step.fault.do.hold:  # the step would be over, and the fault with it, as soon as a request is held
            raise SpecError("invalid do.hold: expected a step with the verb hold, and one with release")
    if step.after is not None:
        check_state("after.state", step.after.state)
    if step.verb is not None and step.verb.hold and step.verb.hold not in STEPS:
        raise SpecError(f"invalid verb.hold {step.verb.hold!r}: expected one of {', '.join(STEPS)}")
