"""A walk over the records of a batch, some thousand at a time, that makes none of them.

A broker looks at every record that it keeps, because every consumer and every later start-up must read it. To walk over
the records costs a third of reading them. The layout is drawn in `protocol/records.py`.

Records of one shape lie at equal distances: the same fields have the same lengths. The bytes that say so are a column,
which a slice with a step takes out at once, and which is compared as a whole. Of two records of one length in a row the
walk looks for such a run, which costs a thirtieth of going from record to record.
"""

from __future__ import annotations

from collections.abc import Collection

from protocol.errors import ProtocolError
from protocol.records import RECORD_BYTES_MIN, finish_varint

HEADERS_MAX = 65_536
"""Headers of one record, which are walked over in one go."""
STEP_HEADERS = 8_192
"""Headers after which a walk stops, whatever records it may still walk over: a header costs half a record."""
NAMED_MAX = 1_000
"""Records at fault that a walk remembers; it counts the others."""
ANY_TIME = (-(1 << 64), 1 << 64, 0)
BYTES_MAX = 5
"""Of a number, as readers take it; the time of a record has ten."""
RUN_MIN = 16
"""Records of one shape in a row for which it pays to look for them."""
_GOES_ON = range(0x80, 0x100)
"""The bytes of a varint that another one follows."""
_ENDS = range(0x80)
_PLACES = 8_192
"""Offsets in a row whose third bytes are the same: none in the first of these blocks, one number in each other."""
_FIRST_BLOCK = [
    bytes((2 * place) & 0x7F | 0x80 * (place >= 64) for place in range(_PLACES)),
    bytes(place >> 6 for place in range(_PLACES)),
]
"""The first and the second byte of the offsets 0 to 8191, of which those below 64 have one."""
_OTHER_BLOCKS = [
    bytes((2 * place) & 0x7F | 0x80 for place in range(_PLACES)),
    bytes(place >> 6 | 0x80 for place in range(_PLACES)),
]
"""The same of each other block, up to the offset 2^20: three bytes suffice so far."""


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
        "_length",
        "_misses",
        "_position",
        "_start",
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
        self._start, self._length = position, -1  # of the record before, and the raw number that it begins with
        self._misses = 0  # how often a run was looked for in vain, less how often one was found
        self.latest = -(1 << 63)
        self.headers = 0
        self.keyless: list[int] = []  # the first of them, by index
        self.keyless_count = 0
        self.untimely: list[tuple[int, int]] = []  # the first of them: index and time
        self.untimely_count = 0
        self.misplaced: int | None = None  # the first record whose offset is not its index

    def advance(self, most: int) -> bool:
        """Walk over at most `most` records, fewer if they have many headers. Return whether all are behind.

        Raises `ProtocolError` unless the records fill their bytes exactly.
        """
        stop_index = min(self._count, self.index + most)
        while self.index < stop_index and self.headers < STEP_HEADERS:
            if self._step_over(stop_index):
                self._pass_run(stop_index)
        if self.index < self._count:
            return False
        if self._position != self._end:
            message = f"{self._end - self._position} bytes after the last record"
            raise ProtocolError(message, path="records", offset=self._position)
        return True

    def _step_over(self, stop_index: int) -> bool:
        """Walk from record to record. Return whether the last two are of one length, and a run of them may follow.

        This is on the way of most produced records, and most of what one costs: that is why numbers of one byte or two,
        which nearly all are, are read in place.
        """
        data, position, end, before, is_untimely = (
            self._data,
            self._position,
            self._end,
            self._before,
            self._is_untimely,
        )
        latest, start, alike, is_run = self.latest, self._start, self._length, False
        if self._misses > 2 or self.misplaced is not None:
            alike = -2  # no run is looked for
        try:
            for index in range(self.index, stop_index):
                start = position
                length = data[position]
                if length < 0x80:
                    position += 1
                elif (second := data[position + 1]) < 0x80:
                    length += (second << 7) - 0x80
                    position += 2
                else:
                    length, position = finish_varint(data, position + 1, length, BYTES_MAX)
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
                    time, position = finish_varint(data, position + 2, time)
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
                    place, position = finish_varint(data, position + 1, place, BYTES_MAX)
                if place != index << 1 and self.misplaced is None:
                    self.misplaced = index

                key = data[position]
                position += 1
                if key > 0x7F:
                    key, position = finish_varint(data, position, key, BYTES_MAX)
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
                    value, position = finish_varint(data, position + 1, value, BYTES_MAX)
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
                if length == alike and index + 1 < stop_index:
                    stop_index, is_run = index + 1, True
                    break
                if alike != -2:
                    alike = length
        except IndexError:
            raise ProtocolError("a record is cut off", path="records", offset=position) from None
        self._position, self.index, self._before = position, stop_index, before
        self._is_untimely, self.latest = is_untimely, latest
        self._start, self._length = start, alike
        return is_run and not is_untimely

    def _pass_run(self, stop_index: int) -> None:
        """Pass the records that follow and have the shape of the one before: their fields have the same lengths.

        Where one has another shape, or is at fault, the walk goes on from record to record.
        """
        data, first, step = self._data, self._start, self._position - self._start
        time_at = _after(data, first) + 1
        place_at = _after(data, time_at)
        key_at = _after(data, place_at)
        behind_key = _after(data, key_at)
        value_at = _behind(data, key_at, behind_key)
        behind_value = _after(data, value_at)
        headers_at = _behind(data, value_at, behind_value)
        index = self.index
        block, at_of_block = divmod(index, _PLACES)
        count = min(stop_index - index, _PLACES - at_of_block, (self._end - self._position) // step)
        if headers_at != self._position - 1 or place_at - time_at > 2 or key_at - place_at > 3:
            count = 0  # there are headers, or a larger number
        for at in (*range(first, time_at - 1), *range(key_at, behind_key), *range(value_at, behind_value), headers_at):
            if count < RUN_MIN:
                break
            same, column = data[at : at + 1], data[at + step : at + step * (count + 1) : step]
            if column != same * count:
                count -= len(column.lstrip(same))
        end = step * (count + 1)
        places = [data[at + step : at + end : step] for at in range(place_at, key_at)]
        if count < RUN_MIN or places != _places(block, at_of_block, count, key_at - place_at):
            self._misses += 1
            return
        columns = [data[at + step : at + end : step] for at in range(time_at, place_at)]
        if not columns[-1].isascii() or (len(columns) > 1 and columns[0].translate(None, bytes(_GOES_ON))):
            self._misses += 1  # the number of another record is shorter or longer
            return
        times = [(raw >> 1) ^ -(raw & 1) for raw in _distinct_numbers(columns)]
        least, greatest, none = self._times
        if not all(least <= time <= greatest or time == none for time in times):
            self._misses = 3  # which are remembered one by one
            return
        self._misses -= 1
        if data[key_at] & 1:
            self.keyless_count += count
            self.keyless += range(index, min(index + count, index + NAMED_MAX - len(self.keyless)))
        self.latest = max(self.latest, *times)
        self._start += step * count
        self._position += step * count
        self.index += count

    def _note_untimely(self, index: int, raw: int) -> None:
        self.untimely_count += 1
        if self.untimely_count <= NAMED_MAX:
            self.untimely.append((index, (raw >> 1) ^ -(raw & 1)))


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


def _after(data: bytes, position: int) -> int:
    """Return the position behind a number."""
    while data[position] > 0x7F:
        position += 1
    return position + 1


def _behind(data: bytes, position: int, content: int) -> int:
    """Return the position behind a field whose length, which may be that of null, lies before its content."""
    raw = data[position] if content - position == 1 else _number(data, position)[0]
    return content + (0 if raw & 1 else raw >> 1)


def _places(block: int, at_of_block: int, count: int, width: int) -> list[bytes]:
    """Return the columns of so many offsets in a row, that take so many bytes each."""
    places = [of_byte[at_of_block : at_of_block + count] for of_byte in (_OTHER_BLOCKS if block else _FIRST_BLOCK)]
    if width < 3:
        return places[:width]
    return [*places, bytes((block & 0x7F,)) * count]


def _distinct(column: bytes, values: range) -> Collection[int]:
    """Return which of these values a column has. Many bytes take longer to look at than each value to look for."""
    return set(column) if len(column) < 2 * len(values) else [value for value in values if value in column]


def _distinct_numbers(columns: list[bytes]) -> Collection[int]:
    """Return the numbers that the columns of their bytes have: of one byte each, or of two.

    The times of records mostly go up, so that numbers of two bytes with the same second one lie together.
    """
    if len(columns) == 1:
        return _distinct(columns[0], _ENDS)
    low, high = columns
    found: list[int] = []
    for second in _distinct(high, _ENDS):
        first, end = high.find(second), high.rfind(second) + 1
        if high.count(second) != end - first:
            return {one & 0x7F | two << 7 for one, two in set(zip(low, high, strict=True))}
        found += [one & 0x7F | second << 7 for one in _distinct(low[first:end], _GOES_ON)]
    return found


def _number(data: bytes, position: int) -> tuple[int, int]:
    raw = data[position]
    return finish_varint(data, position + 1, raw, BYTES_MAX) if raw > 0x7F else (raw, position + 1)
