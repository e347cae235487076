"""The shards of partitions: made, served once their logs are replayed, and unloaded when their coordinators move."""

from collections.abc import Mapping
from functools import partial
from typing import Final

from coordinator.config import limits
from coordinator.core.assignors.spec import Assignor
from coordinator.core.catalog.names import OFFSETS_TOPIC
from coordinator.core.decision import Steps
from coordinator.core.result import Result
from coordinator.core.shard import Shard
from coordinator.core.surroundings import Surroundings, Write
from coordinator.runtime.engine import Engine
from coordinator.runtime.error_response import error_response, groups_full_response, unserved_response
from coordinator.runtime.partition import Partition
from coordinator.runtime.recorder import marker
from protocol.errors import ErrorCode

PRODUCER_IDS_MAX: Final = 2**62  # no cluster gives out as many; a marker that an administrator writes may name any


class Shards:
    """The shards of an engine."""

    def __init__(self, engine: Engine, assignors: Mapping[str, Assignor]) -> None:
        self._engine = engine
        self._limits = limits(engine.world.config)
        self._assignors = assignors
        self._surroundings = Surroundings(
            attempt=engine.attempt,
            wake=engine.wake_at,
            hold_members=engine.memory.hold_members,
            hold_offsets=engine.memory.hold_offsets,
            shortage=engine.memory.shortage,
            refuse_group=engine.memory.refuse_group,
            refuse_members=partial(groups_full_response, setting="group.members.max.bytes"),
            refuse_offsets=partial(error_response, code=ErrorCode.INVALID_COMMIT_OFFSET_SIZE),  # raised by clients
            refuse_records=partial(unserved_response, code=ErrorCode.UNKNOWN_SERVER_ERROR),
            refuse_ending=partial(unserved_response, code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        )

    def make(self, index: int, write: Write) -> Shard:
        """Return the shard of a partition, without groups."""
        topics = self._engine.world.ledger.catalog.topics
        return Shard(index, self._limits, topics, self._assignors, write=write, surroundings=self._surroundings)

    def serve(self, partition: Partition, now_ms: int) -> None:
        """Serve the partition's groups from now on: its log has been replayed, if there is one."""
        engine = self._engine
        partition.share_producers(engine.world.dataplane.producers)
        partition.served_by = engine.world.coordinators.of_groups[partition.index]
        self._abort_unknown_transactions(partition, now_ms)
        self._keep_producer_ids(partition, now_ms)
        engine.take_all(partition, partition.shard.finish_loading(now_ms))
        if gone := engine.world.ledger.catalog.gone:
            forgotten = {name: tuple(ids) for name, ids in gone.items()}
            engine.forget_topics(engine.take_steps(partition, partition.shard.forget_topics(forgotten, now_ms)))

    def _abort_unknown_transactions(self, partition: Partition, now_ms: int) -> None:
        """Abort what is open in a partition's log and in no transaction, because a power cut took its beginning."""
        engine, name = self._engine, (OFFSETS_TOPIC, partition.index)
        for producer_id, producer in partition.log.producers.items() if partition.has_log else ():
            if producer.first_open_offset is not None and not engine.world.ledger.transactions.is_open(
                producer_id, name
            ):
                batch = marker(producer_id, producer.epoch, False, now_ms)
                engine.do_in_steps(engine.recorder.write_marker(partition, producer_id, False, batch))

    def _keep_producer_ids(self, partition: Partition, now_ms: int) -> None:
        """Let no producer get an id that a partition's log knows, which another broker may have written, or of which a
        power cut took the record: that log would hold the epochs of one producer against the other."""
        if not partition.has_log:
            return
        known = [producer_id for producer_id, _ in partition.log.producers.items() if producer_id < PRODUCER_IDS_MAX]
        kept = self._engine.world.ledger.transactions.keep_producer_ids(max(known, default=-1) + 1)
        if kept:
            self._engine.record(Result(records=kept), now_ms)

    def unload(self, partition: Partition, now_ms: int, reason: str) -> None:
        """Append what a coordinator has decided, and forget it; clients that wait are answered in steps."""
        engine, old, is_loaded = self._engine, partition.shard, partition.is_loaded
        if is_loaded and (size := partition.flush()):
            engine.world.dataplane.wake_fetches_of_offsets(partition.index, size)
        engine.memory.hold_members(-old.members_bytes)
        engine.memory.hold_offsets(-old.offsets.bytes)
        partition.unload()
        engine.do_in_steps(self._dismiss(partition, old, now_ms, reason, is_told=is_loaded))

    def _dismiss(self, partition: Partition, old: Shard, now_ms: int, reason: str, *, is_told: bool) -> Steps[None]:
        """Answer clients that wait for a coordinator that is no more. Nobody waits for one that was not serving yet."""
        for results in old.unload(now_ms, reason):
            if is_told:
                self._engine.take_all(partition, results)
            yield
