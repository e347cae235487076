"""Which broker coordinates which groups and transactional ids.

To its clients a node is one broker or several, which share its logs. Each partition of `__consumer_offsets` has one of
them as the coordinator of its groups. Transactional ids have one in the same way, by a map of their own (Kafka: by the
partitions of `__transaction_state`). `failover.py` moves coordinators; what is being loaded after a move,
`loads` has.
"""

from collections.abc import Sequence

from coordinator.dataplane.brokers import NOBODY, OPERATOR, Where
from coordinator.runtime.loads import TRANSACTIONS, Loads
from coordinator.runtime.partition import Partition
from protocol.errors import ErrorCode
from protocol.java_hash import partition_of


class Coordinators:
    """The coordinating broker of each partition, by its node id."""

    def __init__(self, node_ids: Sequence[int], partitions: int) -> None:
        """Spread the partitions over all brokers."""
        self.node_ids = tuple(node_ids)
        self.stopped: set[int] = set()
        self.loads = Loads()
        self.of_groups = [self.node_ids[index % len(self.node_ids)] for index in range(partitions)]
        self.of_transactions = self.of_groups.copy()
        self.of_share_states: list[int] = []  # of `__share_group_state`, which is made when it is needed

    def spread_share_states(self, partitions: int) -> None:
        """Let the running brokers coordinate the partitions of `__share_group_state`."""
        first = (self.node_ids[index % len(self.node_ids)] for index in range(partitions))
        self.of_share_states = [self.successor(index) if node_id in self.stopped else node_id
                                for index, node_id in enumerate(first)]  # fmt: skip

    @property
    def is_alone(self) -> bool:
        """Whether there is one broker only, which coordinates everything as long as it runs."""
        return len(self.node_ids) == 1

    def of_group(self, group_id: str) -> int:
        """Return the broker that coordinates a group; NOBODY if no broker runs."""
        return self.of_groups[self.partition_of(group_id)]

    def of_transaction(self, transactional_id: str) -> int:
        """Return the broker that coordinates a transactional id; NOBODY if no broker runs."""
        return self.of_transactions[self.partition_of(transactional_id)]

    def partition_of(self, name: str) -> int:
        """Return the partition of a group or a transactional id."""
        return partition_of(name, len(self.of_groups))

    def find_groups_leader(self, index: int) -> int:
        """Return the broker that leads a partition of `__consumer_offsets`, and so coordinates its groups."""
        return self.of_groups[index]

    def find_states_leader(self, index: int) -> int:
        """Return the broker that leads a partition of `__share_group_state`, and so coordinates its states."""
        return self.of_share_states[index]

    def refuse(self, partition: Partition, where: Where) -> ErrorCode:
        """Return why a broker does not serve the groups of a partition, NONE if it does."""
        if where.node_id not in (self.of_groups[partition.index], OPERATOR):
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.NONE if partition.is_loaded else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    def refuse_transaction(self, transactional_id: str, where: Where) -> ErrorCode:
        """Return why a broker does not serve a transactional id, NONE if it does."""
        if self.is_alone and not self.loads:
            return ErrorCode.NONE
        index = self.partition_of(transactional_id)
        if where.node_id not in (self.of_transactions[index], OPERATOR):
            return ErrorCode.NOT_COORDINATOR
        is_loading = self.loads.is_loading(TRANSACTIONS, index)
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if is_loading else ErrorCode.NONE

    def is_transaction_served(self, transactional_id: str) -> bool:
        """Return whether a broker coordinates a transactional id, and has loaded it."""
        if self.is_alone and not self.loads:
            return True
        index = self.partition_of(transactional_id)
        return self.of_transactions[index] != NOBODY and not self.loads.is_loading(TRANSACTIONS, index)

    def loads_transactions(self, where: Where) -> bool:
        """Return whether a broker is loading some of the transactional ids that it coordinates."""
        return any(
            self.of_transactions[index] == where.node_id for index in self.loads.loading_partitions(TRANSACTIONS)
        )

    def successor(self, index: int) -> int:
        """Return the broker that takes a partition over when its coordinator stops; NOBODY if no broker runs."""
        running = [node_id for node_id in self.node_ids if node_id not in self.stopped]
        return running[index % len(running)] if running else NOBODY
