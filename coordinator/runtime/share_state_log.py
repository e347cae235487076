"""One partition of `__share_group_state`: its states, and what a turn has gathered for its log."""

from collections.abc import Callable, Iterable

from coordinator.core.share_state.machine import StateMachine
from coordinator.core.share_state.records import StateRecord, encode
from coordinator.dataplane.brokers import NOBODY
from protocol.record_batch import PlainBatch
from protocol.records import Record as LogRecord
from protocol.records import write as write_record

Append = Callable[[int, bytes, int], int]
"""Append a batch, whose records are of a time, to the log of a partition; return the offset of its first record."""


class StateLog:
    """A state machine, and the records that it has led to and that are not in its log yet."""

    __slots__ = ("_batch", "_records", "_time_ms", "index", "is_written", "machine", "served_by")

    def __init__(self, index: int, machine: StateMachine) -> None:
        self.index = index
        self.machine = machine
        self.served_by = NOBODY  # the broker that coordinates its states, once they are loaded
        self.is_written = False  # whether there is a log to read
        self._batch: PlainBatch | None = None
        self._records: list[StateRecord] = []
        self._time_ms = 0

    def gather(self, record: StateRecord, now_ms: int) -> None:
        """Encode a record and apply it. What cannot be encoded raises, and has changed nothing."""
        assert self.served_by != NOBODY, f"partition {self.index} of states is written to while it is loaded"
        batch = self._batch or PlainBatch(now_ms)
        batch.extend(_write, (record,), now_ms)
        self._batch = batch
        self._records.append(record)
        self._time_ms = now_ms
        self.machine.apply(record)

    def flush(self, append: Append) -> None:
        """Append what was gathered as one batch. Raises StorageError."""
        if self._batch is None:
            return
        batch, records = self._batch.seal(), self._records
        self._batch, self._records = None, []
        offset = append(self.index, batch, self._time_ms)
        self.is_written = True
        for number, record in enumerate(records):
            self.machine.note_offset(record, offset + number)


def _write(records: Iterable[StateRecord], offset_delta: int, timestamp_delta: int) -> tuple[bytes, int]:
    written = [write_record(LogRecord(*encode(record)), delta, timestamp_delta)
               for delta, record in enumerate(records, offset_delta)]  # fmt: skip
    return b"".join(written), len(written)
