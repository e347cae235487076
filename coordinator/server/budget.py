"""A budget of memory that all connections share."""

from collections.abc import Hashable
from typing import Generic, TypeVar

Holder = TypeVar("Holder", bound=Hashable)


class Budget(Generic[Holder]):
    """How many bytes may be held for all holders together, and how many are held for each.

    The owner of the budget asks for the `offender` whenever a holder has grown, and closes it.
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.total = 0
        self._sizes: dict[Holder, int] = {}  # only of those that hold something

    def set(self, holder: Holder, size: int) -> None:
        """Note that `size` bytes are held for the holder now."""
        self.total += size - self._sizes.get(holder, 0)
        if size:
            self._sizes[holder] = size
        else:
            self._sizes.pop(holder, None)

    def offender(self) -> Holder | None:
        """Return the holder of the most bytes while the budget is exceeded, else None."""
        if self.total <= self.bytes_max:
            return None
        return max(self._sizes, key=self._sizes.__getitem__)
