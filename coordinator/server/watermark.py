"""The low watermark: every request that was received before it is decided, so timers fire up to it."""

from collections.abc import Iterable
from typing import Final

from coordinator.server.connection import Connection

SHARE_S: Final = 0.020  # of processor time for each connection's backlog, before timers fire without the rest of it


class Watermark:
    """A time that is to be reached, and the connections with requests that had arrived by then and are not decided."""

    def __init__(self, at_ms: int, connections: Iterable[Connection]) -> None:
        self.at_ms = at_ms
        self._left_s = dict.fromkeys(connections, SHARE_S)

    def add_time(self, connection: Connection, seconds: float) -> None:
        """Note that so much processor time went into the requests of a connection."""
        left = self._left_s.get(connection)
        if left is None:
            return
        if left <= seconds or not connection.backlog or not connection.may_decide():
            del self._left_s[connection]
        else:
            self._left_s[connection] = left - seconds

    def forget(self, connection: Connection) -> None:
        """Wait no longer for a connection."""
        self._left_s.pop(connection, None)

    @property
    def is_reached(self) -> bool:
        """Whether all that had arrived is decided, or the connection has had its share."""
        return not self._left_s
