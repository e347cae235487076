"""Reading on while a log lives: each record that is there when its turn comes is read once, within the limit."""

import json
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes
from pyspark.sql.types import LongType, StringType, StructField, StructType

from pipeline import manifest
from pipeline.decode import positions as positions_module
from pipeline.decode.layout import TOPIC
from pipeline.decode.logs import START
from pipeline.jobs.ingest import Follower, ingest
from pipeline.source import KafkaLog
from pipeline.stream import StreamReader, positions
from pipeline.stream_limits import LimitedStreamReader
from tests.pipeline.ingested import ids
from tests.pipeline.living_log import LivingLog

NAME = f"{TOPIC}-0"


def read_on(logs: Path, out: Path, max_bytes: int | None) -> int:
    """Take a step, as one that follows does, or read all that is there; the offset up to which the log was read."""
    if max_bytes:
        with Follower([str(logs)], out, max_bytes).lock_tables() as follower:
            before = follower.known.logs.get(NAME, START).next_offset
            reached = follower.step()
            after = follower.known.logs.get(NAME, START).next_offset
            assert after == before + reached
    return (manifest.load(out) if max_bytes else ingest(None, [str(logs)], out)).logs.get(NAME, START).next_offset


@pytest.mark.parametrize("seed", range(8))
def test_each_record_is_read_once_and_no_step_goes_beyond_its_limit(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the log is walked in pieces that hold some batches, or not one."""
    dice, logs, out = Random(seed), tmp_path / "logs", tmp_path / "out"
    monkeypatch.setattr(positions_module, "WALK_BYTES", (16 << 20, 700, 100)[seed % 3])
    log, turn, wanted = LivingLog(logs / NAME), 0, set[int]()
    for _ in range(25):
        for _ in range(dice.randrange(6)):
            log.live(dice)
        sizes = [sum(map(len, segment.values())) for segment in log.segments.values()]
        max_bytes = dice.choice((None, dice.randrange(1, 600), max(1, sum(sizes[: dice.randrange(1, 4)]))))
        after = read_on(logs, out, max_bytes)
        wanted |= log.offsets(turn, after)
        read = [len(batch) for batch in log.batches(turn, after)]
        assert max_bytes is None or sum(read[:-1]) < max_bytes, (sizes, turn, after)
        turn = after
    log.finish()
    assert read_on(logs, out, None) == log.next_offset
    assert ids(out) == [(0, offset) for offset in sorted(wanted | log.offsets(turn, log.next_offset))]
    rows = [row for file in out.glob("raw/log_problems/*") for row in pq.ParquetFile(file).read().to_pylist()]
    assert [row for row in rows if row["severity"] == "problem"] == []


def read_tasks(reader: Any, tasks: Any) -> list[tuple[str, int]]:
    return [tuple(row.values()) for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]


def positions_of(offset: dict[str, str]) -> dict[str, int]:
    return {name: position.next_offset for name, position in positions(offset).items()}


@pytest.mark.parametrize("is_limited", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_a_stream_reads_each_record_once_and_no_trigger_goes_beyond_its_limit(
    seed: int, is_limited: bool, tmp_path: Path
) -> None:
    """Of two logs, of which one may come later, and be gone for a while. Before Spark 4.2 a stream had no limits."""
    dice, logs = Random(seed), tmp_path / "logs"
    living = {NAME: LivingLog(logs / NAME)}
    for _ in range(dice.randrange(12)):
        living[NAME].live(dice)
    began = ingest(None, [str(logs)], tmp_path / "out").logs if dice.random() < 0.5 else {}
    starting = {name: msgspec.structs.astuple(position) for name, position in began.items()}
    options = {"path": str(logs), "starting": json.dumps(starting)}
    columns = StructType([StructField("log_dir", StringType()), StructField("log_offset", LongType())])

    def open_stream() -> Any:
        made = KafkaLog(options).streamReader(columns)
        return made if is_limited else StreamReader(made.options, made.columns)

    stream = open_stream()
    assert isinstance(stream, LimitedStreamReader) == is_limited
    start = stream.initialOffset()
    assert positions_of(start) == {name: position.next_offset for name, position in began.items()}
    for turn in range(15):
        if turn == 5:
            living[f"{TOPIC}-1"] = LivingLog(logs / f"{TOPIC}-1")
        for log in living.values():
            for _ in range(dice.randrange(4)):
                log.live(dice)
        hidden = is_limited and turn > 5 and dice.random() < 0.3
        if hidden:
            (logs / f"{TOPIC}-1").rename(logs / "elsewhere")
        there = {NAME: living[NAME]} if hidden else living
        is_available_now = is_limited and dice.random() < 0.2  # for the whole life of a stream
        stream = open_stream() if is_available_now or dice.random() < 0.3 else stream
        limit = dice.choice((ReadAllAvailable(), ReadMaxBytes(dice.randrange(1, 1_000))))
        known = {name: log.whole_offset for name, log in there.items()}
        if is_available_now:
            stream.prepareForTriggerAvailableNow()
            for log in there.values():
                log.live(dice)
        end = stream.latestOffset(start, limit) if is_limited else stream.latestOffset()
        if not hidden:
            for log in there.values():  # before its tasks are planned
                log.live(dice)
        before, after = positions_of(start), positions_of(end)
        found = read_tasks(stream, stream.partitions(start, end))
        expected = [(name, at) for name, log in there.items() for at in log.offsets(before.get(name, 0), after[name])]
        assert sorted(found) == sorted(expected)
        assert after.keys() == before.keys() | there.keys()
        for name, log in there.items():
            read = [len(batch) for batch in log.batches(before.get(name, 0), after[name])]
            if not is_limited or isinstance(limit, ReadAllAvailable):
                assert after[name] == max(known[name], before.get(name, 0))
            else:
                assert sum(read[:-1]) < max(1, limit.max_bytes // len(there))
        if hidden:
            (logs / "elsewhere").rename(logs / f"{TOPIC}-1")
        start, stream = end, open_stream() if is_available_now else stream
    for log in living.values():
        log.finish()
    starting = {name: msgspec.structs.astuple(position) for name, position in positions(start).items()}
    batch = KafkaLog({"path": str(logs), "starting": json.dumps(starting)}).reader(columns)
    expected = [
        (name, at) for name, log in living.items() for at in log.offsets(positions_of(start)[name], log.next_offset)
    ]
    assert sorted(read_tasks(batch, batch.partitions())) == sorted(expected), "a batch may go on from a stream"
