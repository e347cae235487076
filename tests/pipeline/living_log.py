"""A log that lives while it is read: batches come, some in two halves, segments roll, and a cleaner takes records."""

from pathlib import Path
from random import Random

from pipeline.synth import commit
from protocol import record_batch
from protocol.compression import Meter

Segment = dict[int, bytes]  # base offset of a batch -> its bytes


class LivingLog:
    """One partition's directory, and what its records are now."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self.directory = directory
        self.segments: dict[int, Segment] = {0: {}}  # by the offset in the name of the file, in order
        self.next_offset = 0
        self._unwritten = 0  # bytes of the last batch
        self._write(0)

    @property
    def whole_offset(self) -> int:
        """The offset behind the last whole batch."""
        return max(self.segments[max(self.segments)]) if self._unwritten else self.next_offset

    def live(self, dice: Random) -> None:
        """One of these happens."""
        self.finish()
        dice.choice((self.append, self.append, self.append_in_part, self.roll, self.clean))(dice)

    def finish(self) -> None:
        """The last batch is whole now."""
        self._unwritten = 0
        self._write(max(self.segments))

    def append_in_part(self, dice: Random) -> None:
        """A batch of which the last bytes are not there yet."""
        self.append(dice)
        self._unwritten = dice.randrange(1, len(next(reversed(self.segments[max(self.segments)].values()))))
        self._write(max(self.segments))

    def append(self, dice: Random) -> None:
        """A batch of one to four records, of any length."""
        base, records = self.next_offset, []
        for number in range(dice.randrange(1, 5)):
            records.append(commit(("g", "t", number), base, 1_000 + base, metadata="m" * dice.randrange(40)))
        self.segments[max(self.segments)][base] = record_batch.encode(records, base_offset=base)
        self.next_offset += len(records)
        self._write(max(self.segments))

    def roll(self, _: Random) -> None:
        """A new segment, to which nothing was written yet."""
        self.segments.setdefault(self.next_offset, {})
        self._write(self.next_offset)

    def clean(self, dice: Random) -> None:
        """Some records of closed segments go, perhaps all of one, and two segments may become one."""
        *closed, active = sorted(self.segments)
        share = dice.choice((0.3, 0.7, 1.0))
        for name in closed:
            left = {base: _without_some(batch, dice, share) for base, batch in self.segments[name].items()}
            self.segments[name] = {base: batch for base, batch in left.items() if batch}
            self._write(name)
        if len(closed) > 1 and dice.random() < 0.5:
            at = dice.randrange(len(closed) - 1)
            self.segments[closed[at]] |= self.segments.pop(closed[at + 1])
            (self.directory / f"{closed[at + 1]:020d}.log").unlink()
            self._write(closed[at])
        self.segments = dict(sorted(self.segments.items()))
        assert max(self.segments) == active, "a cleaner leaves the newest segment alone"

    def batches(self, first: int, end: int) -> list[bytes]:
        """The batches that hold some offset from `first` on and begin before `end`, in order."""
        return [
            batch
            for segment in self.segments.values()
            for base, batch in segment.items()
            if base < end and record_batch.header_at(batch).next_offset > first
        ]

    def offsets(self, first: int, end: int) -> set[int]:
        """The offsets of the records that are there now, from `first` to `end` (exclusive)."""
        found = (offset for batch in self.batches(first, end) for offset in _offsets(batch))
        return {offset for offset in found if first <= offset < end}

    def _write(self, name: int) -> None:
        data = b"".join(self.segments[name].values())
        size = len(data) - self._unwritten if name == max(self.segments) else len(data)
        (self.directory / f"{name:020d}.log").write_bytes(data[:size])


def _without_some(batch: bytes, dice: Random, share: float) -> bytes:
    header = record_batch.header_at(batch)
    kept = [record for record in record_batch.read(batch, 0, header, Meter()) if dice.random() >= share]
    return record_batch.rewrite(header, kept) if kept else b""


def _offsets(batch: bytes) -> list[int]:
    return [record.offset for record in record_batch.read(batch, 0, record_batch.header_at(batch), Meter())]
