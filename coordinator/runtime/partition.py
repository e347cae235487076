"""One partition of `__consumer_offsets`: its shard, which decides, and its log, which remembers."""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from coordinator.core import records
from coordinator.core.catalog.settings import TopicSettings
from coordinator.core.decision import Steps
from coordinator.core.offset_records import write_records
from coordinator.core.offsets.commit_history import CommitHistory, EndOfTransaction
from coordinator.core.offsets.store import note_nothing
from coordinator.core.record_types import OffsetCommitKey, OffsetCommits, Record
from coordinator.core.result import Producer, Result
from coordinator.core.shard import Shard
from coordinator.core.surroundings import Write
from coordinator.dataplane.brokers import NOBODY
from protocol import record_batch
from protocol.record_batch import PlainBatch
from protocol.records import Record as LogRecord
from storage.appended_keys import KeyFamily
from storage.log import Log
from storage.producers import ProducerCount

Keyed = Record | KeyFamily


class Partition:
    """A shard with its log. What a turn decides is gathered here, and appended at the end of the turn in one write."""

    __slots__ = (
        "_batches",
        "_ending",
        "_facts",
        "_log",
        "_make_shard",
        "_open",
        "_plain",
        "_plain_facts",
        "_producers",
        "_settings",
        "history",
        "index",
        "served_by",
        "shard",
    )

    def __init__(
        self,
        make_shard: Callable[[Write], Shard],
        open_log: Callable[[], Log],
        settings: Callable[[], TopicSettings] | None = None,
    ) -> None:
        """`make_shard` gets what the shard writes with. `settings` are those of the topic, as they are now."""
        self.shard = make_shard(self.write)
        self.index = self.shard.partition
        self.served_by = NOBODY  # the broker that coordinates its groups, once they are loaded
        self._ending: dict[int, int] = {}  # by producer, the log's end before the marker that is being applied
        self.history: CommitHistory | None = None  # of one that may move to another broker
        self._make_shard = make_shard
        self._open = open_log
        self._settings = settings
        self._log: Log | None = None  # made when it is first written to, or loaded
        self._producers: ProducerCount | None = None
        self._batches: list[bytes] = []
        self._facts: list[Sequence[Keyed]] = []  # of each batch; none of an end marker
        self._plain: PlainBatch | None = None
        self._plain_facts: list[Keyed] = []

    @property
    def is_loaded(self) -> bool:
        """Whether its groups are served."""
        return self.served_by != NOBODY

    def unload(self) -> None:
        """Forget what the shard holds: another one is to be rebuilt from the log. All that was gathered is appended."""
        assert not self._batches, f"partition {self.index} is unloaded before what it has gathered is appended"
        old, self.shard = self.shard, self._make_shard(self.write)
        old.end_renewals()
        self.shard.adopt(old)
        self.served_by = NOBODY

    def open(self) -> None:
        """Open and so recover the log, which may take as long as reading it. Nothing else of the partition is
        touched."""
        if self._log is None:
            self._log = self._open()
            self._log.write_key = _write_key

    @property
    def log(self) -> Log:
        """The log; its directory appears when it is first written to."""
        if self._log is None:
            self.open()
            self._count_producers()
        assert self._log is not None, "it is open"
        return self._log

    def share_producers(self, total: ProducerCount) -> None:
        """Count the producers of the log among those of other logs: clients may make it know any number of them."""
        self._producers = total
        self._count_producers()

    def _count_producers(self) -> None:
        if self._log is not None and self._producers is not None:
            self._log.producers.share(self._producers)

    @property
    def has_log(self) -> bool:
        """Whether anything was ever written."""
        return self._log is not None

    @property
    def gathered_records(self) -> int:
        """How many records wait to be appended, those in the name of a producer left out."""
        return self._plain.count if self._plain else 0

    def write(self, result: Result[Any], now_ms: int) -> None:
        """Encode the records of a result, to be appended at the end of the turn.

        Those of one result end in one batch, and so are written whole or not at all. Raises for what cannot be encoded,
        and then has changed nothing.
        """
        assert self.served_by != NOBODY, f"partition {self.index} is written to while it is loaded"
        if result.producer is None:
            plain = self._plain or PlainBatch(now_ms)
            plain.extend(write_records, result.records, now_ms, None if result.is_forced else self._may_take)
            self._plain = plain
            for fact in result.records:
                self._plain_facts.append(
                    KeyFamily((fact.group, fact.topic), fact.partitions) if type(fact) is OffsetCommits else fact
                )
        else:
            batch = self._transactional(result.records, result.producer, now_ms)
            self._seal()
            self._gather(batch, result.records)
        if self.history is not None:
            self.history.note_result(result, self.shard.offsets)

    def _may_take(self, facts: Sequence[Any], size: int) -> bool:
        """Return whether the log takes so many bytes at once. Commits are decided in parts, which are bounded."""
        first = facts[0]
        is_commit = type(first) is OffsetCommits or type(first.key) is OffsetCommitKey
        return is_commit or self._settings is None or size <= self._settings().max_message_bytes

    def end_transaction(self, producer_id: int, committed: bool, marker: bytes) -> Steps[None]:
        """Gather the batch that ends a producer's transaction, and return the steps that apply its end."""
        assert self.is_loaded, f"partition {self.index} is written to while it is loaded"
        self._seal()
        self._gather(marker, ())
        if self.history is not None:
            self._ending[producer_id] = self.log.end_offset  # the marker comes behind it
        changes = EndOfTransaction()
        note = note_nothing if self.history is None else changes.note
        steps = self.shard.end_transaction(producer_id, committed, note)
        return self._apply_end(producer_id, self.shard, steps, changes)

    def replay_end(self, producer_id: int, committed: bool, offset: int) -> Steps[None]:
        """Apply the end of a transaction that is in the log at an offset. One that was being applied when the
        coordinator moved is noted now."""
        since = self._ending.get(producer_id)
        if self.history is None or since is None or offset < since:
            yield from self.shard.end_transaction(producer_id, committed)
            return
        changes = EndOfTransaction()
        yield from self.shard.end_transaction(producer_id, committed, changes.note)
        self.history.note_end(changes)
        del self._ending[producer_id]

    def _apply_end(self, producer_id: int, shard: Shard, steps: Steps[None], changes: EndOfTransaction) -> Steps[None]:
        """Apply the end to the offsets of a shard. One that has moved does no more, or nothing if it has not begun: the
        one in its place has found the marker in the log."""
        is_over = object()
        while self.shard is shard:
            if next(steps, is_over) is is_over:
                if self.history is not None:
                    self.history.note_end(changes)
                self._ending.pop(producer_id, None)
                return
            yield

    def flush(self) -> int:
        """Append what was gathered, in one write; how many bytes. Raises StorageError, after which nothing may be
        answered."""
        self._seal()
        batches, self._batches = self._batches, []
        facts, self._facts = self._facts, []
        if batches:
            self.configure()
            self.log.append(batches, facts)
        return sum(map(len, batches))

    def configure(self) -> None:
        """Let the log have the settings of its topic as they are now. Each use that goes by them begins with it."""
        if self._settings is not None:
            now, log = self._settings(), self.log
            log.config = replace(
                log.config,
                segment_bytes=now.segment_bytes,
                delete_retention_ms=now.delete_retention_ms,
                min_cleanable_dirty_ratio=now.min_cleanable_dirty_ratio,
            )

    @staticmethod
    def _transactional(facts: Sequence[Record], producer: Producer, now_ms: int) -> bytes:
        written = [LogRecord(*records.encode(fact), timestamp=now_ms) for fact in facts]
        return record_batch.encode(written, producer_id=producer.id, producer_epoch=producer.epoch, transactional=True)

    def _seal(self) -> None:
        """Close the batch of plain records, so that what follows stands behind it."""
        if self._plain:
            self._gather(self._plain.seal(), self._plain_facts)
            self._plain, self._plain_facts = None, []

    def _gather(self, batch: bytes, facts: Sequence[Keyed]) -> None:
        self._batches.append(batch)
        self._facts.append(facts)


def _write_key(key: Any) -> bytes:
    """Write a key as it is in the log; one of a family comes as group and topic, and the partition."""
    if type(key) is tuple:
        (group, topic), partition = key
        key = OffsetCommitKey(group, topic, partition)
    return records.encode(Record(key, None))[0]
