"""The brokers that clients are told of, and which of them leads which partition."""

from collections.abc import Container, Mapping, Sequence
from typing import Final

from msgspec import Struct

LEADER_EPOCH: Final = 0
"""A partition's records do not change with its leader: every batch is of one epoch, and a check of it finds the log's
end."""

NO_EPOCH: Final = -1
"""That a client knows none."""

NOBODY: Final = -2  # coordinates a partition that is not loaded, or while no broker runs
OPERATOR: Final = -3  # asks no broker in particular, and is served as by the right one


class Broker(Struct, frozen=True):
    """A node at the address that the asking client can reach. Several may be one process."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class Where(Struct, frozen=True):
    """The broker that the client has come to, and how the client reaches all of them, whether they run or not."""

    brokers: tuple[Broker, ...]
    node_id: int = 0  # of the broker that is asked

    def find(self, node_id: int) -> Broker | None:
        """Return a broker by its id, None if there is none."""
        return next((broker for broker in self.brokers if broker.node_id == node_id), None)


def introduce(brokers: Mapping[int, Broker]) -> dict[int, Where]:
    """Return for each broker what its clients are told of all of them. All come by listeners of one name."""
    everybody = tuple(brokers.values())
    return {node_id: Where(everybody, node_id) for node_id in brokers}


def replicas_of(
    partition: int, copies: int, brokers: Sequence[Broker], stopped: Container[int] = ()
) -> tuple[int, ...]:
    """Return the node ids of a partition's replicas, the leader first: as many as are asked for, and as there are
    nodes. The brokers take turns, and those that are stopped are passed over."""
    count = len(brokers)
    if count == 1:
        return (brokers[0].node_id,)
    ring = [brokers[(partition + step) % count].node_id for step in range(count)]
    return tuple([node_id for node_id in ring if node_id not in stopped][: max(copies, 1)])
