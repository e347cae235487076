"""A reset and a restore are whole: cut off at any call to the disk, a server finds what was before or what was to be."""

import errno
from collections.abc import Callable

import pytest

from coordinator.config import Config
from coordinator.runtime.node import Node
from coordinator.server.verbs.refusal import Refusal
from coordinator.server.verbs.state import State
from storage import replacement
from storage.files import StorageError
from tests.control.steered import SteeredNode
from tests.storage.crashing_disk import CrashingDisk, ProcessKill

BEFORE = State({"orders": 2, "new": 1}, {"g1": {"orders": {"0": 7}}, "g2": {"new": {"0": 3}}})
KEPT = State({"orders": 2}, {"g1": {"orders": {"0": 5}}})
EMPTY = State({"orders": 2})
VERBS = pytest.mark.parametrize(
    ("verb", "after"),
    [
        (lambda server: server.operator.state.reset(), EMPTY),
        (lambda server: server.operator.state.restore("kept"), KEPT),
    ],
    ids=["reset", "restore"],
)
Verb = Callable[[SteeredNode], None]


def serve(disk: CrashingDisk) -> SteeredNode:
    """Start a server as `muster serve` does."""
    replacement.finish(disk, "data")
    return SteeredNode(files=disk, topics={"orders": 2}, offsets_topic_num_partitions=3)


def prepare() -> tuple[SteeredNode, CrashingDisk]:
    """A server with a snapshot, and with what has happened since."""
    disk = CrashingDisk()
    disk.make_directory("data")
    server = serve(disk)
    server.operator.state.seed(KEPT)
    server.operator.state.take_snapshot("kept")
    server.operator.state.seed(BEFORE)
    assert server.operator.state.contents() == BEFORE
    return server, disk


@VERBS
def test_a_server_that_was_killed_has_the_old_state_or_the_new_one(verb: Verb, after: State) -> None:
    server, disk = prepare()
    first = disk.calls
    verb(server)
    assert server.operator.state.contents() == after
    found = []
    for number in range(first + 1, disk.calls + 1):
        server, disk_again = prepare()
        disk_again.killed_at = number
        with pytest.raises(ProcessKill):
            verb(server)
        contents = serve(disk_again.copy()).operator.state.contents()
        assert contents in (BEFORE, after), f"killed at call {number}"
        found.append(contents == after)
    assert found == sorted(found), "once the new state is there, it stays"
    assert len(set(found)) == 2


@VERBS
@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_fails_first_changes_nothing(verb: Verb, after: State, reason: int) -> None:
    server, disk = prepare()
    connection = server.connect("client").connection
    disk.refuse = lambda operation, path: reason if replacement.INCOMING in path else 0
    with pytest.raises(Refusal, match="nothing has changed: ") as refusal:
        verb(server)
    assert refusal.value.failure is not None
    assert refusal.value.failure.is_full == (reason == errno.ENOSPC)
    assert not connection.closing
    assert server.operator.state.contents() == BEFORE
    disk.refuse = lambda operation, path: 0
    server.operator.state.seed(State({}, {"g1": {"orders": {"0": 8}}}))
    assert serve(disk.copy()).operator.state.contents().offsets["g1"] == {"orders": {"0": 8}}
    verb(server)
    assert server.operator.state.contents() == after


def test_an_abandoned_node_refuses_everything() -> None:
    server, disk = prepare()
    old: Node = server.node
    server.operator.state.reset()
    contents = disk.contents()
    with pytest.raises(StorageError, match="the log is abandoned"):
        old.partitions[0].log.append(b"x" * 100)
    assert old._routes == {}
    assert disk.contents() == contents


def test_a_snapshot_that_is_too_large_is_not_read() -> None:
    server, disk = prepare()
    kept = server.operator.held_bytes()["snapshots"]
    assert kept == sum(server.operator.state.snapshots().values()) > 300
    server.node.config = Config({"snapshots.max.bytes": 300})
    disk.refuse = lambda operation, path: errno.EIO if operation == "read" else 0
    with pytest.raises(Refusal, match="snapshots may take 300 bytes in all"):
        server.operator.state.take_snapshot("large")
