"""Start-up: each partition's log is recovered and replayed, a step at a time, while the loaded ones already serve."""

import logging
from collections.abc import Iterator

from coordinator.core import records
from coordinator.runtime.partition import Partition
from protocol.errors import ProtocolError
from protocol.records import Record as LogRecord
from protocol.records import read_end_marker
from storage.layout import DamagedLog
from storage.log import scan

log = logging.getLogger("muster.loader")

STEP_RECORDS = 500  # between two looks at what else there is to do: a millisecond


def replay(partition: Partition) -> Iterator[int]:
    """Rebuild a partition's shard from its log. Yields, a step at a time, how many records it has applied.

    Raises `DamagedLog` for a record that cannot be read: its checksum is right, so it is another writer's mistake or
    ours, and to go on without it would be to forget what was acknowledged.
    """
    shard, source = partition.shard, partition.log
    if source.cut is not None:
        log.warning("a torn write was cut off: %s", source.cut, extra={"partition": partition.index})
    since = 0
    for header, facts in scan(source):
        if header.is_control:
            marker = read_end_marker(facts[0])
            if marker is not None:
                shard.replay_marker(header.producer_id, marker.commits)
            continue
        producer_id = header.producer_id if header.is_transactional else -1
        shard.replay_batch(_decoded(facts, source.directory), producer_id)
        since += len(facts)
        if since >= STEP_RECORDS:
            yield since
            since = 0
    yield since


def _decoded(facts: list[LogRecord], directory: str) -> list[records.Record]:
    decode = records.decode
    found = []
    for fact in facts:
        try:
            found.append(decode(fact.key or b"", fact.value))
        except ProtocolError as error:
            raise DamagedLog(directory, 0, str(error), fact.offset) from None
    return found
