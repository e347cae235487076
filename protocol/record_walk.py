"""A walk over the records of a batch, some thousand at a time, that makes none of them.

A broker looks at every record that it keeps, because every consumer and every later start-up must read it. To walk over
the records costs a third of reading them. The layout is drawn in `protocol/records.py`.
"""

from __future__ import annotations

from protocol.errors import ProtocolError
from protocol.records import RECORD_BYTES_MIN

HEADERS_MAX = 65_536
"""Headers of one record, which are walked over in one go."""
STEP_HEADERS = 8_192
"""Headers after which a walk stops, whatever records it may still walk over: a header costs half a record."""
NAMED_MAX = 1_000
"""Records at fault that a walk remembers; it counts the others."""
ANY_TIME = (-(1 << 64), 1 << 64, 0)


class RecordWalk:
    """Where a walk over `count` records of `data[position:end]` is, and what the records before it say together.

    Times are differences from the base time of the batch. `times` are the least and the greatest one that is allowed,
    and the one that stands for no time.
    """

    __slots__ = (
        "_before",
        "_count",
        "_data",
        "_end",
        "_is_untimely",
        "_position",
        "_times",
        "headers",
        "index",
        "keyless",
        "keyless_count",
        "latest",
        "misplaced",
        "untimely",
        "untimely_count",
    )

    def __init__(
        self, data: bytes, position: int, end: int, count: int, times: tuple[int, int, int] = ANY_TIME
    ) -> None:
        if not 0 <= count * RECORD_BYTES_MIN <= end - position:
            message = f"{count} records do not fit in {end - position} bytes"
            raise ProtocolError(message, path="records", offset=position)
        self._data, self._position, self._end, self._count, self._times = data, position, end, count, times
        self.index = 0  # of the next record
        self._before = -1  # the raw time of the record before: mostly it is that of this one as well
        self._is_untimely = False
        self.latest = -(1 << 63)
        self.headers = 0
        self.keyless: list[int] = []  # the first of them, by index
        self.keyless_count = 0
        self.untimely: list[tuple[int, int]] = []  # the first of them: index and time
        self.untimely_count = 0
        self.misplaced: int | None = None  # the first record whose offset is not its index

    def advance(self, most: int) -> bool:
        """Walk over at most `most` records, fewer if they have many headers. Return whether all are behind.

        Raises `ProtocolError` unless the records fill their bytes exactly. This is on the way of every produced record,
        and most of what one costs: that is why numbers of one byte or two, which nearly all are, are read in place.
        """
        data, position, end, before, is_untimely = (
            self._data,
            self._position,
            self._end,
            self._before,
            self._is_untimely,
        )
        latest, stop_index = self.latest, min(self._count, self.index + most)
        try:
            for index in range(self.index, stop_index):
                length = data[position]
                if length < 0x80:
                    position += 1
                elif (second := data[position + 1]) < 0x80:
                    length += (second << 7) - 0x80
                    position += 2
                else:
                    length, position = _long(data, position + 1, length)
                stop = position + (length >> 1)
                if length & 1 or stop > end:
                    raise ProtocolError("a record reaches beyond its batch", path="records", offset=position)

                time = data[position + 1]  # after the attributes, which no reader looks at
                if time < 0x80:
                    position += 2
                elif (second := data[position + 2]) < 0x80:
                    time += (second << 7) - 0x80
                    position += 3
                else:
                    time, position = _long(data, position + 2, time)
                if time != before:
                    before = time
                    time = (time >> 1) ^ -(time & 1)
                    if time > latest:
                        latest = time
                    least, greatest, none = self._times
                    is_untimely = not least <= time <= greatest and time != none
                if is_untimely:
                    self._note_untimely(index, before)

                place = data[position]
                if place < 0x80:
                    position += 1
                elif (second := data[position + 1]) < 0x80:
                    place += (second << 7) - 0x80
                    position += 2
                else:
                    place, position = _long(data, position + 1, place)
                if place != index << 1 and self.misplaced is None:
                    self.misplaced = index

                key = data[position]
                position += 1
                if key > 0x7F:
                    key, position = _long(data, position, key)
                if key & 1:
                    if key != 1:
                        _check_null(key, position)
                    self.keyless_count += 1
                    if self.keyless_count <= NAMED_MAX:
                        self.keyless.append(index)
                else:
                    position += key >> 1

                value = data[position]
                if value < 0x80:
                    position += 1
                elif (second := data[position + 1]) < 0x80:
                    value += (second << 7) - 0x80
                    position += 2
                else:
                    value, position = _long(data, position + 1, value)
                if value & 1:
                    _check_null(value, position)
                else:
                    position += value >> 1

                if data[position]:
                    count, position = _skip_headers(data, position, stop)
                    self.headers += count
                    if self.headers >= STEP_HEADERS and position == stop:
                        stop_index = index + 1
                        break
                else:
                    position += 1
                if position != stop:
                    raise ProtocolError("a record's length is not that of its fields", path="records", offset=position)
        except IndexError:
            raise ProtocolError("a record is cut off", path="records", offset=position) from None
        self._position, self.index, self._before = position, stop_index, before
        self._is_untimely, self.latest = is_untimely, latest
        if stop_index < self._count:
            return False
        if position != end:
            raise ProtocolError(f"{end - position} bytes after the last record", path="records", offset=position)
        return True

    def _note_untimely(self, index: int, raw: int) -> None:
        self.untimely_count += 1
        if self.untimely_count <= NAMED_MAX:
            self.untimely.append((index, (raw >> 1) ^ -(raw & 1)))


def _long(data: bytes, position: int, first: int) -> tuple[int, int]:
    """Return the raw (still zigzag) number whose first byte asked for more, and the position after it."""
    number = first & 0x7F
    for shift in range(7, 70, 7):
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80 and number < 1 << 64:
            return number, position
    raise ProtocolError("a varint of more than 64 bits", path="records", offset=position)


def _check_null(raw: int, position: int) -> None:
    """Raise unless a negative length is that of null: -1."""
    if raw != 1:
        raise ProtocolError(f"a length of {(raw >> 1) ^ -1}", path="records", offset=position)


def _skip_headers(data: bytes, position: int, stop: int) -> tuple[int, int]:
    """Return how many headers a record has and the position after them; names and values lie before `stop`."""
    raw, position = _number(data, position)
    count = raw >> 1
    if raw & 1 or 2 * count > stop - position:  # a header takes two bytes at least
        raise ProtocolError(f"{count} headers in {stop - position} bytes", path="records.headers", offset=position)
    if count > HEADERS_MAX:
        raise ProtocolError(f"{count} headers, of at most {HEADERS_MAX}", path="records.headers", offset=position)
    for _ in range(count):
        raw, position = _number(data, position)
        if raw & 1:
            raise ProtocolError("a header without a name", path="records.headers", offset=position)
        position += raw >> 1
        raw, position = _number(data, position)
        if raw & 1:
            _check_null(raw, position)
        else:
            position += raw >> 1
        if position > stop:
            raise ProtocolError("a header reaches beyond its record", path="records.headers", offset=position)
    return count, position


def _number(data: bytes, position: int) -> tuple[int, int]:
    raw = data[position]
    return _long(data, position + 1, raw) if raw > 0x7F else (raw, position + 1)
