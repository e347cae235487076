"""A node that is to be in the place of another: its logs are written, and its catalog read, while that one serves."""

import errno

from coordinator.runtime.node import Node, Setup
from coordinator.runtime.snapshot import Snapshot
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
