"""A scripted day of two logs, and the model that says what must be there after any crash in the middle of it.

The coordinator's log takes commits, deletions and transactions and is compacted while appends go on; the data log is
rolled and loses its oldest records. Each append is one operation, of one batch or several. The model replays what was
appended, never what is on the disk, and keeps the state after each batch: whatever a crash leaves must be one of the
states between the last batch that was acknowledged and the last one that was begun.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

from protocol import record_batch
from protocol.compression import Meter
from protocol.record_batch import BatchHeader, encode, encode_marker, header_at
from protocol.records import EndMarker, Record, read_end_marker
from storage import cleaner
from storage.files import Files
from storage.log import Log, LogConfig, scan

OFFSETS, DATA = "data/__consumer_offsets-0", "data/orders-0"
CONFIG = LogConfig(segment_bytes=1500, index_interval_bytes=200, delete_retention_ms=40)
KEYS = [b"group-%d/orders/%d" % (group, partition) for group in range(10) for partition in range(3)]

State = dict[bytes, bytes]


class Replay:
    """What a coordinator would know: the latest values, and what waits for the end of its transaction."""

    def __init__(self) -> None:
        self.values: dict[bytes, Record] = {}
        self.pending: dict[int, list[Record]] = {}

    def apply(self, batches: Iterable[tuple[BatchHeader, list[Record]]]) -> Replay:
        for header, records in batches:
            if header.is_control:
                marker = read_end_marker(records[0])
                ended = self.pending.pop(header.producer_id, [])
                for record in ended if marker is not None and marker.commits else ():
                    self._put(record)
            elif header.is_transactional:
                self.pending.setdefault(header.producer_id, []).extend(records)
            else:
                for record in records:
                    self._put(record)
        return self

    def _put(self, record: Record) -> None:
        """A commit whose transaction ends late does not overwrite one that came after it."""
        key = b"offset %d" % record.offset if record.key is None else record.key
        known = self.values.get(key)
        if known is None or known.offset < record.offset:
            self.values[key] = record

    @property
    def state(self) -> State:
        """Values by key, and the open transactions under keys of their own."""
        state = {key: record.value for key, record in self.values.items() if record.value is not None}
        for producer_id, records in self.pending.items():
            state |= {
                b"open/%d/%b" % (producer_id, r.key or b""): b"%d %b" % (r.offset, r.value or b"") for r in records
            }
        return state


def state_of(log: Log) -> State:
    return Replay().apply(scan(log)).state


class Model:
    """One log's states, operation by operation, and how far its writer has come."""

    def __init__(self) -> None:
        self.replay = Replay()
        self.states: list[tuple[int, State]] = [(0, {})]
        """End offset and state after each batch that was begun: a batch is whole or not there, an append may be
        torn."""
        self.written = 0
        """Batches whose append has returned: a killed process does not lose them."""
        self.synced = 0
        """Batches that a sync has followed: nothing loses them."""
        self.starts = [0]
        """Where the log may begin: the start that was told last, and behind it the one that is being asked for."""

    def begin(self, batches: list[bytes]) -> None:
        end = self.states[-1][0]
        for batch in batches:
            placed = b"".join(record_batch.place(batch, end, 0))
            header = header_at(placed)
            self.replay.apply([(header, record_batch.read(placed, 0, header, Meter()))])
            end = header.next_offset
            self.states.append((end, self.replay.state))

    def verdict(self, log: Log, *, power_cut: bool) -> str | None:
        """What is wrong with a recovered log, or None."""
        if log.start_offset not in self.starts:
            return f"starts at {log.start_offset}, not at one of {self.starts}"
        least = self.synced if power_cut else self.written
        for end, state in self.states[least:]:
            if end == log.end_offset:
                return None if log.start_offset else _difference(state, state_of(log))
        return f"ends at {log.end_offset}, which is none of {[end for end, _ in self.states[least:]]}"


def _difference(expected: State, found: State) -> str | None:
    keys = sorted(key for key in expected.keys() | found.keys() if expected.get(key) != found.get(key))
    return "; ".join(f"{key!r} is {found.get(key)!r} instead of {expected.get(key)!r}" for key in keys[:3]) or None


STEPS = 3  # of a compaction behind each operation: it ends before the log is opened again, which gives it up


class History:
    """Plays the operations of one seed on a disk. `models` says at any moment what may be found there."""

    def __init__(self, files: Files, seed: int, operations: int) -> None:
        self.files = files
        self.operations = operations
        self.models = {OFFSETS: Model(), DATA: Model()}
        self.compactions = 0
        self._notes_keys = seed % 2 == 0
        """Whether the coordinator's log is given the records that are appended; otherwise compactions read them."""
        self._dice = random.Random(seed)
        self._logs: dict[str, Log] = {}
        self._now_ms = 1_000_000
        self._open: list[int] = []
        self._producers = 100
        self._compaction: Iterator[None] | None = None

    def play(self) -> None:
        for number in range(self.operations):
            self._now_ms += 7
            if number % 61 == 0:
                self._reopen()
            if number % 29 == 28 and self._compaction is None:
                self._compaction = cleaner.compact(self._logs[OFFSETS], self._now_ms, step_bytes=900)
            for _ in range(STEPS):
                if self._compaction is not None and next(self._compaction, self) is self:
                    self._compaction = None
                    self.compactions += 1
            if number % 4 == 3:
                self._data()
            else:
                self._append(OFFSETS, [self._batch() for _ in range(self._dice.choice((1, 1, 1, 2, 3)))])
        for log in self._logs.values():
            log.close()

    def _reopen(self) -> None:
        self._compaction = None
        for directory in self.models:
            if directory in self._logs:
                self._logs[directory].close()
            self._logs[directory] = Log.open(self.files, directory, CONFIG)

    def _append(self, directory: str, batches: list[bytes]) -> None:
        """One turn: its batches in one write, and the sync after which they are acknowledged.

        Two turns of three of the data log end without one, as those of a server do that does not wait for the disk.
        """
        log, model = self._logs[directory], self.models[directory]
        model.begin(batches)
        log.append(batches, self._records(batches) if directory == OFFSETS and self._notes_keys else None)
        model.written = len(model.states) - 1
        if directory == OFFSETS or not len(model.states) % 3:
            log.sync()
            model.synced = model.written

    @staticmethod
    def _records(batches: list[bytes]) -> list[list[Record]]:
        headers = [header_at(batch) for batch in batches]
        found = [record_batch.read(batch, 0, header, Meter()) for batch, header in zip(batches, headers, strict=True)]
        return [[] if header.is_control else records for header, records in zip(headers, found, strict=True)]

    def _data(self) -> None:
        log, model = self._logs[DATA], self.models[DATA]
        if self._dice.random() < 0.1:
            start = self._dice.randint(log.start_offset, log.end_offset)
            model.starts.append(start)
            log.delete_before(start)
            model.starts = [start]
        self._append(DATA, [encode([Record(None, b"order %d" % number, (), 0, self._now_ms) for number in range(3)])])

    def _batch(self) -> bytes:
        """What one request to the coordinator writes."""
        kind = self._dice.choice(("commit", "commit", "delete", "begin", "begin", "add", "end", "end"))
        if kind == "end" and self._open:
            producer_id = self._open.pop(self._dice.randrange(len(self._open)))
            marker = EndMarker(commits=self._dice.random() < 0.6)
            return encode_marker(marker, self._now_ms, producer_id=producer_id, producer_epoch=0)
        value = None if kind == "delete" else b"%d at %d" % (self._dice.randrange(1000), self._now_ms)
        keys = self._dice.sample(KEYS, self._dice.randint(1, 3))
        records = [Record(key, value, (), 0, self._now_ms) for key in keys]
        if kind == "begin" and len(self._open) < 2:
            self._producers += 1
            self._open.append(self._producers)
        elif kind != "add" or not self._open:
            return encode(records)
        return encode(records, producer_id=self._open[-1], producer_epoch=0, transactional=True)
