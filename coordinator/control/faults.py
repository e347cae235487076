"""Faults on demand: which request a rule meets, and what is done to it. Pure; the frontend carries it out.

    {"on": {"api": "OffsetCommit", "group": "g1", "nth": 2}, "do": {"apply": true, "drop": "response"}}

A rule meets a request when every field of `on` agrees. Of several rules, the oldest one that is not used up decides.
`nth` and `after` count the requests that agree, also those that another rule decides. `count` is how many requests a
rule meets at most. With a `probability`, dice decide, with a seed of each rule's own so that a run can be repeated.
"""

import random
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct, field

from coordinator.control.names import SpecError, check_api, check_error
from coordinator.control.subject import Subject
from protocol.apis import names_with
from protocol.traits import Trait

STEPS: dict[str, frozenset[str]] = {  # the steps of a group's protocol at which it can be held, with their APIs
    "join": frozenset({"JoinGroup"}),
    "sync": frozenset({"SyncGroup"}),
    "assignment": names_with(Trait.HEARTBEAT) - {"Heartbeat"} | {"SyncGroup"},
    "commit": frozenset({"OffsetCommit", "TxnOffsetCommit"}),
    "heartbeat": names_with(Trait.HEARTBEAT),
    "acquire": frozenset({"ShareFetch"}),
    "acknowledge": frozenset({"ShareAcknowledge"}),
}


NUMBER_MAX = 2**31 - 1  # as for throttle_time_ms of a response


class Match(Struct, frozen=True, forbid_unknown_fields=True):
    """The requests that a rule is about. An empty field agrees with every request."""

    api: str = ""  # Kafka's name of the API
    group: str = ""
    topic: str = ""
    client: str = ""  # a client id, a member id or a group instance id
    generation: int | None = None  # or the member epoch
    nth: int = 0  # only the n-th request that agrees; 1 is the first
    after: int = 0  # only requests after so many that agree

    @property
    def names(self) -> tuple[str, ...]:
        """The group and the topic that it names."""
        return tuple(filter(None, (self.group, self.topic)))

    def agrees(self, subject: Subject) -> bool:
        """Return whether a request is one of those that the rule is about, whatever its number."""
        return (
            self.api in ("", subject.api)
            and (not self.group or self.group in subject.groups)
            and (not self.topic or self.topic in subject.topics)
            and (not self.client or self.client in (subject.client_id, *subject.members, *subject.instances))
            and self.generation in (None, subject.generation)
        )


class Action(Struct, frozen=True, forbid_unknown_fields=True):
    """The effects on a request that a rule meets."""

    error: str = ""  # Kafka's name of the code to answer
    apply: bool | None = None  # whether the request is carried out; by default, unless it is answered with an error
    delay_ms: int = 0  # of the response, in real time
    drop: Literal["", "request", "response"] = ""
    disconnect: Literal["", "before", "after"] = ""  # before or after the request is carried out
    throttle_ms: int = 0  # tell the client to wait: throttle_time_ms of the response
    truncate: int | None = None  # send so many bytes of the response, then close the connection
    hold: bool = False  # park the request, undecided, until the rule is removed

    @property
    def is_applied(self) -> bool:
        """Whether the request is carried out."""
        if self.drop == "request" or self.disconnect == "before":
            return False
        return not self.error if self.apply is None else self.apply

    @property
    def closes_behind(self) -> bool:
        """Whether the connection is closed behind the response."""
        return self.disconnect == "after" or self.truncate is not None


class FaultSpec(Struct, frozen=True, forbid_unknown_fields=True):
    """A rule as a test states it."""

    do: Action
    on: Match = field(default_factory=Match)
    count: int | None = 1  # how many requests it meets; null for any number
    probability: float = 1.0
    seed: int = 0


class Rule(Struct):
    """A rule in force, with its counts."""

    number: int
    spec: FaultSpec
    dice: random.Random
    seen: int = 0  # requests that agreed
    hits: int = 0  # requests that it met

    @property
    def is_used_up(self) -> bool:
        if self.spec.on.nth and self.seen >= self.spec.on.nth:
            return True
        return self.spec.count is not None and self.hits >= self.spec.count

    def note_request(self, subject: Subject) -> bool:
        """Count a request that agrees. Return whether the rule may meet it, by `nth` and `after`."""
        on = self.spec.on
        if self.is_used_up or not on.agrees(subject):
            return False
        self.seen += 1
        return self.seen > on.after and on.nth in (0, self.seen)

    def try_to_hit(self) -> bool:
        """Let the dice decide whether the rule meets the request that was counted last."""
        if self.spec.probability < 1 and self.dice.random() >= self.spec.probability:
            return False
        self.hits += 1
        return True


class FaultPlan:
    """The rules in force, oldest first."""

    def __init__(self) -> None:
        self._rules: dict[int, Rule] = {}
        self._numbers = 0

    def __bool__(self) -> bool:
        """Return whether there is any rule. Without one, the gate skips the plan."""
        return bool(self._rules)

    def __iter__(self) -> Iterator[Rule]:
        return iter(self._rules.values())

    def add(self, spec: FaultSpec) -> Rule:
        """Put a rule into force. Raises SpecError."""
        check(spec)
        self._numbers += 1
        rule = Rule(self._numbers, spec, random.Random(spec.seed))
        self._rules[rule.number] = rule
        return rule

    def get(self, number: int) -> Rule | None:
        """Return a rule by its number."""
        return self._rules.get(number)

    def remove(self, number: int) -> Rule | None:
        """End a rule. Returns it, None if there is none of that number."""
        return self._rules.pop(number, None)

    def clear(self) -> None:
        """End every rule."""
        self._rules.clear()

    def find(self, subject: Subject) -> Rule | None:
        """Return the rule that meets a request, None if none does. Every rule counts the request, if it agrees."""
        candidates = [rule for rule in self._rules.values() if rule.note_request(subject)]
        return next((rule for rule in candidates if rule.try_to_hit()), None)


def check(spec: FaultSpec) -> None:
    """Raise SpecError for a rule that can never apply."""
    on, do = spec.on, spec.do
    check_api("on.api", on.api)
    check_error("do.error", do.error)
    if do == Action():
        raise SpecError("invalid do: expected one of error, delay_ms, drop, disconnect, throttle_ms, truncate, hold")
    for name, value in (("on.nth", on.nth), ("on.after", on.after), ("do.delay_ms", do.delay_ms),
                        ("do.throttle_ms", do.throttle_ms), ("do.truncate", do.truncate or 0)):  # fmt: skip
        if not 0 <= value <= NUMBER_MAX:
            raise SpecError(f"invalid {name} {value}: expected 0 to {NUMBER_MAX}")
    if 0 < on.nth <= on.after:
        raise SpecError(f"invalid on.nth {on.nth}: expected more than on.after ({on.after}): both count all that agree")
    if not 0 < spec.probability <= 1:
        raise SpecError(f"invalid probability {spec.probability}: expected more than 0, and at most 1")
    if spec.count is not None and spec.count < 1:
        raise SpecError(f"invalid count {spec.count}: expected 1 or more, or null for any number")
    ends = [name for name in ("drop", "disconnect", "truncate", "hold") if getattr(do, name) != getattr(Action(), name)]
    if len(ends) > 1:
        raise SpecError(f"invalid do: expected at most one of {', '.join(ends)}")
