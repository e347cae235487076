"""Start-up: each partition's log is recovered and replayed, a step at a time, while the loaded ones already serve."""

from collections.abc import Iterator

from coordinator.core import records
from coordinator.core.decision import Steps
from coordinator.core.kinds.kind import Inconsistent
from coordinator.core.offset_records import Commits, read_commits
from coordinator.runtime import log_pace
from coordinator.runtime.damage import describe_damage, read_log_with
from coordinator.runtime.log_pace import LogPace
from coordinator.runtime.partition import Partition
from protocol import record_batch
from protocol.compression import Meter
from protocol.errors import ProtocolError
from protocol.record_batch import BatchHeader
from protocol.records import Record as LogRecord
from protocol.records import read_end_marker
from storage.log import Log


def replay(partition: Partition) -> Iterator[int]:
    """Rebuild a partition's shard from its log. Yields, a step at a time, how many records it has applied.

    Raises `DamagedLog` for a record that cannot be read, and for records that contradict each other.
    """
    shard, source, pace, most = partition.shard, partition.log, LogPace(), log_pace.STEP_RECORDS
    for header, (commits, facts) in read_log_with(_read, source):
        try:
            if commits is not None:
                shard.replay_commits(commits)
            elif header.is_control:
                for _ in _end_transaction(partition, header, facts[0]):
                    yield 0
            else:
                producer_id = header.producer_id if header.is_transactional else -1
                for at in range(0, len(facts), most):
                    if at:
                        yield most
                    shard.replay_batch(_decode(facts[at : at + most], source), producer_id)
        except (ProtocolError, Inconsistent) as error:
            raise describe_damage(source, header.base_offset, error) from error
        told = max(0, len(facts) - 1) // most * most  # of this batch
        if pace.count(header, header.count - told):
            yield pace.take()
    yield pace.take()


def _read(data: bytes, at: int, header: BatchHeader) -> tuple[list[Commits] | None, list[LogRecord]]:
    """Read a batch. Nearly every one is a commit, whose offsets need no records on their way; others have their
    records."""
    if not (header.is_control or header.is_transactional):
        commits = read_commits(*record_batch.plain(data, at, header, Meter()), header.count)
        if commits is not None:
            return commits, []
    return None, record_batch.read(data, at, header, Meter())


def _end_transaction(partition: Partition, header: BatchHeader, fact: LogRecord) -> Steps[None]:
    marker = read_end_marker(fact)
    if marker is not None:
        yield from partition.replay_end(header.producer_id, marker.commits, header.base_offset)


def _decode(facts: list[LogRecord], source: Log) -> list[records.Record]:
    decode = records.decode
    found = []
    for fact in facts:
        try:
            found.append(decode(fact.key or b"", fact.value))
        except ProtocolError as error:
            raise describe_damage(source, fact.offset, error) from None
    return found
