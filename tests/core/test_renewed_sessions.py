"""A session that is renewed in a move of the clock, though its member has sent nothing."""

from coordinator.core.limits import NEW_MEMBER_JOIN_TIMEOUT_MS, Limits
from coordinator.core.timers import session
from coordinator.core.topics import Topics
from tests.core.driver import ShardDriver
from tests.requests import join

SESSION_MS = 10_000


def test_a_session_becomes_no_shorter() -> None:
    """A member that is new has five minutes until it is heard of; ids that have not joined are renewed by nobody."""
    driver = ShardDriver(Limits(), Topics())
    driver.handle(join("g", session_ms=SESSION_MS, rebalance_ms=SESSION_MS), driver.call(3))
    driver.fire()
    driver.handle(join("g", session_ms=SESSION_MS, rebalance_ms=SESSION_MS), driver.call(3))  # waits for the first one
    driver.handle(join("g", session_ms=SESSION_MS, rebalance_ms=SESSION_MS), driver.call(9))  # is told its id
    group, timers = driver.shard.groups["g"], driver.shard.timers
    first, second = group.members
    (pending,) = group.pending
    driver.now_ms += 1_000
    for member_id, is_renewed, left_ms in (
        (first, True, SESSION_MS),
        (second, True, NEW_MEMBER_JOIN_TIMEOUT_MS - 1_000),
        (pending, False, SESSION_MS - 1_000),
    ):
        key = session("g", member_id)
        assert driver.shard.renew_session(key, driver.now_ms) == is_renewed
        assert timers.deadline(key) == driver.now_ms + left_ms
