"""Names that a caller of the control API gives, checked against those that exist.

A misspelt name agrees with nothing: a test that expects nothing of that name would always pass.
"""

from typing import Annotated, Final

from msgspec import Meta

from coordinator.core.events import Cause
from coordinator.core.kinds.registry import seen_states
from protocol.apis import BY_NAME
from protocol.errors import ErrorCode

Name = Annotated[str, Meta(max_length=32_767)]
"""The name of a group or a topic: it is no longer than a string of the protocol."""
_CAUSES: Final = frozenset(cause.value for cause in Cause)


class SpecError(ValueError):
    """A caller specifies what can never apply. The text says what is expected instead."""


def check_api(field: str, name: str) -> None:
    """Raise SpecError unless `name` is Kafka's name of an API, or empty."""
    if name and name not in BY_NAME:
        raise SpecError(f"invalid {field} {name!r}: expected Kafka's name of an API, such as OffsetCommit")


def check_error(field: str, name: str) -> None:
    """Raise SpecError unless `name` is Kafka's name of an error, or empty."""
    if name and name not in ErrorCode.__members__:
        raise SpecError(f"invalid {field} {name!r}: expected Kafka's name of an error, such as NOT_COORDINATOR")


def check_cause(field: str, name: str) -> None:
    """Raise SpecError unless `name` is the cause of events, or empty."""
    if name and name not in _CAUSES:
        raise SpecError(f"invalid {field} {name!r}: expected the cause of an event, such as session_expired")


def check_state(field: str, name: str) -> None:
    """Raise SpecError unless `name` is a state of groups, or empty."""
    if name and name not in (states := seen_states()):
        raise SpecError(f"invalid {field} {name!r}: expected one of {', '.join(states)}")
