"""The partitions that new coordinators are loading, after they were moved (`failover.py`)."""

from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct

GROUPS: Final = "groups"
TRANSACTIONS: Final = "transactions"
SHARE_STATES: Final = "share states"

Key = tuple[str, int]  # GROUPS, TRANSACTIONS or SHARE_STATES, and the partition


class Load(Struct, eq=False):
    """A partition that its new coordinator is loading."""

    at_ms: int  # when it may be served at the earliest, by the coordinator's clock
    serve: Callable[[int], None]
    is_replayed: bool = False


class Loads:
    """The loads of all brokers."""

    def __init__(self) -> None:
        self._loads: dict[Key, Load] = {}

    def __bool__(self) -> bool:
        return bool(self._loads)

    def begin(self, key: Key, load: Load) -> None:
        """Begin to load a partition."""
        self._loads[key] = load

    def end(self, key: Key) -> None:
        """Load a partition no longer, if that has begun."""
        self._loads.pop(key, None)

    def is_current(self, key: Key, load: Load) -> bool:
        """Return whether no other load has taken its place."""
        return self._loads.get(key) is load

    def is_loading(self, kind: str, index: int) -> bool:
        """Return whether a broker is loading a partition."""
        return (kind, index) in self._loads

    def loading_partitions(self, kind: str) -> list[int]:
        """Return the partitions that are being loaded."""
        return sorted(index for one, index in self._loads if one == kind)

    def deadlines(self) -> Iterator[tuple[Key, int]]:
        """Give the partitions that have been read, and when each may be served."""
        return ((key, load.at_ms) for key, load in self._loads.items() if load.is_replayed)

    def serve_due(self, now_ms: int) -> bool:
        """Serve what has been read and whose time to load has passed. Returns whether groups are served now."""
        has_groups = False
        for key, load in list(self._loads.items()):
            if load.is_replayed and load.at_ms <= now_ms:
                del self._loads[key]
                load.serve(now_ms)
                has_groups |= key[0] == GROUPS
        return has_groups
