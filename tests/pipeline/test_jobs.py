"""Ingest, follow, build: no loss, no doubles, and the same tables however the log came in."""

import shutil
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row

from pipeline import manifest
from pipeline.decode.files import Store
from pipeline.decode.layout import TOPIC, LogDir
from pipeline.errors import UsageError
from pipeline.jobs.build import DERIVED, Tables, build
from pipeline.jobs.ingest import _Saved, follow, ingest
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
    (logs / f"{TOPIC}-1").mkdir()
    (logs / f"{TOPIC}-1" / path.name).write_bytes(b"\xff" * 300)
    ingest(spark, [str(logs)], out)
    ingest(spark, [str(logs)], out)
    build(spark, out, now_ms=5)
    problems = Tables(spark, out).derived("log_problems").orderBy("log_dir").collect()
    assert [(p.kind, p.severity, p.from_offset) for p in problems] == [
        ("bad_length", "problem", 3),
        ("bad_length", "problem", 0),
    ]
    health = Tables(spark, out).derived("log_health").orderBy("log_dir").collect()
    assert [(h.log_partition, h.batches, h.problems) for h in health] == [(0, 3, 1), (1, 0, 1)], (
        "also of the unread one"
    )


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


def rowful(query: Any) -> list[Any]:
    """The batches of a stream, as far as Spark remembers them, that had rows."""
    return [progress for progress in query.recentProgress if progress["numInputRows"]]


def drain(spark: Any, logs: Path, out: Path, **options: str) -> None:
    with follow(spark, [str(logs)], out, once=True, **options) as query:
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
    with follow(spark, [str(logs)], out, every_ms=100) as query:
        query.processAllAvailable()
        before = len(rowful(query))

        def write() -> None:
            """Goes on until two batches have ended since it began, so that the last of them began while it wrote."""
            while len(rowful(query)) < before + 2 and written[0] < 5000:
                for writer in writers:
                    writer.append([commit(("g", "t", 0), written[0], written[0])])
                written[0] += 1
                stopped.wait(0.01)

        written, stopped = [1], threading.Event()
        thread = threading.Thread(target=write)
        thread.start()
        thread.join(60)
        assert not thread.is_alive()
        assert len(rowful(query)) >= before + 2, "more than one batch ended while the logs were written"
        query.processAllAvailable()
    drain(spark, logs, out)
    assert ids(spark, out) == [(p, n) for p in range(2) for n in range(written[0])]


def test_a_stream_keeps_other_readers_of_logs_out_and_lets_tables_be_built(spark: Any, tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    writer = Writer(logs / f"{TOPIC}-0")
    writer.append([commit(("g", "t", 0), 0, 0)])
    ingest(spark, [str(logs)], out)
    with follow(spark, [str(logs)], out, every_ms=100) as query:
        with manifest.locked(out, manifest.BUILDER):  # as `build` does for as long as it works
            writer.append([commit(("g", "t", 0), 1, 1)])
            query.processAllAvailable()
            with pytest.raises(manifest.TablesInUseError):
                ingest(spark, [str(logs)], out)
            with pytest.raises(manifest.TablesInUseError), follow(spark, [str(logs)], out):
                pass
        assert query.isActive
    assert not query.isActive
    ingest(spark, [str(logs)], out)
    assert ids(spark, out) == [(0, 0), (0, 1)]


class Batch:
    """What Spark hands to the function that saves, with rows of the sink."""

    def __init__(self, **row: Any) -> None:
        self.rows = [
            Row(**{"table": None, "file": None, "rows": None, "log": None, "position": None, "place": None} | row)
        ]

    def collect(self) -> list[Any]:
        return self.rows


def test_a_batch_that_comes_too_late_is_not_saved(tmp_path: Path) -> None:
    saved = _Saved(manifest.Manifest(), tmp_path, ["logs"])
    saved(Batch(log="a-0", position="[5, 0, 100]", place="/logs/a-0"), 0)  # type: ignore[arg-type]  # all it calls
    assert manifest.load(tmp_path).logs["a-0"].next_offset == 5
    manifest.save(tmp_path, manifest.Manifest())  # another machine, where locks do not reach
    with pytest.raises(manifest.TablesInUseError, match="nothing more is saved"):
        saved(Batch(log="a-0", position="[9, 0, 200]", place="/logs/a-0"), 1)  # type: ignore[arg-type]  # as above
    saved.end()
    saved(Batch(log="a-0", position="[9, 0, 200]", place="/logs/a-0"), 2)  # type: ignore[arg-type]  # as above
    assert manifest.load(tmp_path) == manifest.Manifest()


def test_a_log_of_another_broker_is_not_taken_for_the_first_ones(spark: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for broker, records in (("broker-1", 5), ("broker-2", 3)):
        writer = Writer(tmp_path / broker / f"{TOPIC}-0")
        writer.append([commit(("g", broker, 0), n, n) for n in range(records)])
    ingest(spark, [str(tmp_path / "broker-1")], out)
    before = (out / manifest.NAME).read_bytes()
    with pytest.raises(UsageError, match=r"__consumer_offsets-0 was read from .*broker-1.* is now in .*broker-2"):
        ingest(spark, [str(tmp_path / "broker-2")], out)
    with pytest.raises(UsageError), follow(spark, [str(tmp_path / "broker-2")], out):
        pass
    with pytest.raises(UsageError, match="was read as __consumer_offsets-0 and would be broker-1/__consumer_offsets-0"):
        ingest(spark, [str(tmp_path)], out)
    assert (out / manifest.NAME).read_bytes() == before
    ingest(spark, [str(tmp_path / "broker-1" / f"{TOPIC}-0")], out)  # the same log, named more closely
    assert ids(spark, out) == [(0, n) for n in range(5)]


def test_places_of_logs_have_no_credentials() -> None:
    log = LogDir(Store("s3://key:secret@bucket/logs/?region=x"), f"{TOPIC}-0", f"{TOPIC}-0", 0)
    assert log.place == f"s3://bucket/logs/{TOPIC}-0"


def test_a_batch_that_died_before_the_manifest_is_read_again(spark: Any, tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    write_logs(logs, Plan(records=300, partitions=1))
    drain(spark, logs, out)
    want = ids(spark, out)
    (out / manifest.NAME).unlink()
    drain(spark, logs, out)
    assert ids(spark, out) == want
    shutil.rmtree(out / "raw")
