"""Log end offsets that are handed in: every form that is documented, and a clear word where nothing is told."""

import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import UsageError
from pipeline.jobs.build import find_now_ms, find_read_ms
from pipeline.jobs.ends import read_ends
from pipeline.synth import Plan, write_logs

pytestmark = pytest.mark.xdist_group("spark")

ROW = {"topic": "orders", "partition": 0, "ts": 1000, "leo": 7}


def written(path: Path, **columns: list[Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({name: [value] for name, value in ROW.items()} | columns), path)
    return path


def test_ends_are_known_up_to_the_newest_commit_that_was_read(spark: Any) -> None:
    """Reading began at 100; a commit of 150 was there when it came to it. Nothing was read in the time to come."""
    schema = "record_ts bigint"
    to_come = int(time.time() * 1000) + 3_600_000
    for commits, read_ms in (([], 100), ([90], 100), ([90, 150], 150), ([90, to_come], 100)):
        rows = spark.createDataFrame([(ts,) for ts in commits], schema)
        assert find_read_ms(rows, 100) == read_ms


def test_lag_is_judged_at_the_newest_commit_or_log_end(spark: Any) -> None:
    """Whichever is the later one: a group that has stopped commits nothing, and a topic that has stopped takes nothing."""
    for commits, ends in (([], None), ([], [0]), ([90, 10], None), ([90, 10], [40, 80]), ([30], [99, 20])):
        rows = spark.createDataFrame([(ts,) for ts in commits], "record_ts bigint")
        given = None if ends is None else spark.createDataFrame([(ts,) for ts in ends], "ts bigint")
        assert find_now_ms(rows, given) == max([0, *commits, *(ends or [])])


def test_parquet_as_a_file_and_as_a_directory(spark: Any, tmp_path: Path) -> None:
    file = written(tmp_path / "ends.parquet")
    part = written(tmp_path / "ends" / "part-00000.parquet", source=["list"], partition=[5])
    (part.parent / "_SUCCESS").touch()
    (one,) = read_ends(spark, file, 0).collect()
    (other,) = read_ends(spark, part.parent, 0).collect()
    assert one.asDict() == ROW | {"source": "list_offsets"}
    assert other.asDict() == ROW | {"source": "list", "partition": 5}


def test_a_brokers_checkpoint(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "replication-offset-checkpoint"
    path.write_text("0\n1\norders 3 42\n")
    (end,) = read_ends(spark, path, 0).collect()
    assert (end.topic, end.partition, end.leo, end.source) == ("orders", 3, 42, "checkpoint")


def test_a_checkpoint_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "replication-offset-checkpoint"
    for damaged in (b"0\n1\norders 3 4x2\n", b"0\n1\norders 3 \xff\n"):
        path.write_bytes(damaged)
        with pytest.raises(UsageError, match="is no replication-offset-checkpoint"):
            read_ends(None, path, 0)


def test_lines_in_a_directory_as_spark_writes_them(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "part-00000-c000.json").write_text(json.dumps(ROW))
    (tmp_path / "_SUCCESS").touch()
    (end,) = read_ends(spark, tmp_path, 0).collect()
    assert end.asDict() == ROW | {"source": "list_offsets"}


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"leo": [None]}, "1 rows lack one of topic, partition, ts, leo"),
        ({"ts": pa.array([1], pa.timestamp("ms"))}, "must be milliseconds"),
        ({"ts": [1_760_000_000_000_000]}, "invalid ts 1760000000000000: expected milliseconds since 1970"),
        ({name: pa.array([], pa.int64()) for name in ROW}, "holds no log ends"),
    ],
)
def test_parquet_that_will_not_do(spark: Any, tmp_path: Path, columns: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        read_ends(spark, written(tmp_path / "ends.parquet", **columns), 0)


def test_lines_that_are_no_ends(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "ends.jsonl"
    path.write_text('{"topic":"orders","partition":0,"ts":1000,"leo":7}\n{"topic":"orders","partition":0}\n')
    with pytest.raises(UsageError, match="1 rows lack"):
        read_ends(spark, path, 0)
    path.write_text("")
    with pytest.raises(UsageError, match="holds no log ends"):
        read_ends(spark, path, 0)


def test_a_directory_without_a_topics_log_is_refused(tmp_path: Path) -> None:
    """The groups' own logs tell no topic's end, nor does an empty directory."""
    write_logs(tmp_path / "logs", Plan(records=10, partitions=1))
    (tmp_path / "empty").mkdir()
    for name in ("logs", "empty"):
        with pytest.raises(UsageError, match="tells no log end"):
            read_ends(None, tmp_path / name, 1 << 60)
    with pytest.raises(FileNotFoundError):
        read_ends(None, tmp_path / "nowhere", 0)
