"""`format("kafkalog")`: the rows that the decoder gives, however they are asked for."""

import gc
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThan, In, LessThan, LessThanOrEqual
from pyspark.sql.types import StructType

from pipeline.decode.latest import latest
from pipeline.decode.layout import TOPIC, log_dirs, spans
from pipeline.decode.rows import Options, read_table
from pipeline.decode.schema import TABLES
from pipeline.decode.transactions import EFFECTIVE_COMMITS, read_commits
from pipeline.errors import UsageError
from pipeline.options import parse
from pipeline.partition import freeze_imports
from pipeline.pushdown import narrow
from pipeline.source import BatchReader, KafkaLog, PushingReader
from pipeline.stream import StreamReader
from pipeline.stream_limits import LimitedStreamReader
from pipeline.synth import Plan, Writer, commit, write_logs
from tests.pipeline.sources import load, offsets, replayed

PAGE = Path(__file__).parents[2] / "docs" / "pipeline.md"
SHARED = Path(__file__).parents[1] / "storage" / "data" / "share" / "kafka"

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("logs")
    write_logs(directory, Plan(records=1500, segment_bytes=30_000))
    shutil.copytree(SHARED / "__share_group_state-0", directory / "__share_group_state-0")
    return directory


@pytest.mark.parametrize("table", sorted(TABLES))
def test_every_raw_table(spark: Any, logs: Path, table: str) -> None:
    topics = ("__share_group_state",) if table == "share_records" else (TOPIC,)
    want = read_table([span for log in log_dirs([str(logs)], topics) for span in spans(log)], table)
    got = load(spark, logs, table=table, split_bytes=15_000).select(*TABLES[table].names).toArrow()
    place = "pos" if table in ("batches", "log_problems") else "log_offset"
    order = [("log_partition", "ascending"), (place, "ascending")]
    if table == "batches":
        order.insert(1, ("segment_base", "ascending"))
    assert got.cast(TABLES[table]).sort_by(order).equals(want.sort_by(order))


def test_latest_reduced_in_the_worker_is_what_replay_says(spark: Any, logs: Path) -> None:
    got = load(spark, logs, reduce="latest").collect()
    assert offsets(row.asDict() for row in got) == replayed(logs)
    assert len(got) == len(offsets(row.asDict() for row in got))


@pytest.mark.parametrize("reduce", ["none", "latest"])
def test_filters_that_are_pushed_down_change_no_row(spark: Any, logs: Path, reduce: str) -> None:
    pushed, plain = load(spark, logs, pushdown="true", reduce=reduce), load(spark, logs, reduce=reduce)
    everything = plain.toArrow().to_pylist()
    middle = sorted(row["record_ts"] for row in everything)[len(everything) // 2]
    for condition, wanted in (
        ("group = 'group-3'", lambda row: row["group"] == "group-3"),
        ("group in ('group-1', 'group-2')", lambda row: row["group"] in ("group-1", "group-2")),
        ("log_partition in (1, 3)", lambda row: row["log_partition"] in (1, 3)),
        (f"record_ts <= {middle}", lambda row: row["record_ts"] <= middle),
        (f"record_ts >= {middle} and group = 'group-4'", lambda row: row["record_ts"] >= middle and row["group"] == "group-4"),
        (f"record_ts < {middle}", lambda row: row["record_ts"] < middle),
    ):  # fmt: skip
        want = sorted((row for row in everything if wanted(row)), key=str)
        assert sorted(pushed.where(condition).toArrow().to_pylist(), key=str) == want
        assert 0 < len(want) < len(everything)


def test_no_times_are_pushed_below_a_reduction() -> None:
    """What supersedes an offset may be younger than what is asked for."""
    filters = [LessThan(("record_ts",), 5), GreaterThan(("record_ts",), 2), EqualTo(("group",), "g")]
    for reduce, times in (("none", (3, 5)), ("latest", (None, None))):
        reader = PushingReader(parse({"path": "x", "reduce": reduce}), EFFECTIVE_COMMITS)
        assert list(reader.pushFilters(filters)) == filters
        assert (reader.options.since_ms, reader.options.until_ms) == times
        assert reader.options.wanted_groups == {"g"}


def test_filters_hold_together() -> None:
    filters = [
        In(("group",), ("a", "b")), EqualTo(("group",), "b"), In(("log_partition",), (1, 2)),
        LessThanOrEqual(("record_ts",), 5), EqualTo(("a", "b"), 1), EqualTo(("group",), None),
    ]  # fmt: skip
    options = narrow(parse({"path": "x", "until_ms": "9"}), filters)
    assert (options.groups, options.log_partitions, options.until_ms) == (("b",), (1, 2), 6)
    assert narrow(options, [EqualTo(("group",), "c")]).wanted_groups == frozenset(), "no row is both"
    with pytest.raises(UsageError, match="unknown option groups"):
        parse({"path": "x", "groups": "a"})


@pytest.mark.parametrize("seed", range(8))
def test_commits_have_the_verdict_of_a_marker_in_a_later_span(tmp_path: Path, seed: int) -> None:
    """Each span for itself, as tasks read them; what counts is what replay says."""
    plan = Plan(seed=seed, records=400, groups=3, topics=2, topic_partitions=2, partitions=1, segment_bytes=4000, batch=(1, 6), txn_share=0.5, tombstone_share=0.1)  # fmt: skip
    write_logs(tmp_path, plan)
    (log,) = log_dirs([str(tmp_path)])
    rows = [row for span in spans(log) for batch in read_commits([span], Options()) for row in batch.to_pylist()]
    assert len(rows) == 400
    assert {row["txn_state"] for row in rows} >= {"none", "committed", "aborted"}
    last: dict[tuple[str, str, int], dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: row["log_offset"]):
        if row["effective"]:
            last[row["group"], row["topic"], row["partition"]] = row
    assert {key: row["committed_offset"] for key, row in last.items() if not row["is_tombstone"]} == replayed(tmp_path)


def test_the_default_table_is_read_rightly_by_the_documented_query(spark: Any, logs: Path) -> None:
    load(spark, logs).createOrReplaceTempView("commits")
    (query,) = re.findall(r"```sql\n(select [^`]* from commits [^`]*)```", PAGE.read_text().replace("\nfrom", " from"))
    rows = spark.sql(query).collect()
    assert any(row.is_tombstone for row in load(spark, logs).where("effective").collect())
    assert offsets(row.asDict() for row in rows) == replayed(logs)
    assert offsets(row.asDict() for row in load(spark, logs, table="latest_offsets").collect()) == replayed(logs)


def test_a_group_is_read_from_its_own_log_alone(spark: Any, logs: Path) -> None:
    got = spark.read.format("kafkalog").options(group="group-3", num_partitions=4).load([str(logs)])
    assert got.count() == load(spark, logs).where("group = 'group-3'").count() > 0
    assert got.rdd.getNumPartitions() == 1


def test_a_schema_names_the_columns_that_are_read(spark: Any, logs: Path) -> None:
    names = ["committed_offset", "group", "effective", "log_offset"]
    wanted = "committed_offset bigint, `group` string NOT NULL, effective boolean, log_offset bigint"
    got = spark.read.format("kafkalog").schema(wanted).load(str(logs))
    assert got.columns == names
    assert sorted(map(tuple, got.collect()), key=str) == sorted(
        map(tuple, load(spark, logs).select(*names).collect()), key=str
    )
    followed = spark.readStream.format("kafkalog").schema(wanted).load(str(logs)).writeStream.format("memory")
    query = followed.queryName("few_columns").trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert spark.table("few_columns").columns == names
    assert spark.table("few_columns").count() == got.count()


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("offset bigint", "unknown column 'offset': expected some of log_dir, log_partition, log_offset, batch_base, "),
        ("committed_offset int", "invalid column committed_offset int: expected bigint"),
        ("topic string, topic string", "invalid schema: it has topic more than once"),
    ],
)
def test_a_schema_that_the_table_does_not_have_is_told_in_one_line(wanted: str, expected: str, spark: Any) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(expected)}"):
        KafkaLog({"path": "x"}).reader(StructType.fromDDL(wanted))


def test_a_column_without_nulls_is_taken_at_its_word(spark: Any, logs: Path) -> None:
    """Spark asks no row of such a column whether it has a value."""
    with pytest.raises(Exception, match="invalid column expire_ts NOT NULL: it has no value in some rows"):
        spark.read.format("kafkalog").schema("expire_ts bigint not null").load(str(logs)).collect()


def test_a_worker_does_not_search_its_imports_for_garbage_after_each_task(logs: Path) -> None:
    reader = BatchReader(parse({"path": str(logs)}), EFFECTIVE_COMMITS)
    freeze_imports.cache_clear()
    try:
        for partition in reader.partitions():
            assert sum(rows.num_rows for rows in reader.read(partition)) > 0
        assert gc.get_freeze_count() > 10_000
        frozen = freeze_imports.cache_info()
        assert (frozen.misses, frozen.hits) == (1, len(reader.partitions()) - 1), "once a process"
    finally:
        gc.unfreeze()


def test_a_wrong_option_is_named(spark: Any, logs: Path) -> None:
    with pytest.raises(Exception, match="unknown option decodr"):
        load(spark, logs, decodr="numpy").count()
    with pytest.raises(Exception, match="no directory other-<n>"):
        load(spark, logs, topic="other").count()


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("split_bytes", "x", "expected `int`, got `str`"),
        ("split_bytes", "0", "expected a number from 1 on"),
        ("num_partitions", "-1", "expected a number from 1 on"),
        ("on_error", "skip", "expected one of record, salvage, fail"),
        ("sink", "csv:/tmp", "expected none or parquet:<directory>"),
        ("reduce", "latest", "expected none with table='batches'"),
        ("starting", "x", "expected JSON {log: [next offset, segment, byte]}"),
        ("starting", '{"__consumer_offsets-0":5}', "expected JSON {log: [next offset, segment, byte]}"),
    ],
)
def test_a_wrong_value_of_an_option_is_told_in_one_line(name: str, value: str, expected: str) -> None:
    with pytest.raises(UsageError) as error:
        parse({"path": "x", "table": "batches", name: value})
    shown = value if value.lstrip("-").isdecimal() else repr(value)
    assert str(error.value) == f"invalid option {name}={shown}: {expected}"


def test_a_stream_of_a_group_without_a_log_waits_for_one(tmp_path: Path) -> None:
    """Its log may come; the limit of a trigger is shared by no log until then."""
    Writer(tmp_path / f"{TOPIC}-0")
    options = {"path": str(tmp_path), "group": "g", "num_partitions": "50", "max_bytes_per_trigger": "700"}
    reader = KafkaLog(options).streamReader(StructType())
    assert isinstance(reader, LimitedStreamReader)
    assert reader.latestOffset({}, reader.getDefaultReadLimit()) == {}


@pytest.mark.parametrize("is_limited", [True, False])
def test_a_stream_does_not_go_on_in_a_log_that_ends_before_its_checkpoint(tmp_path: Path, is_limited: bool) -> None:
    """As while a copy is made anew. Before Spark 4.2 a reader is told only later where its last batch ended."""
    writer = Writer(tmp_path / f"{TOPIC}-0")
    for number in range(4):
        writer.append([commit(("g", "t", 0), number, number)])
    (file,) = tmp_path.rglob("*.log")
    whole = file.read_bytes()

    def read(start: dict[str, str]) -> dict[str, str]:
        reader: Any = KafkaLog({"path": str(tmp_path)}).streamReader(StructType())
        if not is_limited:
            reader = StreamReader(reader.options, reader.columns)
            reader.partitions(start, end := reader.latestOffset())
            return dict(end)
        reader.prepareForTriggerAvailableNow()
        return dict(reader.latestOffset(start, reader.getDefaultReadLimit()))

    known = read({})
    for size in (len(whole) // 2, 0):
        file.write_bytes(whole[:size])
        with pytest.raises(UsageError, match=f"{TOPIC}-0 ends before offset 4, up to which it was read"):
            read(known)
    file.write_bytes(whole + b"torn")
    assert read(known) == known


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(n, marks=pytest.mark.long) for n in range(8, 25))])
def test_the_reduction_equals_replay_on_random_logs(tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small enough that the reduction settles often, transactional enough that order could matter."""
    monkeypatch.setattr("pipeline.decode.latest.KEEP_ROWS", 40)
    dice = random.Random(seed)
    plan = Plan(seed=seed, records=800, groups=4, topics=2, topic_partitions=2, partitions=1, segment_bytes=9000, batch=(1, 6), txn_share=dice.choice([0.2, 0.6, 1.0]), tombstone_share=0.1)  # fmt: skip
    write_logs(tmp_path, plan)
    found = latest(spans(log_dirs([str(tmp_path)])[0]), Options(chunk_bytes=2000))
    assert offsets(found.to_pylist()) == replayed(tmp_path)


def test_two_copies_of_a_log_count_once(tmp_path: Path, spark: Any) -> None:
    for broker in ("a", "b"):
        writer = Writer(tmp_path / broker / "__consumer_offsets-0")
        writer.append([commit(("g", "t", 0), n, n) for n in range(5 if broker == "a" else 8)])
    (row,) = load(spark, tmp_path, reduce="latest").collect()
    assert (row.committed_offset, row.log_dir) == (7, "b/__consumer_offsets-0")
