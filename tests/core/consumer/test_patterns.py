"""Patterns: how much is matched at once, and patterns that mean harm."""

import time
from typing import Any

import pytest

from coordinator.core import regex
from coordinator.core.consumer import patterns
from coordinator.core.consumer.consumer_group_heartbeat import consumer_group_heartbeat
from coordinator.core.consumer.group import Resolving
from coordinator.core.consumer.timers import resolve_patterns
from coordinator.core.consumer.validation import of_pattern
from coordinator.core.env import Env
from coordinator.core.limits import Limits
from coordinator.core.result import Call
from coordinator.core.timers import Due
from coordinator.core.topics import Topic, Topics
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

LIMITS = Limits(group_consumer_assignment_interval_ms=0)


def topics(*names: str) -> Topics:
    return Topics(Topic(name, name.encode().ljust(16, b"."), 1) for name in names)


def _at(now_ms: int) -> Call:
    return Call(1, now_ms, 1, "c", "/h", lambda: "id")


def joining(group: Any, member_id: str, pattern: str, seen: Topics) -> Any:
    call = Call(1, 1_000, 1, "c", "/h", lambda: "id")
    request = ConsumerGroupHeartbeatRequest("g", member_id, 0, None, None, 9_000, None, pattern, None, ())
    return consumer_group_heartbeat(group, request, Env(call, LIMITS, seen)).group


def resolved(group: Any, seen: Topics) -> Any:
    """The group once its timer has fired as often as it wants to, and how often that was."""
    times = 0
    while group.resolving is not None:
        result = resolve_patterns(group, Due(("regex", "g", ""), 1_000), Env(_at(1_000 + times), LIMITS, seen))
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
    later = Call(1, 12_000, 1, "c", "/h", lambda: "id")
    group = consumer_group_heartbeat(group, request, Env(later, LIMITS, seen)).group
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


# Known to stop engines that backtrack, with many forms of what costs RE2 most: nested and counted repetitions.
HOSTILE = (
    "(a+)+b", "(a*)*c", "(a|aa)+$", "(.*)*x", "(a|a?)+d", "([a-zA-Z]+)*z", "(.*a){12}", "(a+)+$", "(a*)*$",
    "([a-z]+)+$", "(.*)+x", "(a|b|ab)*c", "^(([a-z])+.)+[A-Z]([a-z])+$", "(x+x+)+y", "(?:a?){30}a{30}",
    "(a?a?){50}", "((a{0,30}){0,30})", "((((a{0,9}){0,9}){0,9}))", "(x?){400}a{200}", ".*topic.*", "(.+)+(.+)+b",
    *(f"(.*a.{{{length}}}x)|(.*b.{{{length}}}x)" for length in range(10, 60, 5)),
    *(f"(a{{0,{times}}}){{0,20}}b" for times in range(10, 29)),
)  # fmt: skip


def _units(pattern: str) -> int:
    """Of one character."""
    return regex.match(pattern, ("",)).units


_LARGEST = max(map(_units, HOSTILE))


def test_each_step_on_hostile_patterns_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """K-081: 50 patterns and 10,000 names are matched in steps. What a step is worth is counted, not timed."""
    assert len(HOSTILE) == 50 and not [pattern for pattern in HOSTILE if regex.reason_invalid(pattern)]
    names = (*(f"topic-{number:05}" for number in range(9_990)), *(f"{'a' * 200}{number}" for number in range(10)))
    step = {"names": 0, "units": 0}
    match = regex.match

    def counted(pattern: str, *arguments: Any) -> regex.Progress:
        found = match(pattern, *arguments)
        step["names"] += found.end - arguments[1]
        step["units"] += found.units
        return found

    monkeypatch.setattr(regex, "match", counted)
    resolving = Resolving(1, names, HOSTILE)
    largest = _LARGEST * 210  # a step may exceed its work by that of its last name
    seen = 0
    while resolving.left:
        step.update(names=0, units=0)
        resolving = patterns._match_some(resolving)
        seen += step["names"]
        assert step["names"] > 0, "a step goes nowhere"
        assert step["units"] < regex.STEP_UNITS + largest
    assert seen == len(HOSTILE) * len(names)
    assert set(resolving.done) == set(HOSTILE)
    assert resolving.done["(.*)*x"] == set() and resolving.done["(a|aa)+$"] == set()
    assert resolving.done["(a+)+b"] == set() and resolving.done[".*topic.*"] == set(names[:9_990])


def test_a_unit_of_work_takes_nanoseconds() -> None:
    """A pattern that backtracking would not leave alive costs no more than its units say; the bound is 25 times too wide."""
    name = "a" * 249
    for pattern in HOSTILE:
        before = time.process_time()
        units = sum(regex.match(pattern, [name]).units for _ in range(5))
        assert time.process_time() - before < 100e-9 * units + 0.5, pattern


@pytest.mark.parametrize("pattern", ["(?=x)", r"(a)\1", "(", "a**", "[z-a]", "(?<!x)y"])
def test_what_re2_cannot_read_is_refused(pattern: str) -> None:
    refusal = of_pattern(pattern)
    assert refusal is not None and refusal.error == 128 and pattern in (refusal.message or "")
