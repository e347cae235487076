"""Where reading stopped, and what to read next: for incremental ingestion and for streams.

A position is an offset; the segment and the byte are hints. A cleaner may have rewritten the segment since, so a hint
is believed only when a batch with a fitting offset begins there; otherwise the segment is searched by offset again.
"""

import msgspec
import numpy as np

from pipeline.decode import cluster
from pipeline.decode.headers import Array, Headers, chain
from pipeline.decode.layout import HEADER_BYTES, segment_path, segments, spans
from pipeline.decode.logs import START, LogDir, Position, Segment, Span

WALK_BYTES = 16 << 20


def newest(log: LogDir, start: Position = START, max_bytes: int | None = None) -> Position:
    """Return the position after the last whole batch, or after about `max_bytes` from `start` on; never before
    `start`.

    A closed segment in which no batch begins at `start` is passed as a whole: it is damaged there, or was rewritten.
    """
    if log.is_on_cluster:
        return cluster.newest(log, start, max_bytes)
    found = segments(log)
    left = max_bytes
    at = start
    for i, segment in enumerate(found):
        ceiling = found[i + 1].base_offset if i + 1 < len(found) else None
        if ceiling is not None and ceiling <= start.next_offset:
            continue
        begin = _find_begin(log, segment, start, is_closed=ceiling is not None)
        size = segment.size - begin
        if ceiling is None or (left is not None and size >= left):
            reached = _walk(log, segment, begin, left, at, ceiling)
            if ceiling is None or reached.pos > begin or reached.segment == ceiling:
                return reached
        elif left is not None:
            left -= size
        at = Position(max(at.next_offset, ceiling), ceiling, 0)
    return at


def find_unread(log: LogDir, position: Position) -> tuple[int, int, int] | None:
    """Return (segment, byte, length) of what a position leaves unread in its segment; None if there is nothing.

    Zeros, to which a broker may extend a segment before it writes to it, are nothing.
    """
    if position.segment < 0:  # also of a cluster
        return None
    path = segment_path(log, position.segment)
    length = log.store.size(path) - position.pos
    if length <= 0 or not any(log.store.read(path, position.pos, HEADER_BYTES)):
        return None
    return position.segment, position.pos, length


def _find_begin(log: LogDir, segment: Segment, start: Position, *, is_closed: bool) -> int:
    """Return the byte of a segment at which the offset of a position begins, or at which no batch begins any more."""
    if segment.base_offset >= start.next_offset:
        return 0
    if segment.base_offset == start.segment and _leads_on(log, segment, start, is_closed=is_closed):
        return start.pos
    pos = 0
    while pos < segment.size:
        data, found, stop = _read_batches(log, segment, pos)
        later = found[Headers.at(data, found).last_offset >= start.next_offset]
        if len(later) or not len(found):
            return pos + int(later[0]) if len(later) else pos
        pos += stop
    return pos


def _walk(log: LogDir, segment: Segment, begin: int, limit: int | None, at: Position, ceiling: int | None) -> Position:
    """Follow the headers from `begin` to the last batch that can be believed, but stop once `limit` bytes are passed.

    What the next batch must confirm is left for the next time, unless there is none and another segment follows.
    """
    walk = _Walk(at.next_offset, begin)
    pos = begin
    while pos < segment.size and (limit is None or walk.pos - begin < limit):
        data, found, stop = _read_batches(log, segment, pos)
        if not len(found):
            break
        walk.follow(Headers.at(data, found), pos, None if limit is None else begin + limit)
        pos += stop
    if ceiling is not None and pos >= segment.size and (limit is None or walk.pos - begin < limit):
        return Position(max(at.next_offset, ceiling), ceiling, 0)
    return Position(walk.next_offset, segment.base_offset, walk.pos)


class _Walk:
    """Which batches are believed, by their offsets alone and as `SpanReader` does, and how far that is sure.

    No checksum protects an offset. One that is too low contradicts the batch before, one that is too high the batch
    behind it: so a batch that does not follow its neighbour is passed only together with the next one that does, or
    that confirms it.
    """

    def __init__(self, next_offset: int, pos: int) -> None:
        self.next_offset, self.pos = next_offset, pos
        self._before = self._end = next_offset  # after the two batches that were believed last
        self._base = -1  # of the last one of them, -1 where none is known
        self._passed = pos

    def follow(self, headers: Headers, at: int, until: int | None) -> None:
        """Go on over some batches, which begin at the byte `at`, but not beyond the byte `until` if that is sure."""
        ends = headers.last_offset + 1
        behind = np.concatenate(([self._end], ends[:-1]))
        if (headers.base_offset == behind).all():
            last = len(ends) if until is None else int(np.searchsorted(headers.end, until - at)) + 1
            which = slice(max(0, min(last, len(ends)) - 2), last)  # what follows its neighbour is sure
        else:
            which = slice(None)
        numbers = (headers.base_offset[which].tolist(), ends[which].tolist(), headers.end[which].tolist())
        if which.start:
            self._end = int(behind[which.start])
        for base, end, stop in zip(*numbers, strict=True):
            if until is not None and self.pos >= until:
                return
            self._add(base, end, at + stop, until)

    def _add(self, base: int, end: int, stop: int, until: int | None) -> None:
        before, self._passed = self._passed, stop
        behind = self._end
        if base >= self._end:  # which confirms the one before
            self.next_offset, self.pos = self._end, before
            self._before, self._base, self._end = self._end, base, end
        elif self._base > self._before:  # the one before stands behind a gap, and is off
            behind = self._before + self._end - self._base
            self._base, self._end = (base, end) if base == behind else (-1, self._before)
        if base == behind and (until is None or self.pos < until):
            self.next_offset, self.pos = self._end, stop


def _read_batches(log: LogDir, segment: Segment, pos: int) -> tuple[bytes, Array, int]:
    """Read some of a segment; return its bytes, where whole batches begin in them, and where the last of these ends."""
    data = log.store.read(segment.path, pos, WALK_BYTES)
    found, stop = chain(data, 0, len(data))
    if not len(found) and len(data) == WALK_BYTES and len(data) > 12:
        data = log.store.read(segment.path, pos, 12 + int.from_bytes(data[8:12], "big"))  # a batch larger than a step
        found, stop = chain(data, 0, len(data))
    return data, found, stop


def between(log: LogDir, start: Position, end: Position | None = None, split_bytes: int = 32 << 20) -> list[Span]:
    """Return the spans that hold the offsets from `start` to `end` (exclusive; None: all there is)."""
    if log.is_on_cluster:
        return cluster.between(log, start, end, split_bytes)
    result: list[Span] = []
    for span in spans(log, split_bytes):
        if span.ceiling is not None and span.ceiling <= start.next_offset:
            continue
        if end is not None and span.floor >= end.next_offset:
            break
        cut = msgspec.structs.replace(span, from_offset=start.next_offset)
        if end is not None:
            cut = _cut_at_end(cut, end)
        if (
            span.segment.base_offset == start.segment
            and span.start <= start.pos <= cut.end
            and _leads_on(log, span.segment, start, is_closed=span.ceiling is not None)
        ):
            cut = msgspec.structs.replace(cut, start=start.pos, floor=start.next_offset)
        # Without bytes, too, the last one says how far the log has been read.
        is_last = span.ceiling is None or (end is not None and span.ceiling >= end.next_offset)
        reached = span.floor if end is None else end.next_offset
        if cut.start < cut.end or (is_last and (result or reached > start.next_offset)):
            result.append(cut)
    return result


def _cut_at_end(span: Span, end: Position) -> Span:
    """Return the span, cut where the position says that reading shall end."""
    within = span.segment.base_offset == end.segment and span.start <= end.pos <= span.end
    return msgspec.structs.replace(
        span,
        until_offset=end.next_offset,
        end=end.pos if within else span.end,
        ceiling=min(span.ceiling, end.next_offset) if span.ceiling is not None else end.next_offset if within else None,
    )


def _leads_on(log: LogDir, segment: Segment, start: Position, *, is_closed: bool) -> bool:
    """Return whether the byte of a position still is where its offset begins.

    The newest segment may end there, and the offset of a batch there may be off. In another one a cleaner may have
    taken what was before that byte: then a later batch may begin there, and what was not read yet lies before.
    """
    head = log.store.read(segment.path, start.pos, HEADER_BYTES) if start.pos < segment.size else b""
    if not is_closed:
        return len(head) < HEADER_BYTES or head[16] == 2
    return len(head) == HEADER_BYTES and head[16] == 2 and int.from_bytes(head[:8], "big") == start.next_offset
