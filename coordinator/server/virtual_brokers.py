"""The listeners of each broker that clients see (`--brokers`).

A stopped broker refuses connections. It keeps its ports, so that it starts again at the same addresses.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from msgspec.structs import replace

from coordinator.dataplane.brokers import Broker, introduce
from coordinator.server.listener import Listener, format_address


class Sockets(Protocol):
    """Opens and closes listeners. The poller is one."""

    def start_listening(self, listener: Listener) -> Listener:
        """Accept connections again. Return the listener with its new socket. Raises OSError."""

    def stop_listening(self, listener: Listener) -> Listener:
        """Accept no more connections, and close the existing ones. Return the listener as it is then."""


def join_listeners(listeners: Sequence[Listener]) -> list[Listener]:
    """Return the listeners, each with the addresses of all brokers: those of the listeners of the same name."""
    by_name: dict[str, dict[int, Broker]] = {}
    for one in listeners:
        (broker,) = one.where.brokers
        by_name.setdefault(one.name, {})[broker.node_id] = broker
    wheres = {name: introduce(brokers) for name, brokers in by_name.items()}
    return [replace(one, where=wheres[one.name][one.where.node_id]) for one in listeners]


class VirtualBrokers:
    """All brokers of the process with their listeners."""

    def __init__(self, listeners: Iterable[Listener], sockets: Sockets) -> None:
        self._sockets = sockets
        self._listeners: dict[int, list[Listener]] = {}
        for listener in listeners:
            self._listeners.setdefault(listener.where.node_id, []).append(listener)
        self._closed: set[int] = set()

    @property
    def node_ids(self) -> tuple[int, ...]:
        """The ids of all brokers."""
        return tuple(self._listeners)

    def addresses(self, node_id: int) -> dict[str, str]:
        """Return the advertised addresses of a broker, by the names of its listeners."""
        return {one.name: format_address(one.host, one.port) for one in self._listeners[node_id]}

    def start(self, node_id: int) -> None:
        """Let clients connect to a broker again, by all of its listeners. Raises OSError, and by none of them then."""
        listeners = self._listeners[node_id]
        for at, one in enumerate(listeners):
            try:
                listeners[at] = self._sockets.start_listening(one)
            except OSError:
                listeners[:at] = [self._sockets.stop_listening(one) for one in listeners[:at]]
                raise
        self._closed.discard(node_id)

    def stop(self, node_id: int) -> None:
        """Close the connections of a broker, and accept no more."""
        self._closed.add(node_id)
        self._listeners[node_id] = [self._sockets.stop_listening(one) for one in self._listeners[node_id]]

    def start_all(self) -> None:
        """Let clients connect to every broker. Raises OSError."""
        for node_id in sorted(self._closed):
            self.start(node_id)
