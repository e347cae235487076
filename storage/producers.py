"""What the log must know of its producers: which sequence comes next, and which transactions are open or were aborted.

All of it follows from batch headers and end markers, so it is learnt in the same way when a batch is appended and
when it is read back at start-up. Rules: ProducerAppendInfo and ProducerStateManager of Apache Kafka 4 (KIP-98,
KIP-360).
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections import OrderedDict
from itertools import islice
from operator import attrgetter

import msgspec

from protocol.errors import ErrorCode
from protocol.record_batch import NO_PRODUCER, NO_SEQUENCE, BatchHeader
from protocol.records import EndMarker

REMEMBERED_BATCHES = 5
"""A producer has at most this many requests on the way, so a batch sent again is among the last five."""
SEQUENCE_MAX = 2**31 - 1
NO_EPOCH, EPOCH_MAX = -1, 2**15 - 1
RAISES_SINCE = 2
"""The version of transactions since which each end raises the producer's epoch (KIP-890)."""
_ABORTED_ENTRY = struct.Struct(">hqqqq")


class AbortedTransaction(msgspec.Struct, frozen=True, gc=False):
    """A transaction that a read_committed consumer must pass over, from its first record to its abort marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class ProducedBatch(msgspec.Struct, frozen=True, gc=False):
    """A batch that a producer has written, to know it again when it is sent twice."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int
    timestamp: int


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """Whether a batch may be appended. `duplicate` is the earlier batch that it repeats, which is answered like a
    success."""

    error: ErrorCode = ErrorCode.NONE
    message: str = ""
    duplicate: ProducedBatch | None = None


ACCEPTED = Verdict()
_last_offset = attrgetter("last_offset")


class Attempt(msgspec.Struct, gc=False):
    """What is known of batches that were to begin a transaction, until one has (Kafka: `VerificationStateEntry`).

    A batch may be refused for a while, for an end of a transaction that is under way. If the next one of its producer
    were appended meanwhile, the first one would be out of order for good.
    """

    epoch: int
    lowest_sequence: int
    begins_at_zero: bool  # whether the producer counts from 0 in each transaction (KIP-890)
    at_ms: int


class ProducerCount:
    """How many producer ids logs remember together, and how many they may: beyond it each log forgets its oldest."""

    __slots__ = ("count", "most")

    def __init__(self, most: int = 2**62) -> None:
        self.count = 0
        self.most = most


PRODUCER_BYTES = 1024
"""What a producer id takes in memory at most, with its last batches."""
ATTEMPTS_MAX = 10_000
"""Of one log; the oldest goes first."""
_FORGOTTEN_AT_ONCE = 16
_LOOKED_AT = 256  # for producers without an open transaction


class Producer:
    """One producer id's state in one log."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "first_open_offset", "last_offset", "last_timestamp")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: tuple[ProducedBatch, ...] = ()  # the last ones; a deque would take 600 bytes
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.last_offset = -1
        self.first_open_offset: int | None = None
        """Where its open transaction begins in this log."""

    @property
    def last_offsets(self) -> tuple[int, ...]:
        """Where its last batch ends and its last batch of data: without them its epoch and sequence would be
        forgotten."""
        return (self.last_offset, self.batches[-1].last_offset) if self.batches else (self.last_offset,)

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE


class Producers:
    """All producer ids of one log."""

    def __init__(self) -> None:
        self._producers: dict[int, Producer] = {}
        self._open: OrderedDict[int, int] = OrderedDict()
        """Where the open transactions begin, the first of them in front. Every read asks for that one."""
        self._attempts: dict[int, Attempt] = {}
        self._lacks_batches = False  # whether some may be deleted that were never read
        self._without_batches: set[int] = set()
        """Those that are known by end markers only, of a log that lacks batches: theirs may be among them."""
        self._total = ProducerCount()
        self.aborted: list[AbortedTransaction] = []
        """In the order of their last offsets."""

    def __getitem__(self, producer_id: int) -> Producer:
        return self._producers[producer_id]

    def get(self, producer_id: int) -> Producer | None:
        """Return a producer that has written here and is not forgotten."""
        return self._producers.get(producer_id)

    def __contains__(self, producer_id: int) -> bool:
        return producer_id in self._producers

    def items(self) -> list[tuple[int, Producer]]:
        return list(self._producers.items())

    def note_attempt(self, header: BatchHeader, *, begins_at_zero: bool, now_ms: int) -> None:
        """Note that a batch is to begin a transaction. Later batches of its producer have to wait for it."""
        known = self._attempts.get(header.producer_id)
        if known is None:
            if len(self._attempts) >= ATTEMPTS_MAX:
                del self._attempts[next(iter(self._attempts))]
            attempt = Attempt(header.producer_epoch, header.base_sequence, begins_at_zero, now_ms)
            self._attempts[header.producer_id] = attempt
        elif header.producer_epoch > known.epoch:
            known.epoch, known.lowest_sequence = header.producer_epoch, header.base_sequence
        elif header.producer_epoch == known.epoch:
            known.lowest_sequence = min(known.lowest_sequence, header.base_sequence)

    def check(self, header: BatchHeader) -> Verdict:
        """Return whether a client's batch may be appended. Batches without a producer id always may."""
        producer = self._producers.get(header.producer_id)
        if header.producer_id == NO_PRODUCER:
            return ACCEPTED
        if producer is None:  # one that the log has forgotten may begin with any sequence (KIP-360)
            return self._check_attempt(header, None)
        if header.producer_epoch < producer.epoch:
            message = f"Epoch {header.producer_epoch} of producer {header.producer_id} is older than {producer.epoch}"
            return Verdict(ErrorCode.INVALID_PRODUCER_EPOCH, message)
        if header.producer_epoch > producer.epoch:
            if header.base_sequence == 0:
                return self._check_attempt(header, producer)
            message = f"A new epoch of producer {header.producer_id} begins with sequence 0, not {header.base_sequence}"
            return Verdict(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, message)
        return self._in_sequence(header, producer)

    def _in_sequence(self, header: BatchHeader, producer: Producer) -> Verdict:
        last = _after(header.base_sequence, header.last_offset_delta)
        for written in producer.batches:
            if written.first_sequence == header.base_sequence and written.last_sequence == last:
                return Verdict(duplicate=written)
        if (refused := self._check_attempt(header, producer)).error:
            return refused
        expected = _after(producer.last_sequence, 1)  # 0 where only end markers of this epoch are known (KIP-360)
        if header.base_sequence == expected or self._may_lack_batches(header.producer_id, producer):
            return ACCEPTED
        message = f"Sequence {header.base_sequence} of producer {header.producer_id} where {expected} is next"
        return Verdict(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, message)

    def _check_attempt(self, header: BatchHeader, producer: Producer | None) -> Verdict:
        """Return whether a batch comes too early, by what is known of those that were to begin its transaction."""
        attempt = self._attempts.get(header.producer_id)
        if attempt is None:
            return ACCEPTED
        is_new = (producer is None or not producer.batches) and not self._may_lack_batches(header.producer_id, producer)
        limit = 0 if attempt.begins_at_zero and is_new else attempt.lowest_sequence
        if header.base_sequence <= limit:
            return ACCEPTED
        message = f"Sequence {header.base_sequence} of producer {header.producer_id} before sequence {limit}"
        return Verdict(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, message)

    def _may_lack_batches(self, producer_id: int, producer: Producer | None) -> bool:
        """Return whether a producer may have written batches that were deleted before the log was read."""
        if producer is None:
            return self._lacks_batches
        return not producer.batches and producer_id in self._without_batches

    def check_marker(self, producer_id: int, epoch: int, marker: EndMarker, transaction_version: int) -> ErrorCode:
        """Return whether the end marker of somebody else than the log's own coordinator may be appended.

        In transactions V2 each end raises the epoch, so a marker of the same epoch is one that is written again; it
        must not end the transaction that has begun since. Kafka: `ProducerAppendInfo.appendEndTxnMarker`.
        """
        producer = self._producers.get(producer_id)
        known = Producer(NO_EPOCH) if producer is None else producer
        is_late = epoch == known.epoch and transaction_version >= RAISES_SINCE and known.first_open_offset is not None
        if epoch < known.epoch or (is_late and epoch != EPOCH_MAX):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if marker.coordinator_epoch < known.coordinator_epoch:
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        return ErrorCode.NONE

    def learn(self, header: BatchHeader, marker: EndMarker | None) -> None:
        """Note a batch of the log, at `header.base_offset`; `marker` is what it says if it is an end marker."""
        producer = self._producers.get(header.producer_id)
        if producer is None:
            self._total.count += 1
            if self._total.count > self._total.most:
                self._forget_oldest()
        if producer is None or header.producer_epoch != producer.epoch:
            opened = producer.first_open_offset if producer else None
            coordinator_epoch = producer.coordinator_epoch if producer else -1
            self._without_batches.discard(header.producer_id)
            if producer is None and header.is_control and self._lacks_batches:
                self._without_batches.add(header.producer_id)
            producer = self._producers[header.producer_id] = Producer(header.producer_epoch)
            producer.first_open_offset, producer.coordinator_epoch = opened, coordinator_epoch
        producer.last_timestamp = header.max_timestamp
        producer.last_offset = header.last_offset
        if self._attempts and header.is_transactional:
            self._end_attempt(header)
        if header.is_control:
            if marker is not None:
                self._end_transaction(header, producer, marker)
            return
        if header.base_sequence != NO_SEQUENCE:
            last = _after(header.base_sequence, header.last_offset_delta)
            offsets = header.base_offset, header.last_offset
            latest = ProducedBatch(header.base_sequence, last, *offsets, header.max_timestamp)
            producer.batches = (*producer.batches[1 - REMEMBERED_BATCHES :], latest)
        if header.is_transactional and producer.first_open_offset is None and header.count:
            producer.first_open_offset = self._open[header.producer_id] = header.base_offset

    def _end_attempt(self, header: BatchHeader) -> None:
        """Forget the attempt of a producer whose transaction has begun, or has ended; not that of the next transaction,
        which comes before the marker of this one, and has its epoch (KIP-890). Kafka: `UnifiedLog.updateProducers`."""
        attempt = self._attempts.get(header.producer_id)
        if attempt is not None:
            is_of_next = header.is_control and attempt.begins_at_zero and attempt.epoch == header.producer_epoch
            if not is_of_next:
                del self._attempts[header.producer_id]

    def _end_transaction(self, header: BatchHeader, producer: Producer, marker: EndMarker) -> None:
        producer.coordinator_epoch = marker.coordinator_epoch
        first, producer.first_open_offset = producer.first_open_offset, None
        if first is None:
            return
        del self._open[header.producer_id]
        if not marker.commits:
            stable = self.last_stable_offset(header.next_offset)
            self.aborted.append(AbortedTransaction(header.producer_id, first, header.last_offset, stable))

    def last_stable_offset(self, end_offset: int) -> int:
        """Return the first offset of the earliest open transaction, or the log's end when none is open."""
        return next(iter(self._open.values()), end_offset)

    def find_aborted_transactions(self, first: int, end: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that touch the offsets from `first` up to, not including, `end`."""
        found: list[AbortedTransaction] = []
        for at in range(self._find_first(first), len(self.aborted)):
            one = self.aborted[at]
            if one.first_offset < end:
                found.append(one)
            if one.last_stable_offset >= end:  # all that began before `end` were over then
                break
        return found

    def _find_first(self, offset: int) -> int:
        """Return the index of the first aborted transaction whose marker is at `offset` or behind it."""
        return bisect_left(self.aborted, offset, key=_last_offset)

    def forget_before(self, offset: int) -> None:
        """Forget aborted transactions that ended before `offset`, at which the log now begins."""
        del self.aborted[: self._find_first(offset)]

    def forget_idle(self, before_ms: int) -> None:
        """Forget the producers without an open transaction whose last batch is older (`producer.id.expiration.ms`)."""
        for producer_id, producer in list(self._producers.items()):
            if producer.first_open_offset is None and producer.last_timestamp < before_ms:
                self._forget(producer_id)
        self._attempts = {key: attempt for key, attempt in self._attempts.items() if attempt.at_ms >= before_ms}

    def forget_from(self, producer_id: int) -> None:
        """Forget the producers from this id on that have no open transaction."""
        idle = [one for one, producer in self._producers.items() if producer.first_open_offset is None]
        for one in idle:
            if one >= producer_id:
                self._forget(one)

    def note_deletion(self) -> None:
        """Note that the log, which was read, lacks batches that were deleted.

        A producer that is known by markers only may go on with any sequence of its epoch. Kafka has its last one in a
        snapshot.
        """
        self._lacks_batches = True
        self._without_batches = {one for one, producer in self._producers.items() if not producer.batches}

    def share(self, total: ProducerCount) -> None:
        """Count the producers among those of other logs."""
        self._total.count -= len(self._producers)
        self._total = total
        total.count += len(self._producers)

    def _forget_oldest(self) -> None:
        """Forget those producers of the first ones that have written nothing for longest, as if they had been idle for
        long: what they send again is not known any more, and they may begin with any sequence (KIP-360).

        Those with an open transaction stay. The others that were looked at come last next time, so that whoever goes on
        writing is not forgotten for those who write once.
        """
        first = list(islice(self._producers.items(), _LOOKED_AT))
        idle = [(producer.last_offset, one) for one, producer in first if producer.first_open_offset is None]
        for _, producer_id in sorted(idle)[:_FORGOTTEN_AT_ONCE]:
            self._forget(producer_id)
        for producer_id, producer in first:
            if self._producers.pop(producer_id, None) is not None:
                self._producers[producer_id] = producer

    def _forget(self, producer_id: int) -> None:
        del self._producers[producer_id]
        self._without_batches.discard(producer_id)
        self._total.count -= 1

    def transaction_index(self, first: int) -> bytes:
        """Kafka's `.txnindex` of the last segment, which begins at `first`: the aborted transactions whose marker lies
        in it."""
        return b"".join(
            [
                _ABORTED_ENTRY.pack(0, a.producer_id, a.first_offset, a.last_offset, a.last_stable_offset)
                for a in self.aborted[self._find_first(first) :]
            ]
        )


def _after(sequence: int, count: int) -> int:
    """Return the sequence `count` after this one; after 2^31 - 1 comes 0."""
    return (sequence + count) & SEQUENCE_MAX
