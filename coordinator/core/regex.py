"""Regular expressions of clients, in RE2's syntax and in linear time. The one place that knows the engine.

Python's own engine backtracks, so that a pattern such as `(a+)+b` would stop the whole server.
"""

from collections.abc import Iterable
from typing import Final

import re2

PATTERN_BYTES_MAX: Final = 256 * 1024
"""The memory of a compiled pattern. It holds an alternation of a thousand names of topics, and refuses patterns such as
`(.*a.{100}x|.*b.{100}x|...)`, which cost milliseconds a name. The most expensive ones left cost 0.15 ms for the longest
name of a topic."""

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False  # the client gets the error
_OPTIONS.max_mem = PATTERN_BYTES_MAX


def reason_invalid(pattern: str) -> str | None:
    """Why the pattern is none, in the engine's words, or None when it is one."""
    try:
        re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        reason = error.args[0]
        return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
    return None


def matches(pattern: str, names: Iterable[str]) -> list[str]:
    """The names that the pattern matches as a whole. Raises `re2.error` for a pattern that is none."""
    is_match = re2.compile(pattern, _OPTIONS).fullmatch
    return [name for name in names if is_match(name)]
