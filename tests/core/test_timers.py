"""Deadlines by key, against a dict that is searched."""

from functools import partial

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from coordinator.core import timers as timers_module
from coordinator.core.timers import EXPIRY, IMMEDIATELY, TimerKey, Timers, join, lock, member_of, rebalance, session

pytestmark = pytest.mark.rule("C-350 C-357")
KEYS = [session(group, str(number)) for group in "gh" for number in range(4)]


class TimersMachine(RuleBasedStateMachine):
    """Setting a timer again replaces its deadline; what is cancelled does not fire."""

    def __init__(self) -> None:
        super().__init__()
        self.timers = Timers(self.note_wake)
        self.wake_ms: int | None = None  # when their owner looks at them
        self.model: dict[TimerKey, int] = {}
        self.now = 0

    def note_wake(self, at_ms: int) -> None:
        if self.wake_ms is None or at_ms < self.wake_ms:
            self.wake_ms = at_ms

    @rule(key=st.sampled_from(KEYS), delay=st.integers(-5, 20))
    def set_one(self, key: TimerKey, delay: int) -> None:
        self.timers.set(key, self.now + delay)
        self.model[key] = self.now + delay

    @rule(key=st.sampled_from(KEYS), delay=st.integers(-5, 20))
    def postpone(self, key: TimerKey, delay: int) -> None:
        timer, at_ms = self.timers.find(key), self.now + delay
        before = self.model.get(key, IMMEDIATELY)
        assert (timer is not None and timer.postpone(at_ms)) == (IMMEDIATELY < before <= at_ms)
        if IMMEDIATELY < before <= at_ms:
            self.model[key] = at_ms

    @rule(key=st.sampled_from(KEYS))
    def set_work(self, key: TimerKey) -> None:
        self.timers.set(key, IMMEDIATELY)
        self.model[key] = IMMEDIATELY

    @rule(key=st.sampled_from(KEYS))
    def cancel(self, key: TimerKey) -> None:
        self.timers.cancel(key)
        self.model.pop(key, None)

    @rule(group=st.sampled_from("gh"))
    def cancel_group(self, group: str) -> None:
        self.timers.cancel_group(group)
        self.model = {key: at for key, at in self.model.items() if key[1] != group}

    @rule(delay=st.integers(0, 10))
    def advance(self, delay: int) -> None:
        self.now += delay
        fired = []
        for _ in range(100):  # calls, after which all that is cancelled is settled
            fired += self.timers.fire(self.now)
        assert [at for _, at in fired] == sorted(at for at in self.model.values() if at <= self.now)
        assert dict(fired) == {key: at for key, at in self.model.items() if at <= self.now}
        self.model = {key: at for key, at in self.model.items() if at > self.now}
        self.wake_ms = self.timers.next_deadline_ms()

    @invariant()
    def agrees(self) -> None:
        earliest = min(self.model.values(), default=None)
        assert earliest is None or self.timers.next_deadline_ms() <= earliest
        assert self.timers.next_time_ms() == min([at for at in self.model.values() if at != IMMEDIATELY], default=None)
        assert earliest != IMMEDIATELY or self.timers.next_deadline_ms() == IMMEDIATELY
        assert len(self.timers.of_group("g")) == sum(key[1] == "g" for key in self.model)
        assert dict(self.timers.items()) == self.model
        assert len(self.timers) == len(self.model)
        assert {key: self.timers.deadline(key) for key in KEYS if key in self.timers} == self.model
        if self.model:
            assert self.wake_ms is not None and self.wake_ms <= min(self.model.values()), "nothing is due unnoticed"


class HastyMachine(TimersMachine):
    """The same where a call looks at few entries of the heap, and there are soon too many dead ones."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        for name, value in (("SETTLED_AT_ONCE", 1), ("LOOKED_AT", 1), ("DEAD_MAX", 1)):
            self.patch.setattr(timers_module, name, value)

    def teardown(self) -> None:
        self.patch.undo()


TestTimers = TimersMachine.TestCase
TestTimers.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestHastyTimers = HastyMachine.TestCase
TestHastyTimers.settings = settings(max_examples=30, stateful_step_count=40, deadline=None)


@pytest.mark.parametrize("end", ["cancel_group", "one by one", "one by one, the latest first"])
def test_to_cancel_very_many_is_no_work_of_one_call(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is left of 200,000 ids that a group had given out took half a second of one turn."""
    timers, keys = Timers(), [session("g", str(number)) for number in range(5_000)]
    for key in keys:
        timers.set(key, 5)
    timers.set(session("h", "m"), 7)
    pops: list[int] = []
    pop = timers_module.heappop
    monkeypatch.setattr(timers_module, "heappop", lambda heap: (pops.append(1), pop(heap))[1])
    calls = [partial(timers.cancel_group, "g")]
    if end != "cancel_group":
        calls = [partial(timers.cancel, key) for key in (keys if end == "one by one" else reversed(keys))]
    calls += 2_000 * [timers.next_deadline_ms, partial(timers.pop_due, 6), partial(timers.cancel, EXPIRY)]
    for call in calls:
        pops.clear()
        before = len(timers._heap) + len(timers._old)
        call()
        assert before - len(timers._heap) - len(timers._old) <= timers_module.SETTLED_AT_ONCE
        assert len(pops) <= timers_module.SETTLED_AT_ONCE
    assert timers.next_deadline_ms() == 7
    assert len(timers._heap) + len(timers._old) == 1


def test_a_timer_that_always_moves_on_costs_no_memory() -> None:
    timers = Timers()
    for now in range(10_000):
        timers.set(KEYS[0], now + 10_000)
    assert len(timers._heap) == 1


def test_cancelled_timers_are_forgotten() -> None:
    timers = Timers()
    for number in range(10_000):
        timers.set(session("g", str(number)), 300_000)
        timers.cancel(session("g", str(number)))
    assert len(timers) == 0
    assert len(timers._heap) + len(timers._old) < 200


def test_of_one_moment_the_first_set_fires_first() -> None:
    timers = Timers()
    for key in reversed(KEYS):
        timers.set(key, 5)
    assert [timers.pop_due(5) for _ in KEYS] == [(key, 5) for key in reversed(KEYS)]


def test_a_timer_fires_once_a_turn() -> None:
    """A timeout that is no time keeps nobody in the loop, and others that it sets fire in the same turn."""
    timers = Timers()
    timers.set(KEYS[0], 5)
    fired = []
    for due in timers.fire(5):
        fired.append(due.key)
        timers.set(KEYS[0], 5 if len(fired) == 1 else -100)
        timers.set(KEYS[1], 0) if len(fired) == 1 else None
    assert fired == [KEYS[0], KEYS[1]]
    assert timers.next_deadline_ms() == 6, "in the next turn"
    timers.set(KEYS[0], 3)
    assert timers.next_deadline_ms() == 3, "between turns a deadline is what it is"


def test_work_waits_for_its_turn_and_goes_on_behind_the_others() -> None:
    timers = Timers()
    for key in KEYS[:3]:
        timers.set(key, IMMEDIATELY)
    timers.cancel(KEYS[1])
    fired = []
    for _ in range(4):
        ration = iter((True, False))
        for due in timers.fire(0, lambda ration=ration: next(ration)):
            fired.append(due.key)
            timers.set(due.key, IMMEDIATELY)
    assert fired == [KEYS[0], KEYS[2], KEYS[0], KEYS[2]]
    timers.set(KEYS[0], 7)
    timers.set(KEYS[2], 5)
    assert timers.next_deadline_ms() == 5


def test_timers_go_with_their_member_and_their_group() -> None:
    timers = Timers()
    for key in (session("g", "a"), session("g", "b"), session("h", "a"), join("g"), rebalance("g", "a"), EXPIRY):
        timers.set(key, 5)
    timers.cancel_member("g", "a", ("session", "rebalance"))
    assert {key for key, _ in timers.items()} == {session("g", "b"), session("h", "a"), join("g"), EXPIRY}
    timers.cancel_group("g")
    timers.cancel_group("g")
    assert {key for key, _ in timers.items()} == {session("h", "a"), EXPIRY}
    assert [timers.pop_due(5), timers.pop_due(5), timers.pop_due(5)] == [(session("h", "a"), 5), (EXPIRY, 5), None]
    assert not timers._groups, "nothing is left of what has fired, nor of what was cancelled"


def test_a_group_a_member_and_a_partition_of_one_group_have_timers_of_their_own() -> None:
    timers, keys = Timers(), (join("g"), session("g", "m"), lock("g", b"topic", 7), lock("g", b"topic", 8))
    for at_ms, key in enumerate(keys):
        timers.set(key, at_ms)
    assert [key for key, _ in timers.of_group("g")] == list(keys)
    timers.cancel(keys[2])
    assert [due.key for due in timers.fire(10)] == [keys[0], keys[1], keys[3]]
    assert [member_of(key) for key in keys[:2]] == ["", "m"]
    with pytest.raises(AssertionError, match="no member"):
        member_of(keys[3])
