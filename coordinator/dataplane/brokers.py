"""The brokers that clients are told of, and which of them leads which partition."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

LEADER_EPOCH: Final = 0
"""Partitions never change their leader here: every batch is of one epoch, and a check of it finds the log's end."""


class Broker(Struct, frozen=True):
    """A node at the address that the asking client can reach. Several may be one process."""

    node_id: int
    host: str
    port: int
    rack: str | None = None


class Where(Struct, frozen=True):
    """How the asking client reaches the brokers; the first leads."""

    brokers: tuple[Broker, ...]


def replicas_of(partition: int, copies: int, brokers: Sequence[Broker]) -> tuple[int, ...]:
    """Return the node ids of a partition's replicas, the leader first: as many as are asked for, and as there are
    nodes."""
    count = len(brokers)
    return tuple([brokers[(partition + step) % count].node_id for step in range(min(max(copies, 1), count))])
