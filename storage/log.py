"""The log of one partition: append, read, roll, delete, recover. `compaction.py` plans a compaction, `cleaner.py`
carries it out.

A batch is in the log when `append` has returned, and on the disk when `sync` has returned. After one of them has raised
`StorageError`, nothing more can be appended; the next start finds what is on the disk.
"""

from __future__ import annotations

import errno
import logging
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise, repeat
from operator import attrgetter
from typing import TypeVar

import msgspec

from protocol import record_batch, time_search
from protocol.compression import Meter
from protocol.record_batch import HEADER_FAST, BatchHeader, Buffer
from protocol.records import Record
from protocol.steps import Steps, finish_steps
from storage import checkpoint as checkpoints
from storage import layout, recovery
from storage.appended_keys import AppendedKeys, KeyedRecord, KeyFamily, WriteKey
from storage.checkpoint import Checkpoint
from storage.compaction import KeyIndex
from storage.file_range import FileRange
from storage.files import File, Files, StorageError
from storage.index import RELATIVE_MAX
from storage.producers import AbortedTransaction, Producers
from storage.recovery import TornWrite, end_marker_of
from storage.segment import BatchPosition, Segment, file_name

logger = logging.getLogger("muster.storage")

_WRITE_BACK_BYTES = 1 << 20
DELETED_AT_ONCE = 50  # segments, whose files are removed: some milliseconds
_PARTS_BYTES = 1 << 18  # from so many bytes on, to join what is appended costs more than to name its parts


class LogConfig(msgspec.Struct, frozen=True):
    """Bytes and milliseconds; the names are Kafka's topic settings."""

    segment_bytes: int = 100 * 1024 * 1024
    """Kafka's default for `__consumer_offsets`. Rolling syncs a segment. Most of it is on the disk by then, because the
    system was asked to write it back a mebibyte at a time."""
    index_interval_bytes: int = 4096
    delete_retention_ms: int = 86_400_000
    min_cleanable_dirty_ratio: float = 0.5
    compaction_bytes_min: int = 1024 * 1024
    """A log is compacted only after it has grown by as much as this. Muster's own setting."""


class OffsetOutOfRange(LookupError):  # noqa: N818 - Kafka's name for it
    """The offset is before the start of the log or after its end."""


TimeSteps = Generator[None, None, tuple[int, int] | None]
_base_offset = attrgetter("base_offset")
_Read = TypeVar("_Read")
_Method = TypeVar("_Method", bound=Callable[..., object])


def _final(method: _Method) -> _Method:
    """Wrap a method whose failure closes the log: later calls raise the first failure again."""

    def wrapper(self: Log, *arguments: object, **named: object) -> object:
        if self.failure is not None:
            raise self.failure
        try:
            return method(self, *arguments, **named)
        except StorageError as failure:
            self.failure = failure
            raise

    wrapper.__name__, wrapper.__doc__ = method.__name__, method.__doc__
    return wrapper  # type: ignore[return-value]  # the wrapper takes what the method takes


class Log:
    """The log of one partition. Made by `Log.open`. It is not thread-safe."""

    def __init__(self, files: Files, directory: str, config: LogConfig) -> None:
        self.directory = directory
        self.config = config
        self.segments: list[Segment] = []
        """In the order of offsets; the last one is the active one. Empty before the first append to a new log."""
        self.producers = Producers()
        self.cut: TornWrite | None = None
        """The torn write that recovery has cut off the end, if there was one."""
        self.failure: StorageError | None = None
        """Why nothing more can be appended, None while it can."""
        self.compaction_failure: StorageError | None = None
        """Why the log cannot be compacted before the next start has finished an interrupted swap."""
        self.files = files
        self._deleted = deque[str]()  # paths of deleted segments whose files are still there
        self._checkpoint = Checkpoint()
        self._written_back = 0
        self.write_key: WriteKey = bytes
        """Encodes the keys of the records that `append` is given, as they are in the log."""
        self._appended_keys: AppendedKeys | None = None

    # -- opening and closing -------------------------------------------------------------------------------------------

    @classmethod
    def open(cls, files: Files, directory: str, config: LogConfig | None = None) -> Log:
        """Open the log in `directory`, and recover it. A missing directory is an empty log, made with the first append.

        Raises `DamagedLog`, and then has changed nothing. `log.cut` is the torn write that was cut off the end.
        """
        return finish_steps(cls.open_in_steps(files, directory, config))

    @classmethod
    def open_in_steps(cls, files: Files, directory: str, config: LogConfig | None = None) -> Steps[Log]:
        """Do what `open` does, in steps: a log is read as a whole. Nothing is changed before the last of them."""
        log = cls(files, directory, config or LogConfig())
        if files.list(directory):
            yield from log._recover()
        return log

    def relocate(self, directory: str) -> None:
        """Know the log by another directory: the one that has it was renamed."""
        for segment in self.segments:
            segment.path = f"{directory}/{file_name(segment.base_offset)}"
        self._deleted = deque([f"{directory}/{path.rpartition('/')[2]}" for path in self._deleted])
        self.directory = directory

    def _recover(self) -> Steps[None]:
        found = layout.look(self.files, self.directory)
        report = yield from recovery.examine_in_steps(
            self.files, self.directory, found, self.config.index_interval_bytes
        )
        layout.tidy(self.files, self.directory, found)
        for segment in report.segments:  # `tidy` has renamed those that ended with `.swap`
            segment.path = f"{self.directory}/{file_name(segment.base_offset)}"
        self.segments, self.producers = report.segments, report.producers
        self._checkpoint, self.cut = report.checkpoint, report.cut
        if self.start_offset > 0:
            self.producers.note_deletion()
        if not self.segments:
            return
        active = self.segments[-1].open()
        if self.cut is not None:
            self._cut_off(self.cut)
        base = self.segments[-1].base_offset
        is_saved = self._checkpoint.recovery_point >= self.end_offset and self._checkpoint.segment_base == base
        if self.cut is not None or report.is_foreign or not is_saved:
            active.sync()
            self.files.sync_directory(self.directory)  # a crash may have come before the segment's name was durable
            self._save(recovery_point=self.end_offset, segment_base=base)
        self._drop_deleted_segments()  # only now: the old checkpoint may name one of these segments
        self._written_back = self.segments[-1].size

    def _cut_off(self, cut: TornWrite) -> None:
        """Cut a torn write off the end of the active segment, and keep its bytes in a file beside it."""
        segment = self.segments[-1]
        torn = segment.open().pread(cut.position, cut.size)
        kept_as = recovery.keep_torn(self.files, segment.path, torn)
        segment.open().truncate(cut.position)
        what = "%d bytes of a torn write are cut off at %s:%d (offset %d, %s) and kept as %s"
        logger.warning(what, cut.size, segment.path, cut.position, cut.offset, cut.reason, kept_as)

    @_final
    def close(self) -> None:
        """Sync everything, write Kafka's index files, and close the files."""
        if self.segments and self._checkpoint.recovery_point < self.end_offset:
            self.segments[-1].open().sync()
            self._write_indexes()
            self._save(recovery_point=self.end_offset)
        self.release()

    def release(self) -> None:
        """Close the files without a sync, and leave the rest to the next start, as after a killed process."""
        for segment in self.segments:
            with suppress(StorageError):  # everything acknowledged was synced before, where that was promised
                segment.release()

    def abandon(self) -> None:
        """Close the files, because they are about to be removed, and append nothing any more.

        A compaction under way finds no segment left.
        """
        self.release()
        self.segments.clear()
        self._deleted.clear()
        self.failure = self.failure or StorageError("append to", self.directory, errno.EBADF, "the log is abandoned")

    # -- state ---------------------------------------------------------------------------------------------------------

    @property
    def start_offset(self) -> int:
        return self._checkpoint.start_offset

    @property
    def end_offset(self) -> int:
        """The offset of the next record; also the high watermark, for there are no replicas."""
        return self.segments[-1].end_offset if self.segments else self._checkpoint.start_offset

    @property
    def last_stable_offset(self) -> int:
        """The offset up to which every transaction is decided, and read_committed consumers may read.

        It is never before the start of the log, though a transaction may be that has lost its first records.
        """
        return max(self.producers.last_stable_offset(self.end_offset), self._checkpoint.start_offset)

    def collect_aborted_transactions(self, first: int, end: int) -> list[AbortedTransaction]:
        """Collect the aborted transactions that touch the offsets from `first` up to, not including, `end`."""
        return self.producers.find_aborted_transactions(first, end)

    @property
    def leader_epoch(self) -> int:
        return self._checkpoint.leader_epoch

    @property
    def checkpoint(self) -> Checkpoint:
        return self._checkpoint

    @property
    def has_file_open(self) -> bool:
        """Whether the file of the active segment is open. Appending and rolling open it, `release` closes it."""
        return bool(self.segments) and self.segments[-1].is_open

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum([segment.size for segment in self.segments])

    # -- writing -------------------------------------------------------------------------------------------------------

    @_final
    def append(
        self,
        batches: Buffer | Sequence[Buffer],
        records: Sequence[Sequence[KeyedRecord | KeyFamily]] | None = None,
    ) -> int:
        """Append batches in one write, and return the offset of the first record. Raises `StorageError`.

        Base offset and leader epoch are written into each batch, the rest is left as it is. Pass the `records` of each
        batch so that a compaction need not read them again: each needs a key; an end marker needs no records.
        """
        if isinstance(batches, bytes | bytearray | memoryview):
            batches = (batches,)
        assert records is None or len(records) == len(batches), "records of each batch, or of none"
        first = offset = self.end_offset
        headers: list[BatchHeader] = []
        parts: list[Buffer] = []
        for batch in batches:
            header = BatchHeader(offset, *HEADER_FAST.unpack_from(batch)[1:])
            assert header.size == len(batch), "each buffer has one whole batch"
            headers.append(header)
            parts += record_batch.place(batch, offset, self.leader_epoch)
            offset = header.next_offset
        size = sum(map(len, batches))
        segment = self._segment_for(size, offset)
        is_first = segment.size == 0
        file = segment.open()
        if size >= _PARTS_BYTES:
            file.append_parts(parts)
        else:
            file.append(b"".join(parts))
        if records is not None and self._appended_keys is None:
            self._appended_keys = AppendedKeys(first, self.leader_epoch, self.write_key)
        keys = self._appended_keys if records is not None else None
        of_each = repeat((), len(headers)) if records is None else records
        for batch, header, noted in zip(batches, headers, of_each, strict=True):
            segment.learn(header)
            marker = None
            if header.producer_id >= 0:
                marker = end_marker_of(bytes(batch), 0, header) if header.is_control else None
                self.producers.learn(header, marker)
            if keys is not None:
                keys.note(header, noted, marker)
        if keys is None and self._appended_keys is not None:
            self._appended_keys.restart(offset)
        if is_first:  # otherwise a segment that has lost everything would look like a new one
            segment.open().sync()
            self._save(recovery_point=self.end_offset, segment_base=segment.base_offset)
        if segment.size - self._written_back >= _WRITE_BACK_BYTES:
            segment.open().start_writing_back(self._written_back, segment.size - self._written_back)
            self._written_back = segment.size
        return first

    @_final
    def sync(self) -> None:
        """Sync everything that was appended."""
        if self.segments:
            self.segments[-1].open().sync()

    @_final
    def file_to_sync(self) -> File:
        """Return the file to sync for everything that was appended, for `begin_syncs`. The log must not be empty."""
        return self.segments[-1].open()

    def fail(self, failure: StorageError) -> None:
        """Note that a sync in the background has failed: nothing more is written to this log."""
        self.failure = self.failure or failure

    def _segment_for(self, size: int, end_offset: int) -> Segment:
        """Return the segment to append `size` bytes to: a new one if they do not fit."""
        if not self.segments:
            self._begin()
        active = self.segments[-1]
        too_long = end_offset - active.base_offset > RELATIVE_MAX
        if active.size and (active.size + size > self.config.segment_bytes or too_long):
            self.roll()
        return self.segments[-1]

    def _begin(self) -> None:
        """Make the directory. The checkpoint comes first: a log without one is taken for that of another broker."""
        self.files.make_directory(self.directory)
        self._save()
        self._add_segment()

    @_final
    def roll(self, *, with_indexes: bool = True) -> None:
        """Close the active segment and begin the next one. Everything before it is synced.

        A segment that is about to be compacted needs no indexes.
        """
        active = self.segments[-1]
        if not active.size:
            return
        active.open().sync()
        if with_indexes:
            self._write_indexes()
        active.release()
        self._add_segment()
        self._save(recovery_point=self.end_offset, segment_base=self.end_offset)

    def _add_segment(self) -> None:
        path = f"{self.directory}/{file_name(self.end_offset)}"
        segment = Segment(self.files, path, self.end_offset, self.config.index_interval_bytes)
        segment.open(create=True)
        self.files.sync_directory(self.directory)
        self.segments.append(segment)
        self._written_back = 0

    def _write_indexes(self) -> None:
        active = self.segments[-1]
        active.write_indexes(self.producers.transaction_index(active.base_offset))

    def _save(self, **changes: int) -> None:
        self._checkpoint = msgspec.structs.replace(self._checkpoint, **changes)
        checkpoints.write(self.files, self.directory, self._checkpoint)

    # -- deleting ------------------------------------------------------------------------------------------------------

    @_final
    def delete_before(self, offset: int) -> int:
        """Delete the records before `offset`, and return the new start of the log. Whole segments are removed."""
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(f"offset {offset} is not within {self.start_offset} to {self.end_offset}")
        if offset > self.start_offset:
            if offset == self.end_offset:
                self.roll()
            elif offset > self.segments[-1].base_offset:
                self.segments[-1].open().sync()  # otherwise a power cut could leave a log that ends before its start
            self._save(start_offset=offset)
            self._drop_deleted_segments()
        return self.start_offset

    @_final
    def retain(self, now_ms: int, retention_ms: int, retention_bytes: int) -> int:
        """Delete the oldest segments by time and by size, and return the new start of the log. -1 means no limit.

        The age of a segment is told by `Segment.latest_ms`. The active segment is deleted too, unless it is empty; an
        empty one before it, which another broker has left, keeps nothing behind it. The log then begins where the next
        segment does, as in Kafka: offsets between the two may have been left out.
        """
        surplus = self.size - retention_bytes if retention_bytes >= 0 else -1
        upto = self.start_offset
        ends = [*[segment.base_offset for segment in self.segments[1:]], self.end_offset]
        for segment, end in zip(self.segments, ends, strict=False):
            is_old = retention_ms >= 0 and 0 <= segment.latest_ms < now_ms - retention_ms
            is_empty_end = not segment.size and segment is self.segments[-1]
            if is_empty_end or not (is_old or surplus >= segment.size):
                break
            surplus -= segment.size
            upto = end
        return self.delete_before(max(upto, self.start_offset))

    def _drop_deleted_segments(self) -> None:
        """Remove the segments behind which another one begins at or before the start of the log.

        A log so begins with the segment that has its start. The files of very many are left to `remove_deleted`, and
        what cannot be removed to the next start.
        """
        count = bisect_right(self.segments, self.start_offset, lo=1, key=_base_offset) - 1 if self.segments else 0
        self._deleted += [segment.path for segment in self.segments[:count]]
        del self.segments[:count]
        self.remove_deleted()
        self.producers.forget_before(self.start_offset)

    @property
    def has_deleted(self) -> bool:
        """Whether files of deleted segments are still to be removed."""
        return bool(self._deleted)

    def remove_deleted(self) -> None:
        """Remove the files of some deleted segments, the oldest first."""
        for _ in range(min(len(self._deleted), DELETED_AT_ONCE)):
            stem = self._deleted.popleft().removesuffix(".log")
            for suffix in (*layout.INDEXES, ".log"):
                layout.remove_if_possible(self.files, stem + suffix)

    def remove_deleted_in_steps(self) -> Steps[None]:
        """Remove the files of all deleted segments."""
        while self.has_deleted:
            yield
            self.remove_deleted()

    # -- compaction: `cleaner.py` writes the segments, and calls these methods -----------------------------------------

    def take_appended_keys(self) -> KeyIndex:
        """Return the noted keys at the end of the log, and begin to note those of later records.

        While a transaction is open the index is empty, because its records may yet be the latest of their keys.
        """
        end = self.end_offset
        index = self._appended_keys.take() if self._appended_keys is not None else None
        return index if index is not None and self.last_stable_offset == end else KeyIndex(range(end, end))

    def replace(self, group: list[Segment], segment: Segment) -> None:
        """Replace neighbouring segments, whose files were swapped for that of one segment."""
        first = self.segments.index(group[0])
        self.segments[first : first + len(group)] = [segment]

    @_final
    def note_compaction(self, cleaned_to: int, end_offset: int, *, is_ours: bool) -> None:
        """Note that keys are unique up to `cleaned_to`, and that everything up to `end_offset` was rewritten.

        Rewritten segments have no records of aborted transactions. With `is_ours` their batches have our leader epoch,
        so that recovery compares them strictly with their neighbours, from the last gap between two segments on.
        """
        self.producers.forget_before(end_offset)
        changes = {"cleaned_to": cleaned_to}
        if is_ours and end_offset >= self._checkpoint.contiguous_from:
            pairs = pairwise(self.segments)
            behind_gaps = [after.base_offset for before, after in pairs if before.end_offset < after.base_offset]
            changes["contiguous_from"] = max(behind_gaps, default=self.segments[0].base_offset)
        self._save(**changes)

    # -- reading -------------------------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, *, min_one: bool = True, before: int | None = None) -> bytes:
        """Return whole batches, from the one that holds `offset` on, as `fetch` does."""
        batches = self.fetch(offset, max_bytes, min_one=min_one, before=before)
        assert isinstance(batches, bytes), "nothing is shared unless it is asked for"
        return batches

    def fetch(
        self, offset: int, max_bytes: int, *, min_one: bool = True, before: int | None = None, may_share: bool = False
    ) -> bytes | FileRange:
        """Return whole batches, from the one that holds `offset` on; with `min_one` at least one, however large.

        With `may_share` they may be a range of the file that holds them.

        Batches that begin at `before` or later are left out (the last stable offset, for read_committed). The batches
        lie in one segment. Returns b"" at the end of the log, and where the first batch is too large. Raises
        `OffsetOutOfRange` for an offset outside of the log.
        """
        if not self.start_offset <= offset <= self.end_offset:
            raise OffsetOutOfRange(f"offset {offset} is not within {self.start_offset} to {self.end_offset}")
        segment = self._next_segment(offset)
        return b"" if segment is None else segment.read(offset, max_bytes, min_one, before, may_share=may_share)

    def batches(self, offset: int | None = None) -> Iterator[BatchPosition]:
        """Yield the batches from the one that holds `offset` on, or all of them. Includes those appended meanwhile."""
        at = self.segments[0].base_offset if offset is None and self.segments else offset or 0
        while segment := self._next_segment(at):
            for found in segment.batches(at):
                yield found
                at = found.header.next_offset

    def _next_segment(self, offset: int) -> Segment | None:
        """Return the segment of the first batch that ends behind `offset`; None at the end of the log.

        A compaction may have removed what followed `offset` in its segment, and all of the segments behind that.
        """
        first = max(bisect_right(self.segments, offset, key=_base_offset) - 1, 0)
        return next((s for s in self.segments[first:] if s.size and s.end_offset > offset), None)

    def offset_for_time(self, timestamp: int, meter: Meter) -> TimeSteps:
        """Return offset and timestamp of the first record at or after `timestamp` (ms), None if there is none."""
        return self._find_time(timestamp, self.start_offset, meter)

    def latest_time(self, meter: Meter) -> TimeSteps:
        """Return offset and timestamp of the first record with the greatest timestamp, None if there are no records.

        As in Kafka, the record may be deleted, as long as its segment is not.
        """
        latest = max([segment.max_timestamp for segment in self.segments], default=-1)
        return (yield from self._find_time(latest, 0, meter)) if latest >= 0 else None

    def _find_time(self, timestamp: int, start_offset: int, meter: Meter) -> TimeSteps:
        """Read the batches that may have the record, at the cost of `meter`. Between two steps the log may change."""
        offset = start_offset
        while (found := self._find_batch(timestamp, offset)) is not None:
            record = yield from time_search.find_time(
                found.chunk, found.at, found.header, timestamp, start_offset, meter
            )
            if record is not None:
                return record
            offset = found.header.next_offset
        return None

    def _find_batch(self, timestamp: int, offset: int) -> BatchPosition | None:
        """Return the first batch from `offset` on whose records are not all before `timestamp`."""
        for segment in self.segments:
            if segment.max_timestamp < timestamp or segment.end_offset <= offset:
                continue
            start = max(segment.index.offset_before(timestamp), offset)
            next_stop = partial(segment.index.next_stop, timestamp=timestamp)
            for found in segment.batches(start, next_stop=next_stop):
                if found.header.max_timestamp >= timestamp:
                    return found
        return None


def scan(log: Log, offset: int | None = None) -> Iterator[tuple[BatchHeader, list[Record]]]:
    """Yield the header and the records of every batch, for replay.

    Checksums were compared when the log was opened. Empty batches, which compaction leaves, are skipped.
    """
    return scan_by(read_metered, log, offset)


def read_metered(data: bytes, position: int, header: BatchHeader) -> list[Record]:
    """Return the records of a batch that may unpack to `DECOMPRESSED_BYTES_MAX`, whatever others have before it."""
    return record_batch.read(data, position, header, Meter())


def scan_by(
    read: Callable[[bytes, int, BatchHeader], _Read], log: Log, offset: int | None = None
) -> Iterator[tuple[BatchHeader, _Read]]:
    """Yield the header of every batch, and what `read(chunk, position, header)` returns for it."""
    for found in log.batches(offset):
        if found.header.count:
            yield found.header, read(found.chunk, found.at, found.header)
