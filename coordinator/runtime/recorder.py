"""Make what the catalog and the transactions decide true: in the ledger, in topics, in groups, in markers."""

from collections.abc import Callable
from typing import Any

from coordinator.core.catalog.catalog import GROUP, Change
from coordinator.core.catalog.names import OFFSETS_TOPIC
from coordinator.core.catalog.records import ConfigKey
from coordinator.core.decision import Steps
from coordinator.core.result import COORDINATOR_EPOCH, Markers, Result
from coordinator.core.transactions.ending import complete
from coordinator.runtime.partition import Partition
from coordinator.runtime.topic_log import log_changes
from coordinator.runtime.world import World
from protocol import record_batch
from protocol.records import EndMarker


class Recorder:
    """Records results of the catalog and of transactions, and ends the transactions that they decide to end."""

    def __init__(
        self,
        world: World,
        *,
        follow_topics: Callable[[tuple[Change, ...], int], None],
        do_in_steps: Callable[[Steps[None]], None],
        append: Callable[[], None],
    ) -> None:
        """`follow_topics` does what others have to do when topics come, grow or go; `append` has what was
        decided in its logs when it returns."""
        self._world = world
        self._follow_topics = follow_topics
        self._do_in_steps = do_in_steps
        self._append = append
        self._ending: set[str] = set()  # the transactional ids of the transactions whose markers are being written

    def record(self, result: Result[Any], now_ms: int) -> Any:
        """Make a result of the catalog or of a transaction so, and return its response."""
        ends = [(effect, _batch(effect, now_ms)) for effect in result.effects if type(effect) is Markers]
        changes = self._world.ledger.record(result, now_ms)
        if changes:
            self._apply_topic_changes(changes, now_ms)
        for record in result.records:
            if isinstance(record.key, ConfigKey) and record.key.resource_type == GROUP:
                self.configure_group(record.key.resource_name)
        for markers, batch in ends:
            self._end_transaction(markers, batch, now_ms)
        return result.response

    def configure_group(self, group_id: str) -> None:
        """Give a group the settings of its own that the catalog has; they count from its next request on."""
        catalog, shard = self._world.ledger.catalog, self._world.partitions.owner(group_id).shard
        stored, own = catalog.configs.get((GROUP, group_id), {}), None
        if stored:
            from coordinator.core.catalog.group_configs import limits_with

            own = limits_with(shard.limits, stored, catalog.settings)
        shard.set_limits(group_id, own)

    def _apply_topic_changes(self, changes: tuple[Change, ...], now_ms: int) -> None:
        log_changes(changes)
        topics = self._world.ledger.catalog.topics
        self._world.dataplane.apply_topic_changes(changes)
        for partition in self._world.partitions:
            partition.shard.set_topics(topics)
        self._follow_topics(changes, now_ms)

    # -- the end of a transaction --------------------------------------------------------------------------------------

    def _end_transaction(self, markers: Markers, batch: bytes, now_ms: int) -> None:
        """Write the end of a transaction into its partitions; it is complete when they are in their logs.

        While one of them is loading it stays prepared, and its producer is told to come back (51), as by Kafka: to a
        log that is being opened or replayed nothing may be written. The end of the loading writes the markers.
        """
        world = self._world
        if world.is_synced:
            world.ledger.sync()  # that it is decided is on the disk before any of its markers
        own = [world.partitions[index] for topic, index in markers.partitions if topic == OFFSETS_TOPIC]
        if not all(partition.is_loaded for partition in own):
            return
        ends = [self.write_marker(partition, markers.producer_id, markers.committed, batch) for partition in own]
        self._do_in_steps(self._write_markers(markers, batch, now_ms, ends))

    def _write_markers(self, markers: Markers, batch: bytes, now_ms: int, ends: list[Steps[None]]) -> Steps[None]:
        """Apply the end of a transaction to offsets, write it into its partitions of topics, and complete the
        transaction, in steps."""
        ledger = self._world.ledger
        self._ending.add(markers.transactional_id)
        try:
            for steps in ends:
                yield from steps
            is_complete = yield from self._world.dataplane.end_transaction(markers, batch, now_ms)
            if is_complete:  # else it stays prepared, and the next start writes the markers that are missing
                ledger.complete(complete(ledger.transactions, markers.transactional_id, now_ms), now_ms)
        finally:
            self._ending.discard(markers.transactional_id)

    @property
    def has_prepared_transactions(self) -> bool:
        """Whether the end of a transaction was decided, and its markers are not written."""
        return bool(self._world.ledger.transactions.find_prepared_transactions())

    def finish_transactions(self, now_ms: int) -> None:
        """Write the markers that a crash or a failed write has cut off, or that were decided during the loading.

        While a partition is closed its transactions stay prepared: the next start finishes them.
        """
        world = self._world
        self._append()  # what is only to be settled is not marked twice
        for markers in world.ledger.transactions.find_prepared_transactions():
            if markers.transactional_id in self._ending:
                continue
            if world.dataplane.closed_partitions.keys().isdisjoint(markers.partitions):
                world.edge.attempt("transaction", self.record, Result(effects=(markers,)), now_ms)
        self._append()

    def write_marker(self, partition: Partition, producer_id: int, committed: bool, batch: bytes) -> Steps[None]:
        """End a producer's transaction in a partition of `__consumer_offsets`, which is loaded. Return the steps that
        apply the end."""
        self._world.dirty[partition] = None
        return partition.end_transaction(producer_id, committed, batch)


def marker(producer_id: int, producer_epoch: int, committed: bool, now_ms: int) -> bytes:
    """Return the batch that ends a transaction, the same in each of its partitions."""
    end = EndMarker(commits=committed, coordinator_epoch=COORDINATOR_EPOCH)
    return record_batch.encode_marker(end, now_ms, producer_id=producer_id, producer_epoch=producer_epoch)


def _batch(markers: Markers, now_ms: int) -> bytes:
    return marker(markers.producer_id, markers.producer_epoch, markers.committed, now_ms)
