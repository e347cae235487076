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
        if i + 1 < len(found) and found[i + 1].base_offset <= start.next_offset:
            continue
        begin = _find_begin(log, segment, start, is_closed=i + 1 < len(found))
        size = segment.size - begin
        is_closed = i + 1 < len(found)
        if not is_closed or (left is not None and size >= left):
            reached = _walk(log, segment, begin, left, at)
            if not is_closed or reached.pos > begin:
                return reached
        elif left is not None:
            left -= size
        at = Position(max(at.next_offset, found[i + 1].base_offset), found[i + 1].base_offset, 0)
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


def _walk(log: LogDir, segment: Segment, begin: int, limit: int | None, at: Position) -> Position:
    """Follow the headers from `begin` to the last whole batch, but stop once `limit` bytes are passed."""
    pos, next_offset = begin, at.next_offset
    while pos < segment.size and (limit is None or pos - begin < limit):
        data, found, stop = _read_batches(log, segment, pos)
        if not len(found):
            break
        if limit is not None:
            inside = max(1, int(np.searchsorted(found, limit - (pos - begin))))
            if inside < len(found):
                stop = int(found[inside])
            found = found[:inside]
        next_offset = max(next_offset, _find_end(Headers.at(data, found[-3:]), next_offset))
        pos += stop
        if limit is not None and pos - begin >= limit:
            break
    return Position(next_offset, segment.base_offset, pos)


def _find_end(headers: Headers, before: int) -> int:
    """Return the offset after the last of some batches, behind those that end before `before`.

    No checksum protects an offset. If the last batch claims one that was read already, and the batch before follows its
    own neighbour, the last batch is off, as for `SpanReader`.
    """
    bases, ends = headers.base_offset.tolist(), (headers.last_offset + 1).tolist()
    is_off = len(bases) > 1 and bases[-1] < ends[-2] and bases[-2] == [before, *ends][-3]
    return int(ends[-2] if is_off else ends[-1])


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

    The newest segment may end there, or with a batch that is being written. In another one a cleaner may have taken
    what was before that byte: then a later batch may begin there, and what was not read yet lies before.
    """
    head = log.store.read(segment.path, start.pos, HEADER_BYTES) if start.pos < segment.size else b""
    if len(head) < HEADER_BYTES:
        return not is_closed
    base_offset = int.from_bytes(head[:8], "big", signed=True)
    return head[16] == 2 and (base_offset == start.next_offset or (base_offset > start.next_offset and not is_closed))
