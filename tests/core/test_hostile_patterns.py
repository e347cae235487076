"""R25: patterns that are known to take a backtracking engine ages, against 10,000 topics."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

import pytest

from coordinator.core import regex
from coordinator.core.kinds.consumer import patterns
from coordinator.core.kinds.consumer.group import Resolving

T = TypeVar("T")
STEP_MS_MAX = 50  # of the loop, in one piece
ALL_MS_MAX = 5_000  # of all steps together, which are linear

# Catastrophic patterns of textbooks, of OWASP, and of published weaknesses of libraries and services.
PATTERNS = (
    r"(a+)+",
    r"(a+)+b",
    r"([a-zA-Z]+)*!",
    r"(a|aa)+!",
    r"(a|a?)+!",
    r"(a|a|a|a|a|a)*!",
    r"(.*a){12}!",
    r"(.*)*!",
    r"(.*.*)*=.*",
    r"(x+x+)+y",
    r"(?:x+x+x+x+)+y",
    r"(a*)*(a*)*(a*)*!",
    r"(a*a*a*a*a*a*a*a*)*!",
    r"((a+)+)+((a+)+)+!",
    r"((((a+)+)+)+)+!",
    r"a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?aaaaaaaaaaaaaaaa",
    r"(a?){40}a{40}",
    r"(a{0,20}){0,20}!",
    r"((a{0,30}){0,30})",
    r".*.*.*.*.*.*.*.*!",
    r"[\s\S]*[\s\S]*[\s\S]*!",
    r"^(([a-z])+.)+[A-Z]([a-z])+$",
    r"^([a-zA-Z0-9])(([\-.]|[_]+)?([a-zA-Z0-9]+))*(@){1}[a-z0-9]+[.]{1}(([a-z]{2,3})|([a-z]{2,3}[.]{1}[a-z]{2,3}))$",
    r"^([0-9a-zA-Z]([-.\w]*[0-9a-zA-Z])*@(([0-9a-zA-Z])+([-\w]*[0-9a-zA-Z])*\.)+[a-zA-Z]{2,9})$",
    r"^[a-zA-Z]+(([',. -][a-zA-Z ])?[a-zA-Z]*)*$",
    r"^\d*[0-9](|.\d*[0-9]|)*$",
    r"^(([a-z]+)*)+!$",
    r"(\w+\.)+\w+\.\w+!",
    r"([\w.-]+)+\.prod!",
    r"(\d+)*\.(\d+)*\.(\d+)*!",
    r"(\d+-?)+!",
    r"^((\d+)?\.?\d+) *(milliseconds?|msecs?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d)?$",
    r"D[oD]?(\[[^\[\]]*\]|\s)+MMMM?",
    r"^[\s\x{200c}]+|[\s\x{200c}]+$",
    r"(?:(?:\"|'|\]|\}|\\|\d|(?:nan|infinity|true|false|null|undefined|symbol|math)|`|-|\+)+[)]*;?((?:\s|-|~|!|{}|\|\||\+)*.*(?:.*=.*)))",
    r"^(?:\.?[a-z0-9]+(-+[a-z0-9]+)*)+:[0-9]+$",
    r"^(([^<>()\[\].,;:\s@\"]+(\.[^<>()\[\].,;:\s@\"]+)*)|(\".+\"))@(([^<>()\[\].,;:\s@\"]+\.)+[^<>()\[\].,;:\s@\"]{2,})$",
    r"([a-z]+[0-9]*)+-([a-z]+[0-9]*)+!",
    r"(team|te|am|t|e|a|m)*\.!",
    r"(orders|order|orde|ord|or|o|r|d|e|s)+!",
    r"(.+)+\.(.+)+\.(.+)+!",
    r"(\.?[\w-]+)*\.?!",
    r"([^.]*\.)*[^.]*[^.]*[^.]*!",
    r".*a.{30}b.{30}c.{30}!",
    r".*a.{100}x",
    r"(?:.*a.{12}x|.*b.{12}x|.*c.{12}x)",
    r"(?i)(?:a+b?c*)+(?:d|e|f)*!",
    r"\w*\w*\w*\w*\w*\w*\w*\w*\w*!",
    r"(a.*b.*c.*d.*e.*f.*)+!",
    r"(?:\w{1,60}\.){1,8}\w{1,60}!",
)
PIECES = ("a", "x", "ab", "a.", "te", "o", "1", "7-", "a-b_", "abcdef")


def names() -> Iterator[str]:
    """Ten thousand names that such patterns almost match, up to the longest that there are."""
    for number in range(1_000):
        for piece in PIECES:
            size = 20 + number * 223 // 1_000
            yield f"{(piece * size)[:size]}.{number:04}"


NAMES = tuple(names())


def test_there_are_fifty_patterns_and_ten_thousand_topics() -> None:
    assert len(set(PATTERNS)) == len(PATTERNS) == 50
    assert len(set(NAMES)) == 10_000
    assert max(map(len, NAMES)) <= 249


def measure(piece: Callable[[], T]) -> tuple[float, T]:
    """Processor time of this thread in milliseconds, and the result. A piece that seems too long is done again: the collector of garbage may
    have run within it, through all that other tests have left."""
    for _ in range(3):
        began = time.thread_time()
        result = piece()
        if (ms := (time.thread_time() - began) * 1e3) <= STEP_MS_MAX:
            break
    return ms, result


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.long)])
def test_no_pattern_keeps_the_loop(every: int, pattern: str) -> None:
    """Validating it is one piece, and each step of matching another."""
    names = NAMES[::every]
    ms, reason = measure(lambda: regex.reason_invalid(pattern))
    assert reason is None
    pieces, end = [ms], 0
    while end < len(names):
        ms, progress = measure(partial(regex.match, pattern, names, end))
        end = progress.end
        pieces.append(ms)
    assert max(pieces) <= STEP_MS_MAX
    assert sum(pieces) <= ALL_MS_MAX
    print(f"{len(pieces)} pieces, longest {max(pieces):.1f} ms, {sum(pieces):.0f} ms in all")


def test_each_step_of_a_group_s_patterns_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """K-081: what a step is worth is counted, not timed."""
    names, wanted = NAMES[::30], (r"a*\..*", *PATTERNS)
    match, step, seen = regex.match, Counter[str](), 0

    def note(pattern: str, *arguments: Any) -> regex.Progress:
        found = match(pattern, *arguments)
        step.update(names=found.end - arguments[1], units=found.units)
        return found

    largest = max(match(pattern, names[-1:]).units for pattern in wanted)
    monkeypatch.setattr(regex, "match", note)
    resolving = Resolving(1, names, wanted)
    while resolving.left:
        step.clear()
        resolving = patterns._match_some(resolving)
        seen += step["names"]
        assert step["names"] > 0, "a step goes nowhere"
        assert step["units"] < regex.STEP_UNITS + largest, "it may exceed its work by that of its last name"
    assert seen == len(wanted) * len(names)
    assert resolving.done == {pattern: set() for pattern in PATTERNS} | {wanted[0]: set(names)}
