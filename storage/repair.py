"""What can be saved of a damaged log, and what is lost: told first, done only when asked for.

Each segment is read as far as its batches go. What does not fit is put right where the neighbours and the checksum
prove what it was: a base offset, a leader epoch, a length. What cannot be proved is lost, and an empty batch takes
its place, so that no offset is ever used twice and all that stands behind it is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

import msgspec

from protocol import record_batch
from protocol.compression import Meter
from protocol.errors import ProtocolError
from protocol.record_batch import HEADER_BYTES, HEADER_FAST, MAGIC, BatchHeader, crc_of
from protocol.records import Record
from storage import checkpoint as checkpoints
from storage import layout, mending
from storage.checkpoint import Checkpoint
from storage.files import Files
from storage.layout import DELETED, SWAP, Layout, Swap
from storage.recovery import whole_batches
from storage.segment import OFFSET_MAX, file_name


class Loss(msgspec.Struct, frozen=True):
    """Bytes that are no batch any more, or that are gone (`size` 0), and the offsets that were in them.

    No offsets at all: a torn write at the end of the log, which was never acknowledged.
    """

    path: str
    position: int
    size: int
    first_offset: int
    end_offset: int


class MendedBatch(msgspec.Struct, frozen=True):
    """A batch whose header is put right; nothing of it is lost."""

    path: str
    position: int
    what: str


Check = Callable[[BatchHeader, list[Record]], Mapping[int, str]]
"""Why records of a batch cannot be taken for what they should be, by offset; asked from the start of the log on."""


class Unreadable(msgspec.Struct, frozen=True):
    """Records of a whole batch that nobody can read; their offsets are kept."""

    path: str
    position: int
    first_offset: int
    end_offset: int
    reason: str


class Survey(msgspec.Struct):
    """What a repair would do to one log."""

    losses: list[Loss] = []
    mended: list[MendedBatch] = []
    unreadable: list[Unreadable] = []
    swaps: list[tuple[str, str]] = []
    """Files under `.swap` that are put aside, each with the reason."""
    start_offset: int = 0
    end_offset: int = 0
    forgets_checkpoint: bool = False
    """The checkpoint is unreadable: deleted records that a segment still holds come back."""
    segments: dict[int, list[bytes]] = {}
    """By base offset, the batches of every segment that has to be written anew."""

    @property
    def is_needed(self) -> bool:
        return bool(self.losses or self.mended or self.unreadable or self.swaps or self.forgets_checkpoint)


def survey(files: Files, directory: str, found: Layout, check: Check | None = None) -> Survey:
    """Read a log whatever state it is in. Changes nothing.

    `check` judges the records of whole batches: storage knows bytes, not what they mean.
    """
    data = checkpoints.read(files, directory)
    remembered = _readable_checkpoint(data)
    result = Survey(forgets_checkpoint=data is not None and remembered is None, swaps=list(found.unreadable))
    known = remembered or Checkpoint()
    expected = found.segments[0][0] if found.segments else known.recovery_point
    result.start_offset = max(known.start_offset, expected)
    if remembered is not None and known.start_offset < expected:
        result.losses.append(Loss(directory, 0, 0, known.start_offset, expected))
    epoch = -1
    for number, (base, name) in enumerate(found.segments):
        path = f"{directory}/{name}"
        file = files.open(path, readonly=True)
        content = file.pread(0, file.size())
        file.close()
        is_last = number == len(found.segments) - 1
        until = known.recovery_point if is_last else found.segments[number + 1][0]
        reader = _Salvage(path, content, base, until, is_last=is_last, known=remembered, epoch=epoch, check=check)
        reader.read()
        expected, epoch = max(reader.expected, until), reader.epoch
        result.losses += reader.losses
        result.mended += reader.mended
        result.unreadable += reader.unreadable
        if reader.losses or reader.mended or reader.unreadable:
            result.segments[base] = reader.batches
    if known.segment_base not in (checkpoints.NO_SEGMENT, *(base for base, _ in found.segments)) and not result.losses:
        result.losses.append(Loss(f"{directory}/{file_name(known.segment_base)}", 0, 0, expected, expected))
    result.end_offset = expected
    return result


def _readable_checkpoint(data: bytes | None) -> Checkpoint | None:
    if data is None:
        return None
    with suppress(checkpoints.UnreadableCheckpoint):
        return checkpoints.decode(data)
    return None


class _Salvage:
    """One segment's batches, good and mended, with empty ones in place of what is lost."""

    def __init__(
        self,
        path: str,
        content: bytes,
        base_offset: int,
        until: int,
        *,
        is_last: bool,
        known: Checkpoint | None,
        epoch: int,
        check: Check | None,
    ) -> None:
        """Begin with a segment that reaches to `until` at least, behind a batch of `epoch`.

        `known` is the checkpoint, None if there is none that can be read.
        """
        self.path, self.content, self.until, self.is_last = path, content, until, is_last
        self.expected = base_offset
        self.epoch = epoch
        """The last batch's leader epoch; it never falls."""
        self.contiguous_from = 2**63 if known is None else known.contiguous_from
        self.leader_epoch = None if known is None else known.leader_epoch
        """What every batch from there on bears, and none before exceeds; None in a log that another broker has
        written."""
        self._latest: dict[int, int] = {}  # offsets at which a batch may end, by the position behind it
        self.batches: list[bytes] = []
        self.losses: list[Loss] = []
        self.mended: list[MendedBatch] = []
        self.unreadable: list[Unreadable] = []
        self.check = check

    def read(self) -> None:
        """Read all of it."""
        position = 0
        while position < len(self.content):
            position = self._one(position)
        if self.expected < self.until and (self.is_last or self.until > self.contiguous_from):
            self._describe_lost(position, 0, self.until)

    def _one(self, position: int) -> int:
        """Take the batch at `position`, or what can be saved of it. The position after it."""
        batch = self._whole_at(position)
        if batch is None:
            rest = self.content[position:]
            at, header = next(whole_batches(rest, self.expected), (len(rest), None))
            batch = self._mend(position, at)
            if batch is None:
                end_offset = max(self.until, self.expected) if header is None else header.base_offset
                self._describe_lost(position, at, end_offset)
                return position + at
        batch = self._put_right(position, batch)
        self.batches.append(self._without_unreadable(position, batch))
        header = record_batch.header_at(batch)
        self.expected, self.epoch = header.next_offset, header.leader_epoch
        return position + header.size

    def _without_unreadable(self, position: int, batch: bytes) -> bytes:
        """Return the batch without the records that `check` refuses; it spans the same offsets."""
        header = record_batch.header_at(batch)
        if self.check is None or not header.count:
            return batch
        try:
            records = record_batch.read(batch, 0, header, Meter())
        except ProtocolError as error:
            self.unreadable.append(Unreadable(self.path, position, header.base_offset, header.next_offset, str(error)))
            return record_batch.rewrite(header, [])
        reasons = self.check(header, records)
        for offset, reason in reasons.items():
            self.unreadable.append(Unreadable(self.path, position, offset, offset + 1, reason))
        if not reasons:
            return batch
        return record_batch.rewrite(header, [record for record in records if record.offset not in reasons])

    def _whole_at(self, position: int) -> bytes | None:
        """Return the batch at `position`, None if its checksum does not fit."""
        if position + HEADER_BYTES > len(self.content):
            return None
        header = BatchHeader(*HEADER_FAST.unpack_from(self.content, position))
        size = header.size
        if header.magic != MAGIC or not HEADER_BYTES <= size <= len(self.content) - position:
            return None
        if crc_of(self.content, position, size) != header.crc:
            return None
        return self.content[position : position + size]

    def _put_right(self, position: int, batch: bytes) -> bytes:
        """Return the batch with its offset and epoch put right, if they contradict what is known."""
        header = record_batch.header_at(batch)
        base = self._base_of(position, header)
        epoch = self._epoch_of(header.leader_epoch)
        if (header.base_offset, header.leader_epoch) == (base, epoch):
            return batch
        what = f"base offset {header.base_offset}, leader epoch {header.leader_epoch}: now {base}, {epoch}"
        self.mended.append(MendedBatch(self.path, position, what))
        return b"".join(record_batch.place(batch, base, epoch))

    def _base_of(self, position: int, header: BatchHeader) -> int:
        """Return the base offset of the batch, or the one that it should have.

        There are gaps in what another broker has written. A batch there that cannot be at its own offset is put where
        the gap ends, or begins if that is not known.
        """
        if self.expected >= self.contiguous_from:
            return self.expected
        latest = self._latest_end(position + header.size) - header.last_offset_delta - 1
        end = self._end_of_gap(position + header.size, header)
        is_before = self.expected <= header.base_offset and header.next_offset <= end
        is_last = self._is_last_of_theirs(position + header.size)
        is_credible = header.next_offset == self.contiguous_from or (is_before and not is_last)
        if is_credible and header.base_offset <= latest:
            return max(header.base_offset, self.expected)
        end = self.contiguous_from if is_last else end
        return (
            max(min(end - header.last_offset_delta - 1, latest), self.expected) if end < OFFSET_MAX else self.expected
        )

    def _end_of_gap(self, position: int, header: BatchHeader) -> int:
        """Return the offset at or before which a batch ends that stands in front of `position`."""
        follower = self._whole_at(position)
        if follower is None:
            return min(OFFSET_MAX if self.is_last else self.until, self.contiguous_from)
        base = record_batch.header_at(follower).base_offset
        is_credible = self.expected + header.last_offset_delta < base <= self._latest_end(position)
        return min(base if is_credible else OFFSET_MAX, self.contiguous_from)

    def _latest_end(self, position: int) -> int:
        """Return the last offset at which what stands in front of `position` may end, so that the whole batches from
        there on have room."""
        if position not in self._latest:
            headers: list[tuple[int, BatchHeader]] = []
            at = position
            while (batch := self._whole_at(at)) is not None:
                headers.append((at, header := record_batch.header_at(batch)))
                at += header.size
            self._latest[at] = latest = OFFSET_MAX if self.is_last else self.until
            for at, header in reversed(headers):
                is_first_of_ours = header.base_offset == self.contiguous_from
                latest = header.base_offset if is_first_of_ours else latest - header.last_offset_delta - 1
                self._latest[at] = latest
        return self._latest[position]

    def _is_last_of_theirs(self, position: int) -> bool:
        """Return whether `position` is where our own writing begins, right behind the last batch of another broker."""
        follower = self._whole_at(position)
        return follower is not None and record_batch.header_at(follower).base_offset == self.contiguous_from

    def _epoch_of(self, epoch: int) -> int:
        """Return the leader epoch of a batch that bears this one, or the one that it should bear."""
        epoch = max(self.epoch, epoch)
        if self.leader_epoch is None:
            return epoch
        return self.leader_epoch if self.expected >= self.contiguous_from else min(epoch, self.leader_epoch)

    def _mend(self, position: int, size: int) -> bytes | None:
        """Return the batch as it was before a header field or one bit of it changed, if its checksum proves that."""
        mended = mending.mend(self.content[position : position + size])
        if mended is None:
            return None
        self.mended.append(MendedBatch(self.path, position, mended.what))
        return mended.batch

    def _describe_lost(self, position: int, size: int, end_offset: int) -> None:
        self.losses.append(Loss(self.path, position, size, self.expected, end_offset))
        self.epoch = self._epoch_of(0)
        self.batches += empty_batches(self.expected, end_offset, self.epoch)
        self.expected = end_offset


def empty_batches(first_offset: int, end_offset: int, leader_epoch: int) -> Iterator[bytes]:
    """Batches without records that span these offsets."""
    while first_offset < end_offset:
        last = min(end_offset - 1, first_offset + 2**31 - 1)
        header = BatchHeader(first_offset, 0, leader_epoch, MAGIC, 0, 0, last - first_offset, -1, -1, -1, -1, -1, 0)
        yield record_batch.seal(header, b"")
        first_offset = last + 1


def carry_out(files: Files, directory: str, found: Layout, plan: Survey) -> None:
    """Do what the survey says. A crash in the middle leaves a log that another repair finishes."""
    for name, _ in found.unreadable:
        files.rename(f"{directory}/{name}", f"{directory}/{name}.unreadable")
    for base, name in found.segments:
        if name.endswith(DELETED):
            files.rename(f"{directory}/{name}", f"{directory}/{file_name(base)}")
    layout.tidy(files, directory, found)
    for base, batches in plan.segments.items():
        path = f"{directory}/{file_name(base)}"
        file = files.open(f"{path}.cleaned", create=True)
        file.truncate(0)
        file.append(b"".join(batches))
        file.sync()
        file.close()
        files.rename(f"{path}.cleaned", f"{directory}/{file_name(base, SWAP)}")
        files.sync_directory(directory)
        layout.finish(files, directory, Swap(base, (base,)))
    data = checkpoints.read(files, directory)
    known = _readable_checkpoint(data) or Checkpoint()
    changes = {"start_offset": plan.start_offset, "segment_base": max([base for base, _ in found.segments], default=-1)}
    if plan.forgets_checkpoint:
        changes |= {"contiguous_from": plan.end_offset, "cleaned_to": 0}
    if data is not None:
        checkpoints.write(files, directory, msgspec.structs.replace(known, **changes))
