"""Whether groups are spread over the logs at hand as they would be over a given number of partitions.

Kafka puts a group into the partition of its hash. A number that is not that of the topic leads to another log, in which
the group is not.
"""

import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress

from coordinator.core.record_schemas import BY_KEY
from pipeline.decode import plain
from pipeline.decode.layout import TOPIC, segments
from pipeline.decode.logs import LogDir
from pipeline.errors import UsageError
from protocol.java_hash import partition_of

KEYS = {struct.pack(">H", kind.type) for kind in BY_KEY.values()} | {b"\0\0"}  # of commits there are two versions
SAMPLE_BYTES = 256 << 10  # of the first log that holds a group


def check_num_partitions(found: Sequence[LogDir], homes: set[int], number: int) -> None:
    """Raise UsageError where the logs show that their topic has another number of partitions.

    On a cluster all of them are known. Of directories some may be missing, so the groups of one log are looked at: of
    that which is to be read, or of another one, if it is empty or missing.
    """
    logs = [log for log in found if log.topic == TOPIC]
    on_cluster = [log for log in logs if log.is_on_cluster]
    if on_cluster and len(on_cluster) != number:
        raise UsageError(f"invalid option num_partitions={number}: expected {len(on_cluster)}, which the cluster has")
    if logs and (last := max(log.partition for log in logs)) >= number:
        raise UsageError(f"invalid option num_partitions={number}: expected more, since there is {TOPIC}-{last}")
    for log in sorted(logs, key=lambda log: log.partition not in homes):
        groups = [] if log.is_on_cluster else list(_groups(log))
        for group in groups:
            if (home := partition_of(group, number)) != log.partition:
                raise UsageError(
                    f"invalid option num_partitions={number}: by it group {group!r} would be in {TOPIC}-{home}, and it"
                    f" is in {log.name}"
                )
        if groups:
            return


def _groups(log: LogDir) -> Iterator[str]:
    """Yield the groups of records at the beginning of a log; those of damaged batches are passed over."""
    first = next((segment for segment in segments(log) if segment.size), None)
    data = log.store.read(first.path, 0, SAMPLE_BYTES) if first else b""
    for batch in plain.batches(data):
        if batch.is_control or not batch.valid:
            continue
        with suppress(ValueError, IndexError, struct.error):
            for record in plain.records(data, batch):
                if record.key is not None and record.key[:2] in KEYS:
                    yield plain.group_of(record.key)
