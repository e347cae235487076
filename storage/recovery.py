"""What a log's files say after whatever has happened: every batch read, every checksum and neighbour compared.

Three things can be found at the first batch that does not fit.
- A write that a crash has torn: in the last segment, past the recovery point, with nothing whole behind it, and nothing
  that was whole before (`mending.py` proves that). Nobody was told that it had succeeded, so it is cut off.
- Anything else is damage to what was promised: `DamagedLog`, with the file and the byte, and nothing is touched. To
  take damage for the end of the log would silently drop what was acknowledged.
- A batch that is whole but does not begin where its neighbour ends is as bad as a wrong checksum: base offset and
  leader epoch are not covered by the checksum, and this is what covers them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import msgspec

from protocol import record_batch
from protocol.compression import Meter
from protocol.record_batch import HEADER_BYTES, HEADER_FAST, MAGIC, BatchHeader, crc_of
from protocol.records import EndMarker, read_end_marker
from protocol.steps import Steps, finish_steps
from storage import checkpoint as checkpoints
from storage import mending
from storage.checkpoint import Checkpoint
from storage.files import Files
from storage.layout import DamagedLog, Layout
from storage.producers import Producers
from storage.segment import OFFSET_MAX, BadBatch, BatchPosition, Segment, file_name, walk

_MAGIC_AT = 16
_MARKER_BYTES_MAX = 64 * 1024
"""What a control batch may unpack to. Brokers do not pack the one record that it has."""
STEP_BATCHES = 256
STEP_BYTES = 1 << 20
"""Between two yields: a millisecond or two, of small batches or of large ones."""
Progress = Callable[[int, int], None]
"""Called now and then with the bytes read and the bytes there are."""


class TornWrite(msgspec.Struct, frozen=True):
    """A torn write at the end of the log: never acknowledged, to be taken off."""

    path: str
    position: int
    size: int
    offset: int
    reason: str


class RecoveryReport(msgspec.Struct):
    """What the files of a log hold."""

    segments: list[Segment]
    producers: Producers
    checkpoint: Checkpoint
    is_foreign: bool
    """Whether another broker has written it: there is no checkpoint of ours."""
    cut: TornWrite | None = None
    batches: int = 0

    @property
    def end_offset(self) -> int:
        return self.segments[-1].end_offset if self.segments else self.checkpoint.start_offset


def examine(
    files: Files, directory: str, layout: Layout, index_every_bytes: int, on_progress: Progress | None = None
) -> RecoveryReport:
    """Read the whole log. Raises `DamagedLog`; changes nothing."""
    return finish_steps(examine_in_steps(files, directory, layout, index_every_bytes, on_progress))


def examine_in_steps(
    files: Files, directory: str, layout: Layout, index_every_bytes: int, on_progress: Progress | None = None
) -> Steps[RecoveryReport]:
    """Read the whole log, so many batches in each step. Raises `DamagedLog`; changes nothing."""
    remembered = _read_checkpoint(files, directory)
    report = RecoveryReport([], Producers(), remembered or Checkpoint(), remembered is None)
    reader = _Reader(report, on_progress, _total(files, directory, layout) if on_progress else 0)
    for base, name in layout.segments:
        segment = Segment(files, f"{directory}/{name}", base, index_every_bytes)
        yield from reader.read(segment, is_last=base == layout.segments[-1][0])
    _compare_with_checkpoint(report, directory)
    if report.is_foreign and report.segments:
        report.checkpoint = Checkpoint(
            start_offset=report.segments[0].base_offset,
            contiguous_from=report.end_offset,
            leader_epoch=max(reader.leader_epoch, 0),
        )
    return report


def _read_checkpoint(files: Files, directory: str) -> Checkpoint | None:
    data = checkpoints.read(files, directory)
    if data is None:
        return None
    try:
        return checkpoints.decode(data)
    except checkpoints.UnreadableCheckpoint as error:
        raise DamagedLog(f"{directory}/{checkpoints.NAME}", 0, str(error)) from error


def _total(files: Files, directory: str, layout: Layout) -> int:
    total = 0
    for _, name in layout.segments:
        file = files.open(f"{directory}/{name}", readonly=True)
        total += file.size()
        file.close()
    return total


def _compare_with_checkpoint(report: RecoveryReport, directory: str) -> None:
    start = report.checkpoint.start_offset
    first = report.segments[0].base_offset if report.segments else report.end_offset
    if not report.is_foreign and first > start:
        raise DamagedLog(directory, 0, f"the segment that begins at or before offset {start} is missing", start)
    base = report.checkpoint.segment_base
    if base != checkpoints.NO_SEGMENT and all(segment.base_offset != base for segment in report.segments):
        raise DamagedLog(f"{directory}/{file_name(base)}", 0, "the segment that was appended to last is missing", base)
    if report.end_offset < report.checkpoint.recovery_point:
        expected = report.checkpoint.recovery_point
        path = report.segments[-1].path if report.segments else directory
        position = report.segments[-1].size if report.segments else 0
        raise DamagedLog(path, position, f"the log ends here, but was on the disk up to offset {expected}")


class _Reader:
    """Reads segment after segment and compares each batch with the one before."""

    def __init__(self, report: RecoveryReport, on_progress: Progress | None, total: int) -> None:
        self.report = report
        self.leader_epoch = -1
        """The last batch's; it never falls."""
        self._expected: int | None = None
        self._progress, self._total, self._read = on_progress, total, 0
        self._batches = self._bytes = 0  # since the last step

    def read(self, segment: Segment, is_last: bool) -> Steps[None]:
        """Read a segment, in steps."""
        expected = segment.base_offset if self._expected is None else self._expected
        gap = segment.base_offset - expected
        # A power cut may bring back any of the deleted segments, so gaps before the log's start are no damage.
        is_deleted = segment.base_offset <= self.report.checkpoint.start_offset
        if gap < 0 or (gap and not is_deleted and segment.base_offset > self._contiguous_from):
            raise DamagedLog(segment.path, 0, "a segment is missing before this one", expected)
        self.report.segments.append(segment)
        with segment.reading() as file:
            size = file.size()
            segment.modified_ms = file.modified_ms()
            try:
                for found in walk(file, 0, size):
                    self._compare(found, segment)
                    self._take(found, segment)
                    if self._end_step(found.header.size):
                        yield
            except BadBatch as bad:
                rest = file.pread(segment.size, size - segment.size)
                self._judge(segment, bad, rest, is_last)
        self._expected = segment.end_offset
        self._read += segment.size

    def _end_step(self, size: int) -> bool:
        """Count a batch. Return whether the step is over."""
        self._batches += 1
        self._bytes += size
        if self._batches < STEP_BATCHES and self._bytes < STEP_BYTES:
            return False
        self._batches = self._bytes = 0
        return True

    @property
    def _contiguous_from(self) -> int:
        """From which offset on the batches are of our own writing, one right after the other."""
        return 2**63 if self.report.is_foreign else self.report.checkpoint.contiguous_from

    def _compare(self, found: BatchPosition, segment: Segment) -> None:
        header, expected = found.header, segment.end_offset
        is_behind_gap = header.base_offset > expected
        if header.base_offset < expected or (is_behind_gap and header.next_offset > self._contiguous_from):
            reason = f"the base offset {header.base_offset} contradicts its neighbours"
            raise BadBatch(found.position, reason, is_whole=True)
        if header.last_offset_delta < 0:
            reason = f"a batch that ends {-header.last_offset_delta} offsets before it begins"
            raise BadBatch(found.position, reason, is_whole=True)
        if header.last_offset >= OFFSET_MAX:
            reason = f"the offset {header.last_offset} is greater than any log's"
            raise BadBatch(found.position, reason, is_whole=True)
        if not self._least_epoch(expected) <= header.leader_epoch <= self._greatest_epoch:
            reason = f"the leader epoch {header.leader_epoch} contradicts its neighbours"
            raise BadBatch(found.position, reason, is_whole=True)

    def _least_epoch(self, offset: int) -> int:
        """Return the least leader epoch that a batch at the offset may have: where it is ours, the log's own."""
        return self._greatest_epoch if offset >= self._contiguous_from else self.leader_epoch

    @property
    def _greatest_epoch(self) -> int:
        return 2**31 if self.report.is_foreign else self.report.checkpoint.leader_epoch

    def _take(self, found: BatchPosition, segment: Segment) -> None:
        header = found.header
        segment.learn(header)
        self.leader_epoch = header.leader_epoch
        self.report.batches += 1
        if header.producer_id >= 0:
            self.report.producers.learn(header, end_marker_of(found.chunk, found.at, header))
        if self._progress is not None and self.report.batches % 4096 == 0:
            self._progress(self._read + segment.size, self._total)

    def _judge(self, segment: Segment, bad: BadBatch, rest: bytes, is_last: bool) -> None:
        """Decide whether what does not fit is a torn write or damage."""
        position, expected, reason = segment.size, segment.end_offset, bad.reason
        if not is_last or bad.is_whole:
            raise DamagedLog(segment.path, position, reason, expected)
        if expected < self.report.checkpoint.recovery_point:
            raise DamagedLog(segment.path, position, f"{reason}, which was on the disk", expected)
        if (proof := _why_not_torn(rest, position, expected)) is not None:
            raise DamagedLog(segment.path, position, f"{reason}, {proof}", expected)
        self.report.cut = TornWrite(segment.path, position, len(rest), expected, reason)


def _why_not_torn(rest: bytes, position: int, expected: int) -> str | None:
    """Return what proves that these bytes at the end of a log are not what a crash has left of a write, or None."""
    if (magic := mending.old_format(rest)) is not None:
        return f"but a message of format {magic}, from before Kafka 0.11, which Muster does not read"
    if (after := next(whole_batches(rest, expected), None)) is not None:
        at, header = after
        return f"but a whole batch of offset {header.base_offset} follows at byte {position + at}"
    if (mended := mending.mend(rest)) is not None:
        return f"but was whole before: {mended.what}"
    return None


def whole_batches(rest: bytes, after_offset: int) -> Iterator[tuple[int, BatchHeader]]:
    """Batches anywhere in these bytes that are whole and whose offsets could follow: what a torn write never leaves
    behind.

    A batch takes a header's bytes at least and spans 2^31 offsets at most, which bounds the offsets before one. How
    many records the bytes hold does not: a compressed one may take less than a byte.
    """
    at = 1
    while (magic := rest.find(MAGIC, at + _MAGIC_AT)) >= 0:
        at = magic - _MAGIC_AT
        if at + HEADER_BYTES <= len(rest):
            header = BatchHeader(*HEADER_FAST.unpack_from(rest, at))
            is_plausible = HEADER_BYTES <= header.size <= len(rest) - at and (
                after_offset < header.base_offset <= after_offset + (at // HEADER_BYTES + 1) * 2**31
            )
            if is_plausible and crc_of(rest, at, header.size) == header.crc:
                yield at, header
        at += 1


def keep_torn(files: Files, path: str, torn: bytes) -> str:
    """Keep what is cut off a segment in a file of its own beside it, durably, and return its path."""
    for number in itertools.count():
        kept = f"{path}.torn.{number}"
        is_new = not files.exists(kept)
        file = files.open(kept, create=True)
        try:
            if is_new:
                file.append(torn)
                file.sync()
                files.sync_directory(kept.rpartition("/")[0])
            if file.pread(0, file.size()) == torn:  # or a start that was cut off here has kept it
                return kept
        finally:
            file.close()
    raise AssertionError("the numbers do not end")


def end_marker_of(data: bytes, at: int, header: BatchHeader) -> EndMarker | None:
    """Return how the transaction ended that the batch at `at` ends; None when it is no end marker, or was emptied."""
    if not header.is_control or header.count == 0:
        return None
    return read_end_marker(record_batch.read(data, at, header, Meter(_MARKER_BYTES_MAX))[0])
