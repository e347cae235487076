"""Whether a log is still the one that was read before, or was truncated, or made anew in the same place.

What is remembered is the first batch of the segment in which reading stopped, and the bytes before the place where it
did. The newest segment is only appended to, so both must be the same there still. In an older segment a cleaner may
have rewritten them, or merged the segment into one before; then the log is taken for another one only where its first
batch is younger than what was read.
"""

import struct

import crc32c
import msgspec

from pipeline.decode.layout import HEADER_BYTES, segment_path, segments
from pipeline.decode.logs import Identity, LogDir, Position, Segment

TAIL_BYTES = 4096  # before a position: some batches, of which not all can have been the same before they were replaced
_HEADER = struct.Struct(">qiibI")  # base offset, length, leader epoch, magic, checksum


def identify(log: LogDir, position: Position) -> Identity | None:
    """Return the identity of a log that was read up to a position; None as long as it has no batch."""
    if log.is_on_cluster:
        from pipeline.decode import cluster

        return cluster.identify(log)
    found = [segment for segment in segments(log) if segment.base_offset <= position.segment]
    for segment in reversed(found):
        if identity := _first_batch(log, segment):
            return msgspec.structs.replace(identity, tail=_checksum_of_tail(log, position))
    return None


def find_replacement(log: LogDir, known: Identity, position: Position) -> str | None:
    """Say why the log is not the one that was read up to a position; None if it is, as far as can be told."""
    if log.is_on_cluster:
        from pipeline.decode import cluster

        return cluster.find_replacement(log, known, position)
    found = segments(log)
    last = found[-1] if found else None
    if last is None or last.base_offset < min(known.segment, position.segment):
        return f"it ends before offset {position.next_offset}, up to which it was read"
    same = next((segment for segment in found if segment.base_offset == known.segment), None)
    now = _first_batch(log, same) if same else None
    if same == last:
        if now is None or (last.size < position.pos and position.segment == last.base_offset):
            return f"it ends before offset {position.next_offset}, up to which it was read"
        if (now.base_offset, now.checksum) != (known.base_offset, known.checksum):
            return f"another batch stands at the beginning of segment {known.segment}"
        if known.tail is not None and position.segment == last.base_offset:
            if _checksum_of_tail(log, position) != known.tail:
                return f"other records stand before offset {position.next_offset}, up to which it was read"
        if position.segment == last.base_offset and _goes_back(log, position):
            return f"what follows has offsets below {position.next_offset}, up to which it was read"
    if now is not None and now.checksum == known.checksum:
        return None
    first = _first_batch(log, found[0])
    if first is not None and first.base_offset <= known.base_offset and first.max_ts > known.max_ts:
        return "its first batch is younger than what was read"
    return None


def _checksum_of_tail(log: LogDir, position: Position) -> int | None:
    """Return the checksum of the last bytes before a position; None at the beginning of a segment."""
    if position.pos <= 0:
        return None
    start = max(0, position.pos - TAIL_BYTES)
    return crc32c.crc32c(log.store.read(segment_path(log, position.segment), start, position.pos - start))


def _goes_back(log: LogDir, position: Position) -> bool:
    """Return whether two batches follow that come one after the other, and that the offset of the position excludes.

    One alone may have an offset that is off itself. Such positions come of damage that was believed: of two batches at
    the end of a log, or in tables of earlier releases.
    """
    pos, above = position.pos, -1
    for _ in range(2):
        head = log.store.read(segment_path(log, position.segment), pos, HEADER_BYTES)
        if len(head) < HEADER_BYTES or head[16] != 2:
            return False
        base, length = struct.unpack_from(">qi", head)
        if not above < base < position.next_offset:
            return False
        pos, above = pos + 12 + length, base
    return True


def ends_before(log: LogDir, position: Position) -> bool:
    """Return whether a log ends before the place where reading stopped, as far as its listing tells."""
    if log.is_on_cluster or position.segment < 0:
        return False
    found = segments(log)
    last = found[-1] if found else None
    return position.pos > 0 and (
        last is None
        or last.base_offset < position.segment
        or (last.base_offset == position.segment and last.size < position.pos)
    )


def _first_batch(log: LogDir, segment: Segment) -> Identity | None:
    head = log.store.read(segment.path, 0, HEADER_BYTES)
    if len(head) < HEADER_BYTES:
        return None
    base, _, _, _, checksum = _HEADER.unpack_from(head)
    (max_ts,) = struct.unpack_from(">q", head, 35)
    return Identity(segment.base_offset, base, checksum, max_ts)
