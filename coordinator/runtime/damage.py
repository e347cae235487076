"""Logs whose checksums are right and whose contents are not: another writer's mistake, or ours.

To skip an unreadable batch would lose acknowledged records. So start-up fails, and the error names the position.
"""

from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from protocol.errors import ProtocolError
from protocol.record_batch import BatchHeader
from protocol.records import Record
from storage.layout import DamagedLog
from storage.log import Log, read_metered, scan_by

_Read = TypeVar("_Read")

MISSING: Final = "the log is missing, though it was written to"


def read_log(source: Log, start: int | None = None) -> Iterator[tuple[BatchHeader, list[Record]]]:
    """Yield every batch of the log with its records, from an offset on.

    Raises `DamagedLog` for one whose records cannot be told apart.
    """
    return read_log_with(read_metered, source, start)


def read_log_with(
    read: Callable[[bytes, int, BatchHeader], _Read], source: Log, start: int | None = None
) -> Iterator[tuple[BatchHeader, _Read]]:
    """Yield every batch with what `read` makes of it, as `read_log` does with its records."""
    offset = source.start_offset if start is None else start
    try:
        for header, facts in scan_by(read, source, start):
            yield header, facts
            offset = header.next_offset
    except ProtocolError as error:
        raise describe_damage(source, offset, error) from error


def describe_damage(source: Log, offset: int, reason: Exception) -> DamagedLog:
    """Describe damage at `offset`: the file, and the position of the batch in it."""
    why = f"offset {offset}: {reason}"
    for segment in source.segments:
        for found in segment.batches(offset):
            if found.header.next_offset > offset:
                return DamagedLog(segment.path, found.position, why)
    return DamagedLog(source.directory, 0, why)
