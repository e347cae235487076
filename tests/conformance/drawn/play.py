"""What drawn stories have in common: dice, moves, and requests that may wait.

A chapter is a class of `Play`: its `begin` sets the stage, and its `moves` say what may happen next, how often. Each
step has dice of its own, so a story from which steps were taken out is played with the others as they were.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from random import Random
from typing import Any, ClassVar

from kio.index import load_request_schema

from tests.conformance import wire
from tests.conformance.kio_fields import Field, fields_of
from tests.conformance.requests import SET, TOPIC, config_resource
from tests.conformance.stage import Answer, Line, Pending, Stage

PROMPT_MS = 120  # what is not answered by then waits for something
LATE_MS = 40  # for answers that another request has set free
STEPS = 25
Learn = Callable[[Answer], Any]


class Play(ABC):
    """One drawn story while it is played."""

    server: ClassVar[str] = "plain"

    def __init__(self, k: Stage, seed: str) -> None:
        self.k, self.seed = k, seed
        self.dice = Random(seed)
        self.waiting: list[tuple[Pending, Learn]] = []

    @abstractmethod
    def begin(self) -> None:
        """Set the stage."""

    def set_config(self, topic: str, key: str, value: str) -> None:
        """Change a setting of a topic, and wait until it counts."""
        line, resource = self.k.line("stage"), {"resource_type": TOPIC, "resource_name": topic}
        line.quietly("incremental_alter_configs", 1, resources=[config_resource(TOPIC, topic, (key, SET, value))])

        def is_set(answer: Answer) -> bool:
            return bool(answer.results[0].configs[0].value == value)

        line.until(topic, "describe_configs", 4, is_set, resources=[{**resource, "configuration_keys": [key]}])
        self.k.pump.run(self.k.settle_ms)

    @abstractmethod
    def moves(self) -> Mapping[Callable[[], None], int]:
        """Return what may happen next, with weights."""

    def play(self, without: Collection[int] = (), steps: int = STEPS) -> None:
        """Play all steps but those taken out."""
        self.begin()
        for number in range(steps):
            if number not in without:
                self.dice = Random(f"{self.seed} {number}")
                moves = self.moves()
                (move,) = self.dice.choices(list(moves), list(moves.values()))
                move()
                self.take_late_answers()

    def ask(self, line: Line, api: str, versions: Collection[int], learn: Learn = id, **values: Any) -> None:
        """Ask in one of the versions, with the values that it has, and wait for the answer."""
        learn(self._send(line, api, versions, values).answer(is_timed=False))

    def ask_what_may_wait(
        self, line: Line, api: str, versions: Collection[int], learn: Learn = id, **values: Any
    ) -> None:
        """Ask; if no answer comes soon, that is written down, and the answer when it comes."""
        pending = self._send(line, api, versions, values)
        if self.k.pump.run(PROMPT_MS, pending.flight):
            learn(pending.answer(is_timed=False))
        else:
            pending.silent(0)
            self.waiting.append((pending, learn))

    def _send(self, line: Line, api: str, versions: Collection[int], values: Mapping[str, Any]) -> Pending:
        version = self.dice.choice(list(versions))
        mine = MINE.get(api)
        return line.send(api, version, mine=mine, **fitting(load_request_schema(wire.KEYS[api], version), values))

    def take_late_answers(self) -> None:
        """Write down what has come meanwhile, in the order in which it was asked for."""
        if self.waiting:
            self.k.pump.run(LATE_MS)
        for one in list(self.waiting):
            pending, learn = one
            if pending.flight.arrived_at is not None:
                self.waiting.remove(one)
                learn(pending.answer(is_timed=False))
            elif pending.line.wire.is_closed:
                self.waiting.remove(one)

    def free_line(self, name: str) -> Line:
        """Return a connection of that name on which nothing waits: a broker answers one request after the other."""
        line = self.k.line(name)
        return self.free_line(f"{name}'") if any(pending.line is line for pending, _ in self.waiting) else line

    def pause(self, ms: int) -> None:
        """Let time pass."""
        self.k.pause(ms)

    def is_so(self, chance: float) -> bool:
        return self.dice.random() < chance

    def one_of(self, *values: Any) -> Any:
        return self.dice.choice(values)

    def some_of(self, values: Collection[Any], least: int = 0) -> list[Any]:
        """Return some of the values, in any order."""
        return self.dice.sample(list(values), self.dice.randint(least, len(values)))


MINE = {
    "list_config_resources": "config_resources.resource_name",
    "list_groups": "groups.group_id",
    "list_transactions": "transaction_states.transactional_id",
}


def versions_of(api: str, least: int, most: int) -> range:
    """The versions of an API, which the schemas must have."""
    load_request_schema(wire.KEYS[api], least)
    load_request_schema(wire.KEYS[api], most)
    return range(least, most + 1)


def fitting(schema: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of the values, and of the values in them, that the schema has a field for."""
    return {one.plain: _fitting(one, values[one.plain]) for one in fields_of(schema) if one.plain in values}


def _fitting(one: Field, value: Any) -> Any:
    if one.nested is None or value is None:
        return value
    return [fitting(one.nested, item) for item in value] if one.is_array else fitting(one.nested, value)
