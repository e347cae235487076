"""Regular expressions of clients, in RE2's syntax and in linear time. The one place that knows the engine.

Python's own engine backtracks, so that a pattern such as `(a+)+b` would stop the whole server.
"""

from collections.abc import Iterable

import re2

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False  # a wrong pattern is answered, not logged


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
