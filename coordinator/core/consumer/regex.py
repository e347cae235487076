"""Regular expressions of clients, in RE2's syntax and in linear time. The one place that knows the engine.

Python's own engine backtracks, so that a pattern such as `(a+)+b` would stop the whole server.
"""

import re2

from coordinator.core.consumer.refusal import Refusal
from protocol.errors import ErrorCode

_OPTIONS = re2.Options()
_OPTIONS.log_errors = False  # a wrong pattern is answered, not logged


def refusal(pattern: str) -> Refusal | None:
    """Why the pattern is none, or None when it is one."""
    try:
        re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        reason = error.args[0]
        text = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        message = f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {text}."
        return Refusal(ErrorCode.INVALID_REGULAR_EXPRESSION, message)
    return None


def matches(pattern: str, names: list[str]) -> list[str]:
    """The names that the pattern matches as a whole. Raises `re2.error` for a pattern that is none."""
    is_match = re2.compile(pattern, _OPTIONS).fullmatch
    return [name for name in names if is_match(name)]
