"""What resets of nested scopes remove and leave, by a model: on a server of one run alone, and on one that workers share."""

from collections.abc import Callable
from random import Random
from typing import Final

import pytest
from pytest_muster import Fault, Muster

from tests.live import Muster as LiveServer
from tests.live import server_fixture

GIVEN: Final = {"kept": 3, "test": 1}
server = server_fixture("--ephemeral", *(word for one in GIVEN.items() for word in ("--topic", "{}:{}".format(*one))))

NAMES: Final = ("orders", "kept", "kept-too", "test", "testing", "test9-left", "module1-left")
"""Names that a test may want: such as topics of the server's options have, begin like one, or like a scope's."""


class Scopes:
    """A session, a module and a test on a server, and what must be there by the rules of their names."""

    def __init__(self, session: Muster, plain: Muster, dice: Random) -> None:
        self._plain, self._dice = plain, dice  # plain: without any prefix, to look and to do what others do
        self._open = [session]
        self._numbers = 0
        self._prefix = session.prefix
        self.topics = dict(GIVEN)
        self.offsets: dict[str, dict[str, dict[str, int]]] = {}
        self._faults: list[tuple[Muster, Fault]] = []
        self._clock = "real"

    def step(self) -> None:
        """Open or close a scope, or use one that is open, and see what is there."""
        wanted: list[Callable[[], None]] = [self._make] * 6 + [self._fault] * 3 + [self._stop_clock, self._make_beside]
        wanted += [self._close] * 2 if len(self._open) > 1 else []
        wanted += [self._begin] * (0, 12, 3, 0)[len(self._open)]
        self._dice.choice(wanted)()
        state = self._plain.state()
        assert (state["topics"], state["offsets"]) == (self.topics, self.offsets)
        assert {one["number"] for one in self._plain.admin.read_list("/v1/faults", "faults")} == {
            fault.number for _, fault in self._faults
        }
        assert self._plain.admin.call("GET", "/v1/clock")["mode"] == self._clock

    def close(self) -> None:
        while len(self._open) > 1:
            self._close()
        self._reset(self._open[0])
        state = self._plain.state()
        assert (state["topics"], state["offsets"]) == (self.topics, self.offsets)

    def _begin(self) -> None:
        self._numbers += 1
        self._open.append(self._open[-1].narrow(f"{('module', 'test')[len(self._open) - 1]}{self._numbers}-"))
        self._reset(self._open[-1])

    def _close(self) -> None:
        self._reset(self._open.pop())

    def _make(self) -> None:
        """Make a topic or commit for a group, of the scope or of a wider one, by the short name or the whole one."""
        owner = self._dice.choice(self._open)
        user = self._dice.choice(self._open[self._open.index(owner) :])
        name = self._dice.choice(NAMES)
        begin = self._prefix + owner.scope
        is_whole = name in GIVEN or name.startswith(tuple(self._prefix + one.scope for one in self._open))
        whole = name if is_whole else begin + name
        said = whole if user is not owner else self._dice.choice([name, whole])
        if self._dice.random() < 0.6:
            count = GIVEN.get(whole) or self.topics.get(whole) or self._dice.randrange(1, 4)
            assert user.topic(said, count) == whole
            self.topics[whole] = count
        else:
            group = self._dice.choice(["billing", "kept-group"])
            topic, offset = self._dice.choice(sorted(self.topics)), self._dice.randrange(9)
            if topic.startswith((begin, *GIVEN)) and user.name(topic) == topic:
                user.commit(user.group(begin + group), topic, {0: offset})
                self.offsets.setdefault(begin + group, {}).setdefault(topic, {})["0"] = offset

    def _make_beside(self) -> None:
        """Make a topic of another worker, and one that was named without the help of any scope."""
        for name in ("gw1-test1-theirs", "gw01", f"{self._prefix}plain", f"{self._prefix}kept-by-hand"):
            self._plain.topic(name, 1)
            self.topics[name] = 1

    def _fault(self) -> None:
        owner = self._dice.choice([*self._open, self._plain])
        self._faults.append((owner, owner.fault({"error": "NOT_COORDINATOR"}, count=None)))
        if self._dice.random() < 0.3:
            owner, fault = self._faults.pop()
            fault.remove()

    def _stop_clock(self) -> None:
        clock = self._open[-1].clock
        self._clock = self._dice.choice(["frozen", "rate", "real"])
        {"frozen": clock.freeze, "rate": lambda: clock.run(2.0), "real": clock.run}[self._clock]()

    def _reset(self, one: Muster) -> None:
        """Reset a scope, which must leave what has the names of wider scopes, and of other workers."""
        was_set = one.clock.is_set
        wider = tuple(self._prefix + other.scope for other in self._open if other is not one)
        stays = {*GIVEN} | {
            name
            for name in (*self.topics, *self.offsets)
            if name.startswith(wider) or not name.startswith(self._prefix)
        }
        is_all = not self._prefix and not any(name.startswith(wider) for name in (*self.topics, *self.offsets))
        one.reset()
        self.topics = {name: count for name, count in self.topics.items() if name in stays}
        topics = self.topics
        kept = {name: of for name, of in self.offsets.items() if name in stays}
        self.offsets = {
            name: left
            for name, of in kept.items()
            if (left := {topic: offsets for topic, offsets in of.items() if topic in topics})
        }
        self._faults = [(owner, fault) for owner, fault in self._faults if owner is not one and not is_all]
        self._clock = "real" if was_set or not self._prefix else self._clock


@pytest.mark.parametrize("prefix", ["", "gw0-"])
@pytest.mark.parametrize("seed", range(2))
def test_a_reset_removes_what_its_scope_has_named_and_nothing_of_a_wider_one(
    server: LiveServer, prefix: str, seed: int
) -> None:
    plain = Muster(server.kafka, server.ready["admin"])
    plain.reset()
    if not prefix:
        plain.topic("orders")  # of an earlier run, or by hand: the first reset removes it
    session = Muster(server.kafka, server.ready["admin"], prefix, "session0-")
    session.note_given_topics()
    session.narrow("test0-").reset()
    scopes = Scopes(session, plain, Random(seed))
    for _ in range(6):
        for _ in range(10):
            scopes.step()
        scopes.close()
