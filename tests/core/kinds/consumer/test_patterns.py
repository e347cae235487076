"""Patterns: whose they are, and which topics they are matched against."""

from typing import Any

import pytest

from coordinator.core import regex
from coordinator.core.env import Env
from coordinator.core.kinds.consumer.consumer_group_heartbeat import consumer_group_heartbeat
from coordinator.core.kinds.consumer.timers import resolve_patterns
from coordinator.core.kinds.consumer.validation import of_pattern
from coordinator.core.limits import Limits
from coordinator.core.result import Call
from coordinator.core.timers import Due
from coordinator.core.topics import Topic, Topics
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

LIMITS = Limits(group_consumer_assignment_interval_ms=0)


def topics(*names: str) -> Topics:
    return Topics(Topic(name, name.encode().ljust(16, b"."), 1) for name in names)


def at(now_ms: int, seen: Topics) -> Env:
    return Env(Call(1, now_ms, 1, "c", "/h", lambda: "id"), LIMITS, seen)


def joining(group: Any, member_id: str, pattern: str, seen: Topics) -> Any:
    request = ConsumerGroupHeartbeatRequest("g", member_id, 0, None, None, 9_000, None, pattern, None, ())
    return consumer_group_heartbeat(group, request, at(1_000, seen)).group


def resolved(group: Any, seen: Topics) -> Any:
    """The group once its timer has fired as often as it wants to, and how often that was."""
    times = 0
    while group.resolving is not None:
        result = resolve_patterns(group, Due(("regex", "g", ""), 1_000), at(1_000 + times, seen))
        group, times = result.group, times + 1
    return group, times


@pytest.mark.rule("K-081")
def test_only_whole_names_match() -> None:
    assert regex.matches("a|b", ["a", "b", "ab", "ba"]) == ("a", "b")
    assert regex.matches("a.*", ["xa", "ab"]) == ("ab",)


@pytest.mark.rule("K-086 K-098")
def test_the_topics_are_those_of_the_moment_when_it_was_asked() -> None:
    """What came since is found by the next resolution."""
    before = topics("t1")
    group = joining(None, "a", "t.", before)
    group, _ = resolved(group, before.with_topic(Topic("t2", b"2" * 16, 1)))
    assert group.topics_matching("t.") == {"t1"}


@pytest.mark.rule("K-086 K-092")
def test_much_is_matched_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """K-086, K-092: no more than so many names at once; one resolution at a time, with all patterns of its beginning."""
    monkeypatch.setattr(regex, "STEP_UNITS", 1)  # one name a step
    seen = topics("t1", "t2", "t3")
    group = None
    for number in range(3):
        group = joining(group, f"m{number}", f"t{number}", seen)
    assert group is not None and group.resolving is not None and group.resolving.left == ("t0",)
    group, times = resolved(group, seen)
    assert times == 3 and set(group.resolved) == {"t0"}
    request = ConsumerGroupHeartbeatRequest("g", "m0", 1)
    group = consumer_group_heartbeat(group, request, at(12_000, seen)).group
    group, times = resolved(group, seen)
    assert times == 9
    assert {pattern: set(found.topics) for pattern, found in group.resolved.items()} == {
        "t0": set(),
        "t1": {"t1"},
        "t2": {"t2"},
    }


def test_no_topics_are_matched_at_once() -> None:
    group, times = resolved(joining(None, "a", "t.", topics()), topics())
    assert times == 1 and group.topics_matching("t.") == set()


def test_a_pattern_that_nobody_has_any_more_is_not_kept() -> None:
    seen = topics("t1")
    group = joining(None, "a", "t.", seen)
    group = joining(group, "a", "x.", seen)
    assert group is not None and group.resolving is not None
    group, _ = resolved(group, seen)
    assert set(group.resolved) == set()


@pytest.mark.parametrize("pattern", ["(?=x)", r"(a)\1", "(", "a**", "[z-a]", "(?<!x)y"])
def test_what_re2_cannot_read_is_refused(pattern: str) -> None:
    refusal = of_pattern(pattern)
    assert refusal is not None and refusal.error == 128 and pattern in (refusal.message or "")
