"""One file of a log, named by the offset of its first batch: batches one after the other, nothing between them.

A segment learns what it holds from the headers of its batches, the same way when they are appended and when they are
read back at start-up. What a torn or damaged batch means is decided in `recovery.py`.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from protocol.record_batch import HEADER_BYTES, HEADER_FAST, MAGIC, PREFIX_BYTES, BatchHeader, crc_of
from storage.file_range import FileRange
from storage.files import File, Files, StorageError
from storage.index import Index

log = logging.getLogger("muster.storage")

CHUNK_BYTES = 1 << 20
SCAN_BYTES = 8_192  # that are read to find a batch
SHARED_BYTES_MIN = 262_144
"""From here on, batches are sent by `sendfile` where that is possible."""
NAME_DIGITS = 20
OFFSET_MAX = 2**62
"""No log reaches it; an offset beyond is damage, and would leave no room for the batches that are still to come."""


def file_name(base_offset: int, suffix: str = ".log") -> str:
    return f"{base_offset:0{NAME_DIGITS}d}{suffix}"


def base_offset_of(name: str, suffix: str = ".log") -> int | None:
    """Return the base offset in a segment's file name, or None when the name is of no segment."""
    digits = name.removesuffix(suffix)
    if digits == name or len(digits) != NAME_DIGITS or not (digits.isascii() and digits.isdigit()):
        return None
    return int(digits)


class BadBatch(Exception):  # noqa: N818 - a finding, not yet an error: recovery decides what it means
    """Where reading batches one after the other came to an end that is not the end of the file, and why.

    `is_whole` says that the batch there is, by its own checksum, and only contradicts its neighbours.
    """

    def __init__(self, position: int, reason: str, *, is_whole: bool = False) -> None:
        self.position, self.reason, self.is_whole = position, reason, is_whole
        super().__init__(f"{reason} at byte {position}")


class BatchPosition(msgspec.Struct, frozen=True, gc=False):
    """A batch in a file: where, its header, and the chunk that holds all of it from `at` on."""

    position: int
    header: BatchHeader
    chunk: bytes
    at: int


def walk(
    file: File,
    position: int = 0,
    end: int | None = None,
    *,
    checked: bool = True,
    skip: Callable[[int], int] | None = None,
) -> Iterator[BatchPosition]:
    """Yield the batches from `position` to `end`, their checksums compared if `checked`. Raises `BadBatch` at the first
    misfit.

    `skip` is given the offset that follows a batch, and returns a position: the batches before it are passed over.

    Reads in chunks of a mebibyte: the memory needed is that and the largest batch, not the file.
    """
    end = file.size() if end is None else end
    chunk, start = b"", position  # chunk holds the bytes of the file from `start` on
    while position < end:
        at = position - start
        if at + HEADER_BYTES > len(chunk):
            chunk, start, at = file.pread(position, min(CHUNK_BYTES, end - position)), position, 0
            if len(chunk) < HEADER_BYTES:
                raise BadBatch(position, "the header of a batch is cut off")
        header = BatchHeader(*HEADER_FAST.unpack_from(chunk, at))
        size = header.length + PREFIX_BYTES
        if header.magic != MAGIC or size < HEADER_BYTES:
            raise BadBatch(position, f"magic {header.magic} and length {header.length} are no batch's")
        if size > end - position:
            raise BadBatch(position, f"a batch of {size} bytes is cut off after {end - position}")
        if at + size > len(chunk):
            chunk, start, at = file.pread(position, max(size, min(CHUNK_BYTES, end - position))), position, 0
            if len(chunk) < size:
                raise BadBatch(position, "a batch is cut off while it is read")
        if checked and crc_of(chunk, at, size) != header.crc:
            raise BadBatch(position, f"the checksum {header.crc:#010x} does not fit its batch")
        yield BatchPosition(position, header, chunk, at)
        position += size
        if skip is not None:
            position = max(position, skip(header.next_offset))


class Segment:
    """What is known of one file. The active segment keeps its file open; the others open theirs to be read."""

    def __init__(self, files: Files, path: str, base_offset: int, index_every_bytes: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self.end_offset = base_offset
        """The offset after the last record."""
        self.size = 0
        self.max_timestamp = -1
        self.max_timestamp_offset = -1
        self.modified_ms = -1
        """When it was last appended to; -1 if that is not known."""
        self.index = Index(base_offset, index_every_bytes)
        self._files = files
        self._file: File | None = None

    def open(self, *, create: bool = False) -> File:
        """Open the file for appending and keep it open until `release`."""
        if self._file is None:
            self._file = self._files.open(self.path, create=create)
        return self._file

    @property
    def is_open(self) -> bool:
        return self._file is not None

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    @property
    def latest_ms(self) -> int:
        """The time by which retention tells its age: that of the latest record, or if no record has a time, that of
        the last append; -1 if that is not known either. Kafka: `LogSegment.largestTimestamp`."""
        return self.max_timestamp if self.max_timestamp >= 0 else self.modified_ms

    @contextmanager
    def reading(self) -> Iterator[File]:
        if self._file is not None:
            yield self._file
            return
        file = self._files.open(self.path, readonly=True)
        try:
            yield file
        finally:
            file.close()

    def learn(self, header: BatchHeader) -> None:
        """Note the batch of `header`, which stands at the end of the file."""
        last_offset = header.last_offset
        if header.max_timestamp > self.max_timestamp:
            self.max_timestamp = header.max_timestamp
            self.max_timestamp_offset = last_offset
        self.index.learn(last_offset, self.size, header.max_timestamp, self.max_timestamp, self.max_timestamp_offset)
        self.end_offset = last_offset + 1
        self.size += header.size

    def batches(
        self, offset: int | None = None, *, checked: bool = False, next_stop: Callable[[int], int] | None = None
    ) -> Iterator[BatchPosition]:
        """Yield the batches from the one that holds `offset` on. They were checked when they were appended or
        recovered.

        `next_stop` returns, for an offset, the first one from there on that is asked for: as many of the batches
        between them are passed over as the index allows. Raises `StorageError` where the file has changed since.
        """
        index = self.index
        skip = None if next_stop is None else lambda after: index.position(next_stop(after))
        with self.reading() as file:
            position = 0 if offset is None else index.position(offset)
            try:
                for found in walk(file, position, self.size, checked=checked, skip=skip):
                    if offset is None or found.header.last_offset >= offset:
                        yield found
            except BadBatch as bad:
                raise self.describe_change(bad.position, bad.reason) from bad

    def describe_change(self, position: int, reason: str) -> StorageError:
        """Return the error that the file is not what was written to it."""
        return StorageError("read", self.path, errno.EIO, f"changed since it was written: byte {position}: {reason}")

    def read(
        self, offset: int, max_bytes: int, min_one: bool, before: int | None, *, may_share: bool = False
    ) -> bytes | FileRange:
        """Return whole batches from the one that holds `offset`, up to `max_bytes` and none that begins at `before` or
        later.

        With `may_share`, many bytes may be returned as a range of the file.
        """
        with self.reading() as file:
            headers = _Headers(self, file)
            start = self._position_of(headers, offset)
            if start == self.size:
                return b""
            size = min(max(max_bytes, HEADER_BYTES), self.size - start)
            if not (may_share and size >= SHARED_BYTES_MIN):
                headers.read(start, size)
            size, count, end_offset = headers.find_end(start, max_bytes, before)
            if not size and min_one and (before is None or headers.at(start).base_offset < before):
                header = headers.at(start)
                size, count, end_offset = header.size, header.count, header.last_offset + 1
            if may_share and size >= SHARED_BYTES_MIN:
                shared = file.share(start, size, count, end_offset)
                if shared is not None:
                    return shared
            return headers.read(start, size)

    def _position_of(self, headers: _Headers, offset: int) -> int:
        """Return where the batch begins that holds `offset`, or the first one after it; the file's size when there is
        none."""
        position = self.index.position(offset)
        while position < self.size:
            header = headers.at(position)
            if header.last_offset >= offset:
                return position
            position += header.size
        return self.size

    def write_indexes(self, transactions: bytes) -> None:
        """Leave Kafka's index files beside the segment. They are not synced: nothing here relies on them.

        So a disk that refuses them is no failure of the log.
        """
        try:
            self._write_indexes(transactions)
        except StorageError as failure:
            log.info("an index file is not written, which costs nothing: %s", failure)

    def _write_indexes(self, transactions: bytes) -> None:
        stem = self.path.removesuffix(".log")
        contents: list[tuple[str, Callable[[], bytes]]] = [
            (".index", self.index.offset_file),
            (".timeindex", lambda: self.index.time_file(self.max_timestamp, self.max_timestamp_offset)),
            (".txnindex", lambda: transactions),
        ]
        for suffix, content in contents:
            data = content()
            if not data and not self._files.exists(stem + suffix):
                continue
            file = self._files.open(stem + suffix, create=True)
            try:
                file.truncate(0)
                file.append(data)
            finally:
                file.close()


class _Headers:
    """The headers of a segment's batches, by position, read in chunks."""

    def __init__(self, segment: Segment, file: File) -> None:
        self._segment = segment
        self._file = file
        self._chunk, self._start = b"", 0  # the bytes of the file from `_start` on

    def read(self, position: int, size: int) -> bytes:
        """Return a range of the file. Headers that lie in it are taken from it."""
        if position != self._start or size > len(self._chunk):
            self._chunk, self._start = self._file.pread(position, size), position
        return self._chunk[:size]

    def at(self, position: int) -> BatchHeader:
        """Return the header of the batch that begins here. Raises `StorageError` if there is none."""
        return BatchHeader(*self._fields(position))

    def find_end(self, start: int, max_bytes: int, before: int | None) -> tuple[int, int, int]:
        """Return how many bytes from here on are whole batches within the bounds, with how many records, and the offset
        after the last one."""
        limit = min(start + max_bytes, self._segment.size)
        position, count, end_offset = start, 0, 0
        while position + HEADER_BYTES <= limit:
            fields = self._fields(position)
            after = position + fields[_LENGTH] + PREFIX_BYTES
            if after > limit or (before is not None and fields[_BASE_OFFSET] >= before):
                break
            position = after
            count += fields[_COUNT]
            end_offset = fields[_BASE_OFFSET] + fields[_LAST_OFFSET_DELTA] + 1
        return position - start, count, end_offset

    def _fields(self, position: int) -> tuple[int, ...]:
        at = position - self._start
        if at < 0 or at + HEADER_BYTES > len(self._chunk):
            self.read(position, SCAN_BYTES)
            if len(self._chunk) < HEADER_BYTES:
                raise self._segment.describe_change(position, "the file ends here")
            at = 0
        fields = HEADER_FAST.unpack_from(self._chunk, at)
        if fields[_LENGTH] <= 0:
            raise self._segment.describe_change(position, f"a batch of length {fields[_LENGTH]}")
        return fields


_BASE_OFFSET, _LENGTH, _LAST_OFFSET_DELTA, _COUNT = map(BatchHeader.__struct_fields__.index, (
    "base_offset", "length", "last_offset_delta", "count",
))  # fmt: skip


def count_records(batches: bytes | FileRange) -> int:
    """Return how many records whole batches have."""
    if isinstance(batches, FileRange):
        return batches.count
    return sum([fields[_COUNT] for fields in _walk_headers(batches)])


def end_of(batches: bytes | FileRange) -> int:
    """Return the offset after the last of these batches; 0 if there are none."""
    if isinstance(batches, FileRange):
        return batches.end_offset
    end = 0
    for fields in _walk_headers(batches):
        end = fields[_BASE_OFFSET] + fields[_LAST_OFFSET_DELTA] + 1
    return end


def _walk_headers(batches: bytes) -> Iterator[tuple[int, ...]]:
    at = 0
    while at < len(batches):
        fields = HEADER_FAST.unpack_from(batches, at)
        yield fields
        at += fields[_LENGTH] + PREFIX_BYTES
