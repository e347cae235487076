"""Ids and time are handed in, so that a run can be repeated."""

import re
import sys
import uuid
from random import Random

import pytest
import trio
from trio.testing import MockClock

from coordinator.core.result import Call
from coordinator.runtime.clock import Clock, CoordinatorClock
from coordinator.runtime.dice import fresh_ids


def test_ids_are_random_uuids_in_javas_spelling() -> None:
    made = [fresh_ids()() for _ in range(100)]
    assert len(set(made)) == 100
    assert all(uuid.UUID(text).version == 4 and str(uuid.UUID(text)) == text for text in made)


def test_an_id_in_kafkas_own_spelling_has_22_characters_and_no_dash_in_front() -> None:
    ids = iter(["f8" + "0" * 30, str(uuid.UUID(int=1)), *[fresh_ids(seed)() for seed in range(100)]])
    call = Call(0, 0, 0, None, "", lambda: next(ids))
    assert call.fresh_uuid() == "AAAAAAAAAAAAAAAAAAAAAQ", "the one before begins with a dash"
    assert all(re.fullmatch("[A-Za-z0-9_][A-Za-z0-9_-]{21}", call.fresh_uuid()) for _ in range(90))


def test_time_is_the_wall_clock_at_the_start_and_then_the_monotonic_one() -> None:
    """R21: whatever the wall clock does later is not seen."""
    seconds = 100.0
    clock = Clock(1_700_000_000_000, lambda: seconds)
    assert clock.now_ms() == 1_700_000_000_000
    seconds += 1.5
    assert clock.now_ms() == 1_700_000_001_500


async def test_an_alarm_never_rings_too_early(autojump_clock: MockClock) -> None:
    clock = Clock(1_000_000, trio.current_time)
    due_ms = clock.now_ms() + 12_345
    await trio.sleep_until(clock.trio_time(due_ms))
    assert due_ms <= clock.now_ms() <= due_ms + 1


@pytest.mark.parametrize("rate", [0.0, 5e-324, sys.float_info.min, 1e-9, 0.5, 1.0, 3.0, 10_000.0])
@pytest.mark.parametrize("left_ms", [-5, 0, 1, 12_345, 10 * 365 * 86_400_000])
async def test_an_alarm_by_a_clock_of_any_rate_never_rings_too_early(
    autojump_clock: MockClock, rate: float, left_ms: int
) -> None:
    """The control API takes any rate above 0."""
    clock = CoordinatorClock(Clock(1_000_000, trio.current_time))
    clock.set_rate(rate)
    began_ms = clock.now_ms()
    due_ms = began_ms + left_ms
    at_s = clock.trio_time(due_ms)
    if at_s - trio.current_time() < 1e9:
        await trio.sleep_until(at_s)
        assert 0 <= clock.now_ms() - max(due_ms, began_ms) <= 1 + 2 * rate
    else:
        assert rate < left_ms / 1e12, "it rings one day"


@pytest.mark.parametrize("seed", range(20))
def test_a_clock_that_is_steered_goes_on_as_it_is_told_and_never_back(seed: int) -> None:
    random, seconds, rate = Random(seed), 100.0, 1.0
    clock = CoordinatorClock(Clock(1_000_000, lambda: seconds))
    for _ in range(60):
        before_ms = expected_ms = clock.now_ms()
        match random.randrange(4):
            case 0:
                rate = random.choice([0.0, 0.5, 1.0, 8.0])
                clock.set_rate(rate)
            case 1:
                to_ms = before_ms + random.choice([-10_000, -1, 0, 1, 10_000])
                clock.jump_to(to_ms)
                expected_ms = max(before_ms, to_ms)
            case _:
                passed_ms = random.randint(0, 5_000)
                seconds += passed_ms / 1_000
                expected_ms += int(passed_ms * rate)
        assert clock.now_ms() >= before_ms
        assert abs(clock.now_ms() - expected_ms) <= 1 + rate, "to the rounding of real time"
