"""A server with --fsync on a disk whose syncs end when the test says so."""

from typing import Any

from protocol.schema import Message
from tests.dataplane.failing_disk import producing
from tests.requests import commit
from tests.server.in_memory import InMemory
from tests.storage.crashing_disk import CrashingDisk


def serving(**settings: Any) -> tuple[CrashingDisk, InMemory]:
    """A server with --fsync that has a log of everything, on a disk whose syncs from now on end when they are told."""
    disk = CrashingDisk()
    server = InMemory(disk, is_synced=True, topics={"t": 3}, offsets_topic_num_partitions=1, **settings)
    peer = server.connect()
    peer.ask(*committing("g", 1))
    peer.ask(*producing(0, 1, 2))
    disk.is_slow = True
    return disk, server


def committing(group: str, offset: int) -> tuple[Message, int]:
    return commit(group, {"t": {0: offset}}), 8


def end_sync(disk: CrashingDisk, server: InMemory) -> None:
    disk.end_syncs()
    server.turn()
