"""Ingest, follow, build: no loss, no doubles, and the same tables however the log came in."""

import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from pipeline import manifest
from pipeline.decode.layout import TOPIC
from pipeline.jobs.build import DERIVED, Tables, build
from pipeline.jobs.ingest import follow, ingest
from pipeline.synth import Plan, Writer, commit, write_logs
from pipeline.synth_groups import write_lives
from protocol.records import Record
from tests.pipeline.test_source import offsets, replayed

pytestmark = pytest.mark.xdist_group("spark")


def ids(spark: Any, out: Path, table: str = "offset_commits") -> list[tuple[int, int]]:
    return sorted(tuple(row) for row in Tables(spark, out).raw(table).select("log_partition", "log_offset").collect())


def test_ingest_reads_on_and_never_twice(spark: Any, tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    writer = Writer(logs / f"{TOPIC}-0", segment_bytes=2000)
    want = 0
    for round_ in range(3):
        for n in range(20):
            writer.append([commit(("g", "t", n % 3), n, round_) for _ in range(3)])
        want += 60
        after = ingest(spark, [str(logs)], out)
        again = ingest(spark, [str(logs)], out)
        assert again == after, "nothing new, nothing changed"
        assert ids(spark, out) == [(0, n) for n in range(want)]
    assert after.logs[f"{TOPIC}-0"].next_offset == want


def test_ingest_finds_its_place_in_a_segment_that_was_compacted(spark: Any, tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    writer = Writer(logs / f"{TOPIC}-0")
    for n in range(10):
        writer.append([commit(("g", "t", 0), n, n)])
    ingest(spark, [str(logs)], out)
    path = next((logs / f"{TOPIC}-0").glob("*.log"))
    data = path.read_bytes()
    path.write_bytes(data[len(data) // 2 :])  # as if a cleaner had taken the first five
    for n in range(10, 13):
        writer.append([commit(("g", "t", 0), n, n)])
    ingest(spark, [str(logs)], out)
    assert ids(spark, out) == [(0, n) for n in range(13)]


def test_damage_is_reported_once_however_often_it_is_met(spark: Any, tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    writer = Writer(logs / f"{TOPIC}-0")
    for n in range(3):
        writer.append([commit(("g", "t", 0), n, n)])
    path = next((logs / f"{TOPIC}-0").glob("*.log"))
    path.write_bytes(path.read_bytes() + b"\xff" * 300)
    ingest(spark, [str(logs)], out)
    ingest(spark, [str(logs)], out)
    build(spark, out, now_ms=5)
    problems = Tables(spark, out).derived("log_problems").collect()
    assert [(p.kind, p.severity, p.from_offset) for p in problems] == [("bad_length", "problem", 3)]


def test_every_table_is_built(spark: Any, tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    write_logs(logs, Plan(records=3000, segment_bytes=50_000))
    write_lives(logs, groups=3, rebalances=6, partition=9)
    ends = tmp_path / "ends.jsonl"
    ends.write_text('{"topic":"topic-0","partition":0,"ts":1760000400000,"leo":9000}')
    ingest(spark, [str(logs)], out)
    counts = build(spark, out, ends=ends, now_ms=1_760_000_500_000)
    assert set(counts) == set(DERIVED)
    empty = {name for name in DERIVED if not counts[name]}
    assert empty <= {"log_problems", "unknown_records", "new_group_records"}
    tables = Tables(spark, out)
    latest = offsets(row.asDict() for row in tables.derived("latest_offsets").collect())
    assert latest == replayed(logs)
    health = tables.derived("log_health").collect()
    assert all(0 <= row.dead_ratio <= 1 and row.bytes > 0 for row in health)
    assert build(spark, out, ends=ends, now_ms=1_760_000_500_000) == counts


def test_ends_of_topics_come_from_their_own_logs(spark: Any, tmp_path: Path) -> None:
    logs, out = tmp_path / "data", tmp_path / "out"
    groups, orders = Writer(logs / f"{TOPIC}-0"), Writer(logs / "orders-2", segment_bytes=100)
    for n in range(10):
        orders.append([Record(None, b"x", timestamp=1000 * n)])
        groups.append([commit(("g", "orders", 2), n // 2, 1000 * n)])
    ingest(spark, [str(logs)], out)
    orders.append([Record(None, b"x", timestamp=int(time.time() * 1000) + 3_600_000)])  # after the logs were read
    build(spark, out, ends=logs)
    (row,) = Tables(spark, out).derived("lag_status").collect()
    assert (row.current_offset, row.log_end_offset, row.lag, row.leo_source) == (4, 10, 6, "log")
    history = Tables(spark, out).derived("lag_history").orderBy("ts").collect()
    assert [(one.ts, one.lag) for one in history] == [(1000 * n, n + 1 - n // 2) for n in range(10)]


def test_an_empty_set_of_tables_can_be_built(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "logs" / f"{TOPIC}-0").mkdir(parents=True)
    ingest(spark, [str(tmp_path / "logs")], tmp_path / "out")
    assert set(build(spark, tmp_path / "out").values()) == {0}


def test_a_second_writer_is_kept_out(spark: Any, tmp_path: Path) -> None:
    write_logs(tmp_path / "logs", Plan(records=10, partitions=1))
    with manifest.locked(tmp_path / "out"), pytest.raises(manifest.TablesInUseError):
        ingest(spark, [str(tmp_path / "logs")], tmp_path / "out")


def drain(spark: Any, logs: Path, out: Path, **options: str) -> None:
    query = follow(spark, [str(logs)], out, once=True, **options)
    assert query.awaitTermination(60)
    if query.exception():
        raise query.exception()


def test_follow_waits_for_torn_halves_and_sees_rolled_and_compacted_segments(spark: Any, tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    directory = logs / f"{TOPIC}-0"
    writer = Writer(directory, segment_bytes=600)
    for n in range(12):
        writer.append([commit(("g", "t", 0), n, n)])
    last = sorted(directory.glob("*.log"))[-1]
    whole = last.read_bytes()
    last.write_bytes(whole[:-20])
    drain(spark, logs, out)
    assert ids(spark, out) == [(0, n) for n in range(11)], "the torn batch is not there yet"
    last.write_bytes(whole)
    drain(spark, logs, out)
    assert ids(spark, out) == [(0, n) for n in range(12)]
    for n in range(12, 40):
        writer.append([commit(("g", "t", 0), n, n)])
    first = sorted(directory.glob("*.log"))[0]
    first.write_bytes(first.read_bytes()[: len(first.read_bytes()) // 2])
    drain(spark, logs, out, max_bytes_per_trigger="700")
    assert ids(spark, out) == [(0, n) for n in range(40)]
    ingest(spark, [str(logs)], out)
    assert ids(spark, out) == [(0, n) for n in range(40)], "ingest and follow share their place"


def test_follow_while_the_log_is_written(spark: Any, tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    writers = [Writer(logs / f"{TOPIC}-{n}", segment_bytes=3000) for n in range(2)]
    for writer in writers:
        writer.append([commit(("g", "t", 0), 0, 0)])
    query = follow(spark, [str(logs)], out, every_ms=100)

    def write() -> None:
        for n in range(1, 200):
            for writer in writers:
                writer.append([commit(("g", "t", 0), n, n)])
            stopped.wait(0.01)

    stopped = threading.Event()
    thread = threading.Thread(target=write)
    thread.start()
    thread.join(30)
    query.processAllAvailable()
    query.stop()
    drain(spark, logs, out)
    assert ids(spark, out) == [(p, n) for p in range(2) for n in range(200)]


def test_a_batch_that_died_before_the_manifest_is_read_again(spark: Any, tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    write_logs(logs, Plan(records=300, partitions=1))
    drain(spark, logs, out)
    want = ids(spark, out)
    (out / manifest.NAME).unlink()
    drain(spark, logs, out)
    assert ids(spark, out) == want
    shutil.rmtree(out / "raw")
