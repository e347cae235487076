"""Acquire records for a member: those that are available again first, then those that were never delivered.

A batch is the one that was acquired first, of which parts may have other fates by now: what is available of it is
acquired together. One that has failed often is cut, so that one poison record does not take all others with it to the
limit: from half of the limit on a delivery has half of what the one before it had, and the last has a single record.
Kafka: `SharePartition.acquire`.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from coordinator.core.share_partitions.runs import find_end_of_batch, find_run, overlay, part
from coordinator.core.share_partitions.values import NEVER_MS, NO_MEMBER, Limits, Run, SharePartition
from coordinator.core.share_state.values import DeliveryState

IN_FLIGHT_MAX: Final = 10_000
"""Records of a partition in flight, whatever the settings are and however large a produced batch is: a step may look at
all of them. The greatest setting is 4,000, and a whole batch may exceed it, as by Kafka, up to here."""
CUT_FROM_MIN: Final = 2  # deliveries, whatever the limit is
UNCUT_LIMIT: Final = 2  # up to this limit of deliveries the last one is not cut into single records


class BatchOffsets(Struct, frozen=True, gc=False):
    """A batch of the log, by its offsets."""

    first_offset: int
    last_offset: int


class Wish(Struct, frozen=True, gc=False):
    """What a member asks for. Whole batches may exceed `max_records`, unless it `is_exact`."""

    member_id: str
    max_records: int
    batch_size: int = 1
    is_exact: bool = False
    session: int = 0  # the number of the member's session


class Acquisition(Struct, frozen=True, gc=False):
    """The partition, and the runs that the member has acquired of it, in order."""

    partition: SharePartition
    acquired: tuple[Run, ...] = ()

    @property
    def count(self) -> int:
        return sum(run.size for run in self.acquired)


def next_fetch_offset(partition: SharePartition) -> int:
    """Return the first offset that somebody could acquire: it is fetched from the log. Kafka: `nextFetchOffset`."""
    for run in partition.runs:
        if run.state == DeliveryState.AVAILABLE:
            return run.first_offset
    return partition.end_offset


def find_last_wanted(partition: SharePartition, records_max: int) -> int:
    """Return the last offset that so many records could be acquired up to, if no produced batch went on behind it."""
    runs, at = partition.runs, 0
    while at < len(runs):
        end = find_end_of_batch(runs, at)
        available = [run for run in runs[at:end] if run.state == DeliveryState.AVAILABLE]
        records_max -= sum(run.size for run in available)
        if available and records_max <= 0:
            return available[-1].last_offset
        at = end
    return partition.end_offset + records_max - 1


def acquire(
    partition: SharePartition, wish: Wish, fetched: Sequence[BatchOffsets], limits: Limits, now_ms: int
) -> Acquisition:
    """Acquire what a read of the log has found, from `next_fetch_offset` on. Nothing of it is written."""
    if not fetched or wish.max_records <= 0 or fetched[-1].last_offset < partition.start_offset:
        return Acquisition(partition)
    room = limits.record_locks_max - partition.in_flight
    is_full = room <= 0  # then only what is available again
    taker = _Taker(wish, wish.max_records if is_full else min(wish.max_records, room), limits, now_ms)
    is_done = taker.take_again(partition.runs, fetched[0].first_offset, fetched[-1].last_offset)
    runs = overlay(partition.runs, taker.acquired) if taker.acquired else partition.runs
    new: list[Run] = []
    room = taker.records_max - taker.count
    if not is_done and not is_full and room > 0:
        new = taker.take_new(partition.end_offset, fetched, room, partition.start_offset + IN_FLIGHT_MAX - 1)
    if not taker.acquired and not new:
        return Acquisition(partition)
    acquired = [run for run in new if run.state == DeliveryState.ACQUIRED]
    return Acquisition(replace(partition, runs=(*runs, *new)), (*taker.acquired, *acquired))


class _Taker:
    """What one acquisition has taken so far."""

    def __init__(self, wish: Wish, records_max: int, limits: Limits, now_ms: int) -> None:
        self.wish = wish
        self.records_max = records_max
        self.limit = limits.delivery_count_limit
        self.until_ms = now_ms + limits.lock_duration_ms
        self.cut_from = max(CUT_FROM_MIN, -(-self.limit // 2))
        self.acquired: list[Run] = []
        self.count = 0

    def take_again(self, runs: Sequence[Run], first_offset: int, last_offset: int) -> bool:
        """Acquire what is available again between two offsets, batch by batch. Return whether nothing may be added."""
        at = find_run(runs, first_offset)
        while at < len(runs) and runs[at].first_offset <= last_offset and self.count < self.records_max:
            end = find_end_of_batch(runs, at)
            available = [
                part(run, max(run.first_offset, first_offset), min(run.last_offset, last_offset))
                for run in runs[at:end]
                if run.state == DeliveryState.AVAILABLE and run.first_offset <= last_offset
            ]
            if any(run.delivery_count >= self.cut_from for run in available):
                if not self.acquired:
                    self._take_cut(available)
                return True
            for run in available:
                self._take(run, self.records_max - self.count if self.wish.is_exact else run.size)
            at = end
        return False

    def _take_cut(self, available: Sequence[Run]) -> None:
        """Acquire a part of a batch that has failed often: so many records as the first one of them that has failed
        often allows, and a record before its last delivery alone. Kafka: `SharePartition.acquireSubsetBatchRecords`."""
        most = self.records_max if self.wish.is_exact else available[-1].batch_last - available[0].batch_first + 1
        is_cut = False
        for run in available:
            is_last = run.delivery_count == self.limit - 1 and self.limit > UNCUT_LIMIT
            if is_last and self.count:
                return
            if run.delivery_count >= self.cut_from and not is_cut:
                is_cut, size = True, self._size_of_cut(run)
                most = min(most, size) if size > self.count else most
            self._take(run, 1 if is_last else most - self.count)
            if is_last or self.count >= most:
                return

    def _size_of_cut(self, run: Run) -> int:
        return max(1, (run.batch_last - run.batch_first + 1) >> (run.delivery_count - self.cut_from + 1))

    def _take(self, run: Run, size: int) -> None:
        if size <= 0:
            return
        last = min(run.last_offset, run.first_offset + size - 1)
        self.acquired.append(
            replace(
                run,
                last_offset=last,
                state=DeliveryState.ACQUIRED,
                delivery_count=run.delivery_count + 1,
                member_id=self.wish.member_id,
                locked_until_ms=self.until_ms,
                session=self.wish.session,
            )
        )
        self.count += last - run.first_offset + 1

    def take_new(self, first: int, fetched: Sequence[BatchOffsets], room: int, last_max: int) -> list[Run]:
        """Acquire up to `room` records from the end of the window on: produced batches as a whole, in runs of about the
        size that the member likes, or exactly so many, with the rest of the batch in the window and available."""
        if self.wish.is_exact:
            return self._take_exactly(first, fetched, room, last_max)
        new: list[Run] = []
        begin = first
        for batch in fetched:
            last = min(batch.last_offset, last_max)
            if last < begin:
                continue
            size = last - begin + 1
            if size >= self.wish.batch_size or last - first + 1 >= room:
                new.append(self._new_run(begin, last))
                begin = last + 1
            if last - first + 1 >= room:
                return new
        last = min(fetched[-1].last_offset, last_max)
        if last >= begin:
            new.append(self._new_run(begin, last))
        return new

    def _take_exactly(self, first: int, fetched: Sequence[BatchOffsets], room: int, last_max: int) -> list[Run]:
        last = next(
            (one.last_offset for one in fetched if one.last_offset >= first + room - 1), fetched[-1].last_offset
        )
        last = min(last, last_max)
        if last < first:
            return []
        whole = self._new_run(first, last)
        if whole.size <= room:
            return [whole]
        rest = replace(
            whole,
            first_offset=first + room,
            state=DeliveryState.AVAILABLE,
            delivery_count=0,
            member_id=NO_MEMBER,
            locked_until_ms=NEVER_MS,
            session=0,
        )
        return [part(whole, first, first + room - 1), rest]

    def _new_run(self, first: int, last: int) -> Run:
        wish = self.wish
        return Run(first, last, DeliveryState.ACQUIRED, 1, first, last, wish.member_id, self.until_ms, wish.session)
