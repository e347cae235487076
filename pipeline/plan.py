"""Plan which task reads which spans, from listings and indexes; records are looked at only to check an option."""

from collections.abc import Iterable, Mapping

import msgspec

from coordinator.core.catalog.names import SHARE_STATE_TOPIC
from pipeline.decode.layout import entries, logs_at, newest_ts
from pipeline.decode.logs import START, LogDir, Position, Span
from pipeline.decode.positions import between
from pipeline.decode.spread import check_num_partitions
from pipeline.options import SourceOptions
from protocol.java_hash import partition_of


class Task(msgspec.Struct, frozen=True):
    """The spans that one Spark task reads, in this order."""

    spans: tuple[Span, ...]


def logs(options: SourceOptions) -> list[LogDir]:
    """Return the logs to read: all of the topics, or those that may hold the wanted groups.

    The states of share partitions are spread by group, topic and partition, so each of their logs may hold any group.
    """
    found = logs_at(options.paths, options.topics)
    if options.log_partitions is not None:
        found = [log for log in found if log.partition in options.log_partitions]
    if (groups := options.wanted_groups) is not None and options.num_partitions:
        homes = {partition_of(group, options.num_partitions) for group in groups}
        check_num_partitions(found, homes, options.num_partitions)
        found = [log for log in found if log.partition in homes or log.topic == SHARE_STATE_TOPIC]
    return found


def tasks(
    options: SourceOptions,
    found: Iterable[LogDir],
    starts: Mapping[str, Position] | None = None,
    ends: Mapping[str, Position] | None = None,
) -> list[Task]:
    """Return the logs from their starts to their ends, as tasks of about `split_bytes`.

    With `reduce=latest` a partition is one task, since only the whole of it says what counts.
    """
    reads = []
    for log in found:
        start = starts.get(log.name, START) if starts else START
        spans = between(log, start, ends.get(log.name, start) if ends is not None else None, options.split_bytes)
        reads += _without_old_segments(log, spans, options.since_ms)
    if options.is_reduced:
        partitions = sorted({span.log.partition for span in reads})
        return [Task(tuple(span for span in reads if span.log.partition == number)) for number in partitions]
    return _pack(reads, options.split_bytes)


def _without_old_segments(log: LogDir, spans: list[Span], since_ms: int | None) -> list[Span]:
    """Leave out the closed segments whose `.timeindex` says that all of their records are older."""
    if since_ms is None or not spans or log.is_on_cluster:
        return spans
    listing = entries(log)
    closed = {span.segment for span in spans if not span.active}
    old = {segment for segment in closed if (newest_ts(log, segment, listing) or since_ms) < since_ms}
    return [span for span in spans if span.segment not in old]


def _pack(spans: list[Span], split_bytes: int) -> list[Task]:
    """Pack neighbouring spans together until a task has about `split_bytes`."""
    result: list[Task] = []
    pack: list[Span] = []
    size = 0
    for span in spans:
        if pack and size + span.size > split_bytes:
            result.append(Task(tuple(pack)))
            pack, size = [], 0
        pack.append(span)
        size += span.size
    return [*result, Task(tuple(pack))] if pack else result
