"""A server whose disk fails for the logs of one topic, and requests about that topic."""

import errno
from itertools import count

from protocol.messages.fetch import FetchRequest
from protocol.messages.produce import ProduceRequest
from tests.dataplane.broker import batch
from tests.requests import fetch, produce
from tests.server.in_memory import InMemory, Peer
from tests.storage.crashing_disk import CrashingDisk


def serving(**settings: object) -> tuple[CrashingDisk, InMemory]:
    """A server with --fsync whose topic has a record in each of its partitions."""
    files = CrashingDisk()
    server = InMemory(files, is_synced=True, topics={"t": 3}, **settings)
    answer = server.connect().ask(*producing(0, 1, 2))
    assert [one.error_code for one in answer.responses[0].partition_responses] == [0, 0, 0]
    return files, server


def fail(files: CrashingDisk, operation: str, directory: str, after: int = 0) -> None:
    """Let every call of the operation fail in that directory but for the first."""
    left = count(-after)

    def refuse(called: str, path: str) -> int:
        is_meant = called == operation and path.startswith(f"data/{directory}/")
        return errno.EIO if is_meant and next(left) >= 0 else 0

    files.refuse = refuse


def producing(*partitions: int) -> tuple[ProduceRequest, int]:
    return produce("t", dict.fromkeys(partitions, batch("a"))), 9


def fetching(partition: int, offset: int, *, wait_ms: int = 0, level: int = 0) -> tuple[FetchRequest, int]:
    return fetch("t", partition, offset, max_wait_ms=wait_ms, isolation_level=level), 11


def codes(peer: Peer) -> list[tuple[int, int]]:
    """The errors of the Produce responses of a peer, by partition, in the order of arrival."""
    return [
        (one.index, one.error_code)
        for _, answer in peer.answers
        if hasattr(answer, "responses")
        for topic in answer.responses
        for one in getattr(topic, "partition_responses", ())
    ]
