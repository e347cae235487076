"""What a response that is put together in steps may take, before it is bytes.

A request names few things, and its response tells of them what the server holds: the same group five thousand times,
or five hundred groups with twenty thousand offsets each. So each element is charged as it is added:

    budget = ResponseBudget()
    entries.append(budget.add(describe(group)))

Beyond the budget the whole request is refused with POLICY_VIOLATION (`runtime/edge`), before more memory is held.
"""

from typing import Final, TypeVar

from coordinator.core.weights import weigh

T = TypeVar("T")

RESPONSE_BYTES_MAX: Final = 64 << 20  # of memory, or of bytes where elements share what they have
ELEMENT_BYTES: Final = 128  # of a small struct of numbers, such as the offset of a partition


class ResponseTooLarge(Exception):  # noqa: N818 - reads as the fact that it is
    """The response to a request would take more than it may."""


class ResponseBudget:
    """What a response may still take."""

    __slots__ = ("_left",)

    def __init__(self, bytes_max: int = RESPONSE_BYTES_MAX) -> None:
        self._left = bytes_max

    def add(self, element: T) -> T:
        """Charge an element with all that is in it, and return it. Raises ResponseTooLarge."""
        self.charge(weigh(element))
        return element

    def charge(self, more_bytes: int) -> None:
        """Charge so many bytes. Raises ResponseTooLarge."""
        self._left -= more_bytes
        if self._left < 0:
            raise ResponseTooLarge

    def charge_elements(self, count: int) -> None:
        """Charge so many small elements. Raises ResponseTooLarge."""
        self.charge(count * ELEMENT_BYTES)
