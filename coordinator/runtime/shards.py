"""The shards of partitions: made, served once their logs are replayed, and unloaded when their coordinators move."""

from collections.abc import Mapping
from functools import partial

from coordinator.config import limits
from coordinator.core.assignors.spec import Assignor
from coordinator.core.catalog.names import OFFSETS_TOPIC
from coordinator.core.shard import Shard
from coordinator.runtime.engine import Engine, marker
from coordinator.runtime.error_response import error_response, groups_full_response, unserved_response
from coordinator.runtime.partition import Partition
from protocol.errors import ErrorCode


class Shards:
    """The shards of an engine."""

    def __init__(self, engine: Engine, assignors: Mapping[str, Assignor]) -> None:
        self._engine = engine
        self._assignors = assignors

    def make(self, index: int) -> Shard:
        """Return the shard of a partition, without groups."""
        engine = self._engine
        shard = Shard(index, limits(engine.config), engine.ledger.catalog.topics, self._assignors)
        shard.attempt = engine.attempt
        shard.timers.wake = engine.wake_at
        shard.refuse_group = engine.refuse_group
        shard.shortage = engine.shortage
        shard.refuse_members = partial(groups_full_response, setting="group.members.max.bytes")
        shard.refuse_offsets = partial(error_response, code=ErrorCode.INVALID_COMMIT_OFFSET_SIZE)  # raised by clients
        shard.refuse_records = partial(unserved_response, code=ErrorCode.UNKNOWN_SERVER_ERROR)
        shard.hold = engine.hold_members
        shard.offsets.hold = engine.hold_offsets
        return shard

    def serve(self, partition: Partition, now_ms: int) -> None:
        """Serve the partition's groups from now on: its log has been replayed, if there is one."""
        engine = self._engine
        partition.served_by = engine.coordinators.of_groups[partition.index]
        self._abort_unknown_transactions(partition, now_ms)
        engine.take_all(partition, partition.shard.finish_loading(now_ms, engine.ledger.catalog.gone))

    def _abort_unknown_transactions(self, partition: Partition, now_ms: int) -> None:
        """Abort what is open in a partition's log and in no transaction, because a power cut took its beginning."""
        engine, name = self._engine, (OFFSETS_TOPIC, partition.index)
        for producer_id, producer in partition.log.producers.items() if partition.has_log else ():
            if producer.first_open_offset is not None and not engine.ledger.transactions.is_open(producer_id, name):
                engine.write_marker(partition, producer_id, False, marker(producer_id, producer.epoch, False, now_ms))

    def unload(self, partition: Partition, now_ms: int, reason: str) -> None:
        """Append what the partition's coordinator has decided, answer who waits for it, and forget all else."""
        engine, old, new = self._engine, partition.shard, self.make(partition.index)
        if partition.is_loaded:
            engine.take_all(partition, old.unload(now_ms, reason))
            if size := partition.flush():
                engine.dataplane.wake_fetches_of_offsets(partition.index, size)
        engine.hold_members(-old.members_bytes)
        engine.hold_offsets(-old.offsets.bytes)
        new.own_limits, new.tally = old.own_limits, old.tally  # settings, and counters of the process
        partition.unload(new)
