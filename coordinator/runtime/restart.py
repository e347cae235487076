"""A node in the place of another one: its logs are written, and its catalog is read, while that one serves, which is
freed in steps afterwards."""

import errno

from coordinator.runtime.node import Node, Setup
from coordinator.runtime.snapshot import Snapshot
from protocol.steps import Steps
from storage import replacement
from storage.files import StorageError
from storage.layout import DamagedLog


def prepare_node(setup: Setup, snapshot: Snapshot) -> Node:
    """Make the logs of a snapshot the truth, and return a node that is to be opened with them. For a thread.

    Raises StorageError, and has changed nothing then.
    """
    node = Node(setup)

    def read(directory: str) -> None:
        try:
            node.read_catalog(directory)
        except DamagedLog as damage:
            raise StorageError("read", damage.path, errno.EIO, str(damage)) from damage

    try:
        replacement.prepare(setup.files, setup.data_dir, snapshot, read)
    except StorageError:
        if node.has_read_catalog:
            node.world.ledger.log.release()
        raise
    return node


def free_node(node: Node) -> Steps[None]:
    """Forget what an abandoned node holds, in steps: to free all of it at once takes long."""
    for partition in node.world.partitions:
        yield from partition.shard.forget()
    yield from node.engine.share_states.forget()
    yield from node.world.ledger.transactions.forget()
    yield from node.world.ledger.catalog.forget()
