"""Read a span chunk by chunk: batches that can be believed, and a row for everything that cannot.

The promise: an offset that is missing from what comes out lies in the range of a reported problem, and an offset that
the checksum does not protect (the first 21 bytes of a header) is believed only while it fits between its neighbours.

Severity `info` means that nothing was lost that had ever been there for good: a torn tail of the newest segment, a gap
that a cleaner leaves in an older one. Everything else is a `problem`.
"""

from collections.abc import Iterator

import msgspec
import numpy as np

from pipeline.decode.headers import HEADER_BYTES, MOST_LENGTH, Array, Headers, chain, crc_ok, next_batch
from pipeline.decode.logs import Span
from pipeline.errors import LogDamagedError

CHUNK_BYTES = 16 << 20


class Problem(msgspec.Struct, frozen=True):
    """One row of `log_problems`, without the place it has in common with its span."""

    kind: str
    pos: int
    length: int
    detail: str
    from_offset: int | None = None
    to_offset: int | None = None
    severity: str = "problem"


class Chunk(msgspec.Struct, frozen=True):
    """Some bytes of a segment (from `file_pos` on) and the believed batches in them."""

    data: bytes
    file_pos: int
    headers: Headers


class SpanReader:
    """Iterates over the chunks of a span; `problems` is complete when the iteration has ended.

    `on_error`: `record` stops at bytes that are no header, as Kafka's own tool does; `salvage` searches for the next
    batch with a right checksum; `fail` raises `LogDamagedError` at the first problem.
    `is_continued`: reading goes on at `end_pos` once the log has grown. So a last batch behind a gap is left until the
    next one confirms its offset: were that too high, what follows would be taken for what was read before.
    """

    def __init__(
        self, span: Span, on_error: str = "record", chunk_bytes: int = CHUNK_BYTES, *, is_continued: bool = False
    ) -> None:
        self.span = span
        self._is_continued = is_continued
        self.on_error = on_error
        self.chunk_bytes = chunk_bytes
        self.problems: list[Problem] = []
        self.end_pos = span.start  # the byte after the last whole batch
        self._last = span.floor - 1  # the last offset that was believed
        self._epoch = -1
        self._waiting: list[Problem] = []  # known by kind, their range still open
        self._newest = -2  # the base offset of the batch that was believed last
        self._doubted = -1  # the base offset of a batch behind a gap in the active segment
        self._refused = -1  # the byte of a batch that is off, as was seen when the one before it was read
        self._gaps = (0, 0, 0)  # how many, lowest, highest missing offset

    @property
    def next_offset(self) -> int:
        """The offset after the last one that was believed."""
        return self._last + 1

    def __iter__(self) -> Iterator[Chunk]:
        start, want = self.span.start, self.chunk_bytes
        while start < self.span.end:
            data = self.span.log.store.read(self.span.segment.path, start, min(want, self.span.end - start))
            if not data:
                break
            final = start + len(data) >= self.span.end or len(data) < min(want, self.span.end - start)
            chunk, consumed, need = self._chunk(data, start, final)
            if need > want:
                want = need
                continue
            if chunk is not None:
                yield chunk
            if consumed is None:
                break
            start, want = start + consumed, self.chunk_bytes
        self._finish()

    def _chunk(self, data: bytes, file_pos: int, final: bool) -> tuple[Chunk | None, int | None, int]:
        """Return (chunk, bytes consumed or None when reading ends here, bytes needed to go on)."""
        found, stop, headers = self._whole(data, 0)
        consumed: int | None = len(data)
        if not final and len(found):
            # The last one is read again with what follows it, since only its successor shows whether its offset fits.
            keep_back = int(found[-1]) if stop == len(data) or self._reaches_past(data, stop) else None
            if keep_back is not None:
                if len(found) == 1:
                    return None, 0, 2 * len(data) + self._is_wanted(data, stop)
                return self._believe(data, file_pos, headers, ahead=1), keep_back, 0
        elif not final and self._reaches_past(data, stop):
            return None, 0, max(2 * len(data), self._is_wanted(data, stop))
        parts = [self._believe(data, file_pos, headers)]
        while stop < len(data):
            if not final and self._reaches_past(data, stop):
                consumed = stop
                break
            resumed = self._describe_break(data, file_pos, stop, final)
            if resumed is None:
                consumed = None if final or self.on_error != "salvage" else len(data)
                break
            _, stop, headers = self._whole(data, resumed)
            parts.append(self._believe(data, file_pos, headers))
        if final and self._is_continued and self._is_doubted and len(parts[-1].headers):
            parts[-1] = self._leave_last(parts[-1])
        joined = {name: np.concatenate([p.headers.columns[name] for p in parts]) for name in parts[0].headers.columns}
        return Chunk(data, file_pos, Headers(joined)), consumed, 0

    def _whole(self, data: bytes, start: int) -> tuple[Array, int, Headers]:
        """Return the chain from `start`, cut before a bad checksum that leads nowhere: then its length is no good
        either."""
        found, stop = chain(data, start, len(data))
        if len(found) and stop < len(data) and not self._reaches_past(data, stop):
            last = Headers.at(data, found[-1:])
            if not crc_ok(data, last)[0]:
                found, stop = found[:-1], int(found[-1])
        return found, stop, Headers.at(data, found)

    @staticmethod
    def _is_wanted(data: bytes, pos: int) -> int:
        head = data[pos + 8 : pos + 12]
        return min(12 + int.from_bytes(head, "big"), MOST_LENGTH) if len(head) == 4 else HEADER_BYTES

    @staticmethod
    def _reaches_past(data: bytes, pos: int) -> bool:
        """Return whether what begins here may be a batch whose end lies beyond the data."""
        if pos + HEADER_BYTES > len(data):
            return pos < len(data)
        length = int.from_bytes(data[pos + 8 : pos + 12], "big", signed=True)
        return data[pos + 16] <= 2 and HEADER_BYTES - 12 <= length <= MOST_LENGTH and pos + 12 + length > len(data)

    def _describe_break(self, data: bytes, file_pos: int, stop: int, final: bool) -> int | None:
        """Say what stands at `stop`; where to go on in the data, or None."""
        rest = len(data) - stop
        resume = next_batch(data, stop + 1, self._last)
        if resume is None and final and self._reaches_past(data, stop):
            self._note(
                "torn_tail", file_pos + stop, rest, f"{rest} bytes of an unfinished batch", self._tail_severity()
            )
            return None
        if resume is None and final and not any(data[stop:]):
            self._note("zero_tail", file_pos + stop, rest, f"{rest} bytes of zeros", self._tail_severity())
            return None
        if self.on_error != "salvage":
            left = self.span.end - file_pos - stop
            self._note("bad_length", file_pos + stop, left, f"no batch begins here; {left} bytes left unread")
            return None
        to = len(data) if resume is None else resume
        self._note("bad_length", file_pos + stop, to - stop, f"no batch begins here; {to - stop} bytes skipped")
        return resume

    def _tail_severity(self) -> str:
        return "info" if self.span.ceiling is None else "problem"

    def _believe(self, data: bytes, file_pos: int, headers: Headers, ahead: int = 0) -> Chunk:
        """Keep what has a right checksum and a fitting offset.

        With `ahead` of 1 the last batch is left for the next time, and only shows whether the one before it fits.
        """
        good = crc_ok(data, headers) & (headers.magic == 2) & (headers.last_delta >= 0)
        bases, lasts = headers.base_offset, headers.last_offset
        before = np.concatenate(([self._last], lasts[:-1]))
        fits = bool(good.all()) and not self._waiting and bool((bases > before).all())
        if len(headers) and (not fits or not self._below_ceiling(lasts)):
            headers = headers.take(np.array(self._choose_batches(headers, good, file_pos, ahead), np.int64))
        elif len(headers):
            if ahead:
                headers = headers.take(np.arange(len(headers) - ahead))
                bases, lasts, before = headers.base_offset, headers.last_offset, before[:-ahead]
            holes = np.flatnonzero(bases > before + 1)
            for i in holes.tolist():
                self._gap(int(before[i]) + 1, int(bases[i]) - 1, file_pos + int(headers.pos[i]))
            self._last = int(lasts[-1])
        self._check_epochs(headers, file_pos)
        if len(headers):
            self.end_pos = file_pos + int(headers.end[-1])
            self._newest = int(headers.base_offset[-1])
        return Chunk(data, file_pos, headers)

    def _below_ceiling(self, lasts: Array) -> bool:
        return self.span.ceiling is None or int(lasts.max()) < self.span.ceiling

    def _choose_batches(self, headers: Headers, good: Array, file_pos: int, ahead: int) -> list[int]:
        """Choose the batches to believe one by one, and report all others: the slow way, for damaged chunks."""
        kept: list[tuple[int, int, int]] = []  # index, base offset, last offset
        start = self._last
        for i in range(len(headers) - ahead):
            base, last = int(headers.base_offset[i]), int(headers.last_offset[i])
            pos, size = file_pos + int(headers.pos[i]), int(headers.length[i]) + 12
            if pos == self._refused:
                continue
            if not good[i]:
                old = int(headers.magic[i]) < 2
                self._note("old_magic" if old else "bad_crc", pos, size, f"a batch of {size} bytes is left out")
                continue
            if self.span.ceiling is not None and last >= self.span.ceiling:
                self._note("offset_order", pos, size, f"offset {base} is beyond the next segment's {self.span.ceiling}")
                continue
            before = kept[-1][2] if kept else start
            if base <= before:
                self._note("offset_order", pos, size, f"offset {base} after {before}")
                keep_this, keep_previous = self._which(kept, start, base)
                if not keep_previous:
                    self._settle_back(kept, start)
                if not keep_this:
                    continue
                before = kept[-1][2] if kept else start
            self._settle(before + 1, base - 1, pos)
            kept.append((i, base, last))
            self._last = last
        if ahead and good[-1] and self._below_ceiling(headers.last_offset[-1:]):
            self._look_ahead(kept, start, headers.take(np.array([-1])), file_pos)
        return [i for i, _, _ in kept]

    def _look_ahead(self, kept: list[tuple[int, int, int]], start: int, following: Headers, file_pos: int) -> None:
        """Believe the last batch no longer if the one that follows it shows that its offset is off."""
        base = int(following.base_offset[0])
        if not kept or base > kept[-1][2]:
            return
        keep_following, keep_last = self._which(kept, start, base)
        if keep_last:
            return
        pos, size = file_pos + int(following.pos[0]), int(following.length[0]) + 12
        self._note("offset_order", pos, size, f"offset {base} after {kept[-1][2]}")
        self._settle_back(kept, start)
        if not keep_following:
            self._refused = pos

    @staticmethod
    def _which(kept: list[tuple[int, int, int]], start: int, base: int) -> tuple[bool, bool]:
        """Return which to believe of two batches whose offsets contradict each other: (this one, the one before)."""
        if not kept:
            return False, True
        before = kept[-2][2] if len(kept) > 1 else start
        _, previous_base, previous_last = kept[-1]
        if previous_base == before + 1:
            return False, True  # it follows its own neighbour without a gap: the later one is off
        length = previous_last - previous_base + 1
        return base == before + 1 + length, False

    def _settle_back(self, kept: list[tuple[int, int, int]], start: int) -> None:
        if kept.pop()[1] == self._doubted:
            self._doubted = -1
        self._last = kept[-1][2] if kept else start

    @property
    def _is_doubted(self) -> bool:
        """Whether the batch that was believed last stands behind a gap at the end of the log so far."""
        return self.span.ceiling is None and self._newest == self._doubted

    def _leave_last(self, chunk: Chunk) -> Chunk:
        """Leave the last batch, and the gap before it, for the next time."""
        self.end_pos = chunk.file_pos + int(chunk.headers.pos[-1])
        gap = next(one for one in reversed(self.problems) if one.to_offset == self._doubted - 1)
        self.problems.remove(gap)
        assert gap.from_offset is not None, "a gap begins somewhere"
        self._last = gap.from_offset - 1
        return Chunk(chunk.data, chunk.file_pos, chunk.headers.take(np.arange(len(chunk.headers) - 1)))

    def _check_epochs(self, headers: Headers, file_pos: int) -> None:
        epochs = headers.leader_epoch
        if not len(epochs):
            return
        before = np.concatenate(([self._epoch], epochs[:-1]))
        for i in np.flatnonzero(epochs < before).tolist():
            first, last = int(headers.base_offset[i]), int(headers.last_offset[i])
            detail = f"leader epoch {epochs[i]} after {before[i]}"
            size = int(headers.length[i]) + 12
            self._report(Problem("epoch_order", file_pos + int(headers.pos[i]), size, detail, first, last))
        self._epoch = int(epochs[-1])

    def _note(self, kind: str, pos: int, length: int, detail: str, severity: str = "problem") -> None:
        """Note a problem, whose range of offsets is known when the next batch is believed."""
        self._waiting.append(Problem(kind, pos, length, detail, severity=severity))

    def _settle(self, first: int, last: int | None, pos: int) -> None:
        """Report what was noted with the range of offsets in which nothing was believed, before the byte `pos`; a gap
        if nothing was noted."""
        if self._waiting:
            for problem in self._waiting:
                self._report(msgspec.structs.replace(problem, from_offset=first, to_offset=last))
            self._waiting = []
        elif last is not None and last >= first:
            self._gap(first, last, pos)

    def _gap(self, first: int, last: int, pos: int) -> None:
        if self.span.active:
            self._report(Problem("gap", pos, 0, f"{last - first + 1} offsets are missing", first, last))
            self._doubted = last + 1
            return
        count, lowest, _ = self._gaps
        self._gaps = (count + 1, lowest if count else first, last)

    def _finish(self) -> None:
        ceiling = self.span.ceiling
        if self._waiting or ceiling is not None:
            self._settle(self._last + 1, None if ceiling is None else ceiling - 1, self.end_pos)
        if self._is_doubted:
            detail = "the last batch stands behind a gap, and nothing follows that would confirm its offset"
            last = None if self._is_continued else self._last
            self._report(Problem("offset_order", self.end_pos, 0, detail, min(self._newest, self._last + 1), last))
        count, first, last = self._gaps
        if count:
            detail = f"{count} gaps, as compaction leaves them"
            self._report(Problem("gap", self.span.start, 0, detail, first, last, severity="info"))

    def _report(self, problem: Problem) -> None:
        if self.on_error == "fail" and problem.severity == "problem":
            raise LogDamagedError(f"{self.span.segment.path} at byte {problem.pos}: {problem.kind}, {problem.detail}")
        self.problems.append(problem)
