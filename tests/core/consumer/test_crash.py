"""The server dies in every step of a group's life, in each way it can, and the group goes on as if nothing had been.

A request leads to one append. So a crash comes before it, and the request has never been; or after it and before the
answer, and the member asks again; or after the answer. Whatever the log then holds, compacted or not, is all there is.
"""

from typing import Any

import pytest

from coordinator.core.consumer import reconcile
from coordinator.core.topics import Topic
from tests.core.consumer.crowd import Classic, Consumer, Crowd
from tests.core.driver import ShardDriver

ROUNDS_MAX = 24  # of five seconds
SESSION_BEATS = 10
HOW = ("before the append", "before the answer", "after the answer")


class Fragile(Crowd):
    """A crowd whose server dies at one of its requests."""

    def __init__(self, dies_at: int, how: str, *, compacted: bool) -> None:
        super().__init__(group_consumer_assignment_interval_ms=0)
        self.requests = 0
        self._dies_at, self._how, self._compacted = dies_at, how, compacted

    def ask(self, request: Any, version: int, client_id: str, waiter: Classic | None = None) -> Any:
        self.requests += 1
        if self.requests != self._dies_at:
            return super().ask(request, version, client_id, waiter)
        if self._how == "after the answer":
            response = super().ask(request, version, client_id, waiter)
            self.restart(compacted=self._compacted)
            return response
        if waiter is not None:
            self.waiting[-1] = waiter
        result = self.shard.handle(request, self.call(version, client_id))
        if self._how == "before the answer":
            ShardDriver.take(self, result)  # into the log, and to nobody
        if self._compacted:
            self.compact()
        self.replay()
        self.serve_again()
        return None


def beat(crowd: Crowd, *, promptly: bool = True) -> None:
    for client in tuple(crowd.clients.values()):
        client.step(promptly=promptly)


def life(crowd: Crowd) -> None:
    """All that moves partitions: members of both protocols come, take their time, change, go; a topic grows."""
    a, b = Consumer(crowd, ("t", "u")), Consumer(crowd, ("t", "u"))
    crowd.add(a)
    crowd.add(b)
    beat(crowd, promptly=False)  # told to give up, and not done yet
    beat(crowd)
    static = Consumer(crowd, ("t",), "i")
    crowd.add(static)
    beat(crowd)
    crowd.set_topics(crowd.topics.with_topic(Topic("t", crowd.topics.id_of("t"), 6)))
    beat(crowd)
    a.names, a.says_all = ("u",), True
    beat(crowd, promptly=False)
    classic = Classic(crowd, ("t", "u"))
    crowd.add(classic)  # the group serves both protocols from here on
    beat(crowd)
    beat(crowd)
    static.away()
    crowd.drop(static.name)
    crowd.add(Consumer(crowd, ("t",), "i"))
    beat(crowd)
    b.leave()
    crowd.drop(b.name)
    for _ in range(SESSION_BEATS):  # if its leaving was lost, its session has ended by now
        crowd.wait(5_000)
        beat(crowd)
    crowd.settle(ROUNDS_MAX)


def shared(crowd: Crowd) -> set[tuple[str, int]]:
    return {partition for client in crowd.clients.values() for partition in client.owned}


def requests_of_a_life() -> int:
    crowd = Fragile(0, "", compacted=False)
    life(crowd)
    return crowd.requests


STEPS = requests_of_a_life()
ALL = {("t", partition) for partition in range(6)} | {("u", partition) for partition in range(3)}


def test_the_life_has_many_steps_and_ends_with_everything_shared() -> None:
    crowd = Fragile(0, "", compacted=False)
    life(crowd)
    assert STEPS > 30
    assert shared(crowd) == ALL


@pytest.mark.parametrize(
    ("name", "always"),
    [("is_free", True), ("owns_any", False)],
    ids=["takes what is not free", "waits for no revocation"],
)
def test_the_check_can_fail(name: str, monkeypatch: pytest.MonkeyPatch, *, always: bool) -> None:
    """Without the look at who holds a partition, or at what a member still owns, two members own one."""
    monkeypatch.setattr(reconcile, name, lambda *_: always)
    with pytest.raises(Exception, match=r"is owned by|two owners|is held at epoch"):
        life(Fragile(0, "", compacted=False))


@pytest.mark.rule("K-143 K-180 K-365 K-398")
@pytest.mark.parametrize("compacted", [False, True], ids=["whole log", "compacted log"])
@pytest.mark.parametrize("how", HOW)
def test_a_crash_in_any_step_costs_nothing(how: str, *, compacted: bool) -> None:
    """At every step no partition has two owners and no epoch goes back; then all is shared."""
    for step in range(1, STEPS + 1):
        crowd = Fragile(step, how, compacted=compacted)
        life(crowd)
        assert shared(crowd) == ALL, f"after a crash {how} of request {step}"
