"""A request of which some entries are refused: the handler sees the others, and the response has both."""

from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from coordinator.core.decision import Steps
from coordinator.core.pace import Pace
from coordinator.runtime.error_response import error_response
from protocol.errors import ErrorCode

_REFUSED_AT_ONCE: Final = 200  # entries of a request
FIRST, LAST, IN_ORDER = "first", "last", "in order"  # where the response has what is refused

Judge = Callable[[Any], ErrorCode | None]
"""Says why an entry of a request is refused, None if it is not."""


class DividedRequest(Struct, frozen=True):
    """A request of which some entries are refused."""

    request: Any  # about the others
    refused: dict[int, Any]  # the answers about those that are refused, by their places in the request
    count: int  # of entries in all

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left to be asked."""
        return len(self.refused) == self.count


def divide(
    request: Any,
    version: int,
    array: str,
    answers: str,
    judge: Judge,
    *,
    refuse: Callable[[Any, int, ErrorCode], Any] = error_response,
    finish: Callable[[Any], Any] | None = None,
) -> Steps[DividedRequest | None]:
    """Return the request in two parts, None if nothing of it is refused. `judge` is asked in the order of the entries.

    The entries are in `array` of the request, and the answers about them in `answers` of what `refuse` returns.
    """
    entries = getattr(request, array)
    if not entries:
        return None
    pace = Pace()
    by_error: dict[ErrorCode, list[int]] = {}  # the places of those that are refused
    allowed: list[Any] = []
    for at, entry in enumerate(entries):
        if pace.is_due():
            yield
        if (error := judge(entry)) is None:
            allowed.append(entry)
        else:
            by_error.setdefault(error, []).append(at)
    if not by_error:
        return None
    refused: dict[int, Any] = {}
    for error, places in by_error.items():
        for first in range(0, len(places), _REFUSED_AT_ONCE):
            if first:
                yield
            some = places[first : first + _REFUSED_AT_ONCE]
            part = replace(request, **{array: tuple([entries[at] for at in some])})
            answered = getattr(refuse(part, version, error), answers)
            assert len(answered) == len(some), f"{array}: {len(some)} entries have {len(answered)} answers"
            refused |= zip(some, answered if finish is None else map(finish, answered), strict=True)
    return DividedRequest(replace(request, **{array: tuple(allowed)}), refused, len(entries))


def join(response: Any, divided: DividedRequest, answers: str, place: str) -> Any:
    """Return the response to the allowed part, with the answers about what is refused in their places.

    A response that is an error as a whole stays so.
    """
    if getattr(response, "error_code", ErrorCode.NONE):
        return response
    allowed, refused = getattr(response, answers), divided.refused
    denied = tuple([refused[at] for at in sorted(refused)])
    if place == IN_ORDER and len(allowed) + len(denied) == divided.count:
        rest = iter(allowed)
        joined = tuple([refused[at] if at in refused else next(rest) for at in range(divided.count)])
    else:
        joined = denied + tuple(allowed) if place == FIRST else tuple(allowed) + denied
    return replace(response, **{answers: joined})
