"""Compaction by the keys that were noted when they were appended, beside compaction by what it reads in the log."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.record_batch import encode, encode_marker
from protocol.records import EndMarker, Record
from storage import appended_keys, cleaner
from storage.appended_keys import KeyFamily
from storage.log import Log, LogConfig
from storage.segment import Segment
from tests.storage.crashing_disk import CrashingDisk
from tests.storage.history import state_of

DIRECTORY = "data/__consumer_offsets-0"
CONFIG = LogConfig(segment_bytes=2000, index_interval_bytes=150, delete_retention_ms=20)


NAME = b"group/orders/"


def write_key(key: bytes | tuple[bytes, int]) -> bytes:
    return b"%b%d" % key if isinstance(key, tuple) else key


def new_log(config: LogConfig = CONFIG) -> Log:
    return Log.open(CrashingDisk(), DIRECTORY, config)


def put(log: Log, *pairs: tuple[bytes, bytes | None]) -> None:
    records = [Record(key, value) for key, value in pairs]
    log.append([encode(records)], [records])


def content(log: Log) -> list[bytes]:
    return [found.chunk[found.at : found.at + found.header.size] for found in log.batches()]


class Twins:
    """Two logs with the same batches. Only one of them is given the records."""

    _FIRST = 100  # the id of the first producer

    def __init__(self, dice: Random) -> None:
        self.noting, self.reading = new_log(), new_log()
        self.noting.write_key = write_key
        self._dice, self._open, self._next = dice, list[int](), self._FIRST

    def append(self, now_ms: int) -> None:
        """A write of a few batches."""
        written = [self._batch(now_ms) for _ in range(self._dice.choice((1, 1, 2, 3)))]
        batches, records = [batch for batch, _ in written], [records for _, records in written]
        self.noting.append(batches, None if self._dice.random() < 0.02 else records)
        self.reading.append(batches)

    def _batch(self, now_ms: int) -> tuple[bytes, list[Record] | list[KeyFamily]]:
        kind = self._dice.choice(("commit", "commit", "commit", "begin", "add", "end", "end"))
        if kind == "end" and self._open:
            marker = EndMarker(commits=self._dice.random() < 0.5)
            producer_id = self._open.pop(self._dice.randrange(len(self._open)))
            return encode_marker(marker, now_ms, producer_id=producer_id, producer_epoch=0), []
        numbers = [self._dice.randrange(12) for _ in range(self._dice.choice((1, 2, 8)))]
        if self._dice.random() < 0.5:
            numbers = self._dice.choice(([0, 1, 2], [3, 2, 2], [*range(8)]))
        keys = [write_key((NAME, number)) for number in numbers]
        values = [None if self._dice.random() < 0.15 else b"%d" % now_ms for _ in keys]
        records = [Record(key, value, (), 0, now_ms) for key, value in zip(keys, values, strict=True)]
        if kind == "begin" and len(self._open) < 2:
            known = [one for one in range(self._FIRST, self._next) if one not in self._open]
            begun = self._dice.choice([*known[-3:], self._next])  # most producers have many transactions
            self._next = max(self._next, begun + 1)
            self._open.append(begun)
        if kind in ("begin", "add") and self._open:
            return encode(records, producer_id=self._open[-1], producer_epoch=0, transactional=True), records
        if None not in values and self._dice.random() < 0.7:
            return encode(records), [KeyFamily(NAME, numbers)]
        return encode(records), records

    def compact(self, now_ms: int) -> None:
        cleaner.run(self.noting, now_ms)
        cleaner.run(self.reading, now_ms)

    def reopen(self) -> None:
        for log in (self.noting, self.reading):
            log.close()
        self.noting, self.reading = (Log.open(log.files, DIRECTORY, CONFIG) for log in (self.noting, self.reading))
        self.noting.write_key = write_key


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32), keys_max=st.sampled_from((6, 20, 1000)))
def test_both_logs_hold_the_same_after_each_compaction(seed: int, keys_max: int) -> None:
    dice = Random(seed)
    twins = Twins(dice)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(appended_keys, "KEYS_MAX", keys_max)
        for number in range(120):
            twins.append(number)
            if dice.random() < 0.1:
                before = state_of(twins.noting)
                twins.compact(number)
                assert state_of(twins.noting) == before
                assert content(twins.noting) == content(twins.reading)
                assert twins.noting.checkpoint == twins.reading.checkpoint
            elif dice.random() < 0.02:
                twins.reopen()
        twins.reopen()
        assert content(twins.noting) == content(twins.reading)


@settings(max_examples=12)
@given(seed=st.integers(0, 2**32))
def test_a_compaction_that_is_given_up_changes_no_state(seed: int) -> None:
    dice = Random(seed)
    twins = Twins(dice)
    for number in range(80):
        twins.append(number)
        if dice.random() < 0.2:
            steps = cleaner.compact(twins.noting, number, step_bytes=200)
            for _ in zip(range(dice.randrange(12)), steps, strict=False):
                twins.append(number)
            steps.close()
            assert state_of(twins.noting) == state_of(twins.reading)


def test_a_compaction_reads_neither_the_dead_records_nor_the_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    log = new_log(LogConfig(index_interval_bytes=100))
    for number in range(300):
        put(log, (b"key", b"%d" % number))
    read: list[int] = []
    batches = Segment.batches

    def counted(self: Segment, *arguments: object, **named: object) -> object:
        for found in batches(self, *arguments, **named):
            read.append(found.header.base_offset)
            yield found

    monkeypatch.setattr(Segment, "batches", counted)
    cleaner.run(log, 0)
    assert 299 in read
    assert len(read) <= 5, f"read {read}"


def test_what_was_appended_before_a_start_is_read() -> None:
    log = new_log()
    put(log, (b"a", b"1"), (b"b", b"1"))
    log.close()
    log = Log.open(log.files, DIRECTORY, CONFIG)
    put(log, (b"a", b"2"))
    cleaner.run(log, 0)
    assert state_of(log) == {b"a": b"2", b"b": b"1"}
    assert sum(found.header.count for found in log.batches()) == 2


@pytest.mark.parametrize("kind", ["plain", "families", "a transaction", "transactions"])
def test_notes_are_bounded(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appended_keys, "KEYS_MAX", 10)
    log = new_log()
    log.write_key = write_key
    for number in range(0, 50, 2):
        records = [Record(write_key((NAME, at)), b"v") for at in (number, number + 1)]
        if kind in ("plain", "families"):
            log.append([encode(records)], [[KeyFamily(NAME, (number, number + 1))] if kind == "families" else records])
            continue
        log.append([encode(records, producer_id=7, producer_epoch=0, transactional=True)], [records])
        if kind == "transactions" or number == 48:
            ended = EndMarker(commits=kind == "a transaction")
            log.append([encode_marker(ended, 0, producer_id=7, producer_epoch=0)], [[]])
    taken = log.take_appended_keys()
    assert 0 < len(taken.latest) + len(taken.control) <= 10
    assert taken.offsets.stop == log.end_offset
    assert bool(taken.latest) == (kind != "transactions"), "those that were aborted have written nothing"


def test_an_append_without_records_begins_the_notes_anew() -> None:
    log = new_log()
    put(log, (b"a", b"1"))
    log.append(encode([Record(b"a", b"2")]))
    assert log.take_appended_keys().offsets == range(2, 2)
