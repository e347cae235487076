"""Which record of each key is the latest, among those that were appended lately.

The writer of a log has its records at hand when it appends them, so their keys are noted then. A compaction takes the
notes over and reads only what was appended without them: before the server started, or by others.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol, final

import msgspec

from protocol.record_batch import BatchHeader
from protocol.records import EndMarker
from storage.compaction import KeyIndex

KEYS_MAX = 5_000
"""How many keys are noted for one log, about a mebibyte. When there are more, noting begins anew, and what was noted
before is read from the log."""

WriteKey = Callable[[Any], bytes]
"""Writes the key of a record, or one of a family: the pair of its name and the number."""


class KeyedRecord(Protocol):
    """A record as its writer knows it. Equal keys are written as equal bytes; a tombstone has no value."""

    @property
    def key(self) -> Hashable: ...

    @property
    def value(self) -> object | None: ...


@final
class KeyFamily(msgspec.Struct, frozen=True, gc=False):
    """The keys of plain records that follow each other, all of them with a value, where the keys differ in a number.

    Each key is the pair of name and number.
    """

    name: Hashable
    numbers: Sequence[int]


@final
class _NotedFamily:
    """The keys of one name. The same numbers come again and again: the latest are noted by where they begin."""

    __slots__ = ("_first", "_numbers", "_offsets")

    def __init__(self) -> None:
        self._offsets: dict[int, int] = {}  # by number; those of the latest numbers may be outdated
        self._numbers: Sequence[int] = ()
        self._first = 0  # the offset of the first of them

    def note(self, numbers: Sequence[int], offset: int) -> int:
        """Note keys that follow each other from the offset on. Returns how many of them are new."""
        if numbers == self._numbers:
            self._first = offset
            return 0
        offsets = self.offsets()
        before = len(offsets)
        offsets.update(zip(numbers, range(offset, offset + len(numbers)), strict=True))
        self._numbers, self._first = numbers, offset
        return len(offsets) - before

    def offsets(self) -> dict[int, int]:
        """Return the latest offset of each number."""
        first, numbers = self._first, self._numbers
        self._offsets.update(zip(numbers, range(first, first + len(numbers)), strict=True))
        return self._offsets


class AppendedKeys:
    """The keys of the batches from the offset on at which noting began."""

    __slots__ = ("_count", "_end", "_families", "_index", "_latest", "_leader_epoch", "_pending", "_write_key")

    def __init__(self, offset: int, leader_epoch: int, write_key: WriteKey) -> None:
        self._leader_epoch, self._write_key = leader_epoch, write_key
        self.restart(offset)

    def restart(self, offset: int) -> None:
        """Forget everything, and begin with the batch at `offset`."""
        self._index = KeyIndex(range(offset, offset), epochs={self._leader_epoch})
        self._latest: dict[Hashable, int] = {}
        self._families: dict[Hashable, _NotedFamily] = {}  # by name
        self._count = 0  # of the keys in families
        self._end = offset
        self._pending: dict[
            int, list[tuple[Hashable, int]]
        ] = {}  # keys and offsets of open transactions, by producer id

    def take(self) -> KeyIndex:
        """Return what was noted of plain records and decided transactions, and begin anew behind it."""
        index, end = self._index, self._end
        index.offsets = range(index.offsets.start, end)
        write, latest = self._write_key, index.latest
        for key, offset in self._latest.items():
            written = write(key)
            latest[written] = max(offset, latest.get(written, -1))
        for name, family in self._families.items():
            for number, offset in family.offsets().items():
                written = write((name, number))
                latest[written] = max(offset, latest.get(written, -1))
        self.restart(end)
        return index

    def note(self, header: BatchHeader, records: Sequence[KeyedRecord | KeyFamily], marker: EndMarker | None) -> None:
        """Note the batch that was just appended: its records, or none and the end of a transaction."""
        offset, latest = header.base_offset, self._latest
        assert offset == self._end, f"a batch at offset {offset} was noted after offset {self._end}"
        self._end = end = header.next_offset
        if header.producer_id >= 0:
            self._note_transactional(header, records, marker)
            return
        is_mixed = False
        for record in records:
            if type(record) is KeyFamily:
                family = self._families.get(record.name)
                if family is None:
                    family = self._families[record.name] = _NotedFamily()
                self._count += family.note(record.numbers, offset)
                offset += len(record.numbers)
                continue
            latest[record.key] = offset
            offset += 1
            if record.value is None:
                is_mixed = True
        assert offset == end, f"records up to offset {offset} were noted of a batch that ends at {end}"
        if is_mixed:
            self._index.mixed.add(header.base_offset)
        if len(latest) + self._count > KEYS_MAX:
            self.restart(end)

    def _note_transactional(
        self, header: BatchHeader, records: Sequence[KeyedRecord | KeyFamily], marker: EndMarker | None
    ) -> None:
        """Records of a transaction count from its commit on, but do not replace what was written after them."""
        index, latest, first = self._index, self._latest, header.base_offset
        if header.is_control:
            index.control.append(first)
            commits = marker is not None and marker.commits
            entries = self._pending.pop(header.producer_id, [])
            latest.update([(key, at) for key, at in entries if commits and latest.get(key, -1) < at])
        else:
            single = [record for record in records if type(record) is not KeyFamily]
            assert len(single) == len(records), "families are of plain records"
            found = [(record.key, first + at) for at, record in enumerate(single)]
            self._pending.setdefault(header.producer_id, []).extend(found)
            if any(record.value is None for record in single):
                index.mixed.add(first)
        if len(latest) + self._count + len(index.control) + sum(map(len, self._pending.values())) > KEYS_MAX:
            self.restart(self._end)
