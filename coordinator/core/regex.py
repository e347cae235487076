"""Regular expressions in RE2's syntax and in linear time. The one place that knows the engine.

Python's own engine backtracks, so that a pattern such as `(a+)+b` would stop the whole server. The engine is loaded
for the first pattern: most servers never see one, and it takes 2.5 MiB.
"""

import sys
from collections.abc import Sequence
from functools import cache
from typing import Any, Final, NamedTuple

PATTERN_BYTES_MAX: Final = 256 * 1024
"""The memory of a compiled pattern. It holds an alternation of a thousand names of topics, and refuses patterns such as
`(.*a.{100}x|.*b.{100}x|...)` for all letters. The most expensive ones left, such as `((a{0,30}){0,30})`, cost 2 ms for
the longest name of a topic."""

STEP_UNITS: Final = 1_000_000
"""The work of a step. A unit is one instruction of the compiled pattern held against one character: at most 4 ns."""

COMPILE_UNITS: Final = STEP_UNITS // 4
"""The work that a pattern counts for when it may have to be compiled again: some milliseconds for the longest."""


@cache
def _options() -> Any:
    """Return the options of all patterns: one object, by which the engine finds what it has compiled."""
    import re2

    options = re2.Options()
    options.log_errors = False  # the client gets the error
    options.max_mem = PATTERN_BYTES_MAX
    return options


def compile_pattern(pattern: str) -> Any:
    """Compile a pattern. Raises ValueError with the engine's message if it is invalid."""
    import re2

    try:
        return re2.compile(pattern, _options())
    except re2.error as error:
        reason = error.args[0]
        raise ValueError(reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)) from None


def reason_invalid(pattern: str) -> str | None:
    """Return the engine's message if the pattern is invalid, else None."""
    try:
        compile_pattern(pattern)
    except ValueError as error:
        return str(error)
    return None


class Progress(NamedTuple):
    """How far the names were matched."""

    names: tuple[str, ...]  # that the pattern matches as a whole
    end: int  # index of the first name that was not looked at
    units: int  # the work that was done


def match(pattern: str, names: Sequence[str], start: int = 0, units_max: int = STEP_UNITS) -> Progress:
    """Match names from `start` on, one at least, until `units_max` of work is done.

    Raises `re2.error` if the pattern is invalid.
    """
    import re2

    compiled = re2.compile(pattern, _options())
    end, units = start, 0
    while end < len(names) and units < units_max:
        units += compiled.programsize * (len(names[end]) + 1)
        end += 1
    is_match = compiled.fullmatch
    return Progress(tuple([name for name in names[start:end] if is_match(name)]), end, units)


def matches(pattern: str, names: Sequence[str]) -> tuple[str, ...]:
    """Return the names that the pattern matches, however much work it is."""
    return match(pattern, names, units_max=sys.maxsize).names
