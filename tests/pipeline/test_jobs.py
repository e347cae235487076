"""Build: every table, published as a whole; the source of streams; Spark ingests what one process ingests."""

import json
import os
import time
from pathlib import Path
from typing import Any

import duckdb
import pytest

from pipeline import manifest, published
from pipeline.decode.layout import TOPIC
from pipeline.errors import UsageError
from pipeline.jobs.build import DERIVED, Tables, build
from pipeline.jobs.ingest import ingest
from pipeline.synth import Plan, Writer, commit, write_logs
from pipeline.synth_groups import write_lives
from protocol.records import Record
from tests.commands import Shell, shell_fixture
from tests.pipeline.conftest import SharedSession
from tests.pipeline.group_logs import fill
from tests.pipeline.ingested import ids, read
from tests.pipeline.share_logs import write_shares
from tests.pipeline.sources import offsets, replayed

pytestmark = pytest.mark.xdist_group("spark")

muster = shell_fixture("pipeline")

SOUND, TORN, UNREADABLE = 60, 61, 62  # partitions of group logs
STOPPED_MS = 1_765_000_000_000  # when topic `idle` took in its last record: long after all commits


def test_spark_ingests_what_this_process_ingests(spark: Any, tmp_path: Path) -> None:
    write_logs(tmp_path / "logs", Plan(records=600, segment_bytes=20_000))
    alone = read(tmp_path / "logs", tmp_path / "alone")
    assert ingest(spark, [str(tmp_path / "logs")], tmp_path / "shared", split_bytes="9000").rows == alone.rows
    assert ids(tmp_path / "shared") == ids(tmp_path / "alone")


def test_a_stream_reads_on_and_ends_where_the_logs_ended(spark: Any, tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    writer = Writer(logs / f"{TOPIC}-0", segment_bytes=600)

    def drain() -> list[int]:
        rows = spark.readStream.format("kafkalog").option("max_bytes_per_trigger", 700).load(str(logs))
        written = rows.writeStream.format("parquet").option("checkpointLocation", str(out / "checkpoint"))
        query = written.trigger(availableNow=True).start(str(out / "rows"))
        assert query.awaitTermination(120), "the stream did not end"
        return sorted(row.log_offset for row in spark.read.parquet(str(out / "rows")).collect())

    fill(writer, range(20))
    assert drain() == list(range(20))
    fill(writer, range(20, 30))
    assert drain() == list(range(30))


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Logs of all kinds. Two of the group logs are damaged, and topic `goods` has a log of its own."""
    logs = tmp_path_factory.mktemp("all") / "data"
    write_logs(logs, Plan(records=600, segment_bytes=20_000))
    write_lives(logs, groups=3, rebalances=4, partition=9)
    write_shares(logs)
    groups, goods = Writer(logs / f"{TOPIC}-{SOUND}"), Writer(logs / "goods-2", segment_bytes=100)
    for n in range(10):
        goods.append([Record(None, b"x", timestamp=1000 * n)])
        groups.append([commit(("g", "goods", 2), n // 2, 1000 * n)])
    Writer(logs / "idle-0").append([Record(None, b"x", timestamp=STOPPED_MS)])
    torn = Writer(logs / f"{TOPIC}-{TORN}")
    torn.append([commit(("h", "t", 0), 0, 0)])
    path = next((logs / f"{TOPIC}-{TORN}").glob("*.log"))
    path.write_bytes(path.read_bytes() + b"\xff" * 300)
    (logs / f"{TOPIC}-{UNREADABLE}").mkdir()
    (logs / f"{TOPIC}-{UNREADABLE}" / path.name).write_bytes(b"\xff" * 300)
    return logs


@pytest.fixture(scope="module")
def built(shared_session: SharedSession, logs: Path) -> tuple[Path, dict[str, int]]:
    """All tables of the logs, which were read twice, after a build that died; the number of rows of each."""
    spark, out = shared_session.get(), logs.parent / "out"
    read(logs, out)
    read(logs, out)
    later_s = int(time.time()) + 3600  # after the logs were read
    Writer(logs / "goods-2", first_offset=10).append([Record(None, b"x", timestamp=later_s * 1000)])
    os.utime(max((logs / "goods-2").glob("*.log")), (later_s, later_s))
    kill_a_build(spark, out)
    return out, build(spark, out, ends=logs)


def test_every_table_is_built(spark: Any, logs: Path, built: tuple[Path, dict[str, int]]) -> None:
    out, counts = built
    assert set(counts) == set(DERIVED)
    assert {name for name in DERIVED if not counts[name]} <= {"unknown_records", "new_group_records"}
    tables = Tables(spark, out)
    latest = offsets(row.asDict() for row in tables.read_table("latest_offsets").collect())
    assert latest == replayed(logs)
    health = tables.read_table("log_health").collect()
    assert all(row.bytes > 0 for row in health if row.batches)
    assert all(0 <= row.dead_ratio <= 1 if row.commits else row.dead_ratio is None for row in health)
    assert {bool(row.commits) for row in health} == {True, False}
    _read_by_others(spark, out, counts)


def test_a_build_that_dies_changes_no_table_and_leaves_nothing_for_long(
    spark: Any, built: tuple[Path, dict[str, int]]
) -> None:
    out, _ = built
    first = published.load(out)
    (left,) = (out / "builds").iterdir()
    assert left.name == first.build, "the one that died left nothing"
    kill_a_build(spark, out)
    assert published.load(out) == first, "the tables stay as they are"


def test_damage_is_reported_once_however_often_it_is_met(spark: Any, built: tuple[Path, dict[str, int]]) -> None:
    tables = Tables(spark, built[0])
    problems = tables.read_table("log_problems").orderBy("log_dir").collect()
    assert [(p.kind, p.severity, p.from_offset) for p in problems] == [("bad_length", "problem", n) for n in (1, 0)]
    health = tables.read_table("log_health").where(f"log_partition >= {SOUND}").orderBy("log_dir")
    assert [(row.batches, row.problems) for row in health.collect()] == [(10, 0), (1, 1), (0, 1)], (
        "also of the unread one"
    )


def test_ends_of_topics_come_from_their_own_logs(spark: Any, built: tuple[Path, dict[str, int]]) -> None:
    tables = Tables(spark, built[0])
    (row,) = tables.read_table("lag_status").where("topic = 'goods'").collect()
    assert (row.current_offset, row.log_end_offset, row.lag, row.leo_source) == (4, 10, 6, "log")
    history = tables.read_table("lag_history").where("topic = 'goods'").orderBy("ts").collect()
    assert [(one.ts, one.lag) for one in history] == [(1000 * n, n + 1 - n // 2) for n in range(10)]


def test_what_is_told_of_now_is_told_as_of_the_newest_log_end(spark: Any, built: tuple[Path, dict[str, int]]) -> None:
    """Later than all commits: whoever has not committed since is quiet for so long."""
    tables = Tables(spark, built[0])
    last = {
        (row.group, row.topic, row.partition): (row.commit_ts, row.age_ms)
        for row in tables.read_table("latest_offsets").collect()
    }
    quiet = {(row.group, row.topic, row.partition): row.quiet_s for row in tables.read_table("lag_status").collect()}
    assert len(quiet) > 50
    assert {age_ms for _, age_ms in last.values()} == {STOPPED_MS - ts for ts, _ in last.values()}
    assert quiet == {key: (STOPPED_MS - last[key][0]) / 1000 for key in quiet}


def test_all_tables_may_be_empty(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, muster: Shell) -> None:
    (tmp_path / "logs" / f"{TOPIC}-0").mkdir(parents=True)
    out = tmp_path / "out"
    muster(0, "ingest", tmp_path / "logs", "--out", out)
    with monkeypatch.context() as patched:
        patched.setattr("pipeline.session.session", lambda *_args, **_options: spark)
        patched.setattr(spark, "stop", lambda: None)  # others have it as well
        built = muster.json(0, "build", "--out", out)
    assert built == {"rows": dict.fromkeys(DERIVED, 0), "problems": 0}
    muster(0, "verify", tmp_path / "logs", "--tables", out)
    assert Tables(spark, out).read_table("latest_offsets").count() == 0


def kill_a_build(spark: Any, out: Path) -> None:
    """Begin a build that dies after some of its tables."""

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("pipeline.tables.commits.offset_commits", killed)
        with pytest.raises(KeyboardInterrupt):
            build(spark, out, now_ms=6)


def _read_by_others(spark: Any, out: Path, counts: dict[str, int]) -> None:
    """What was published, as SQL of Spark and as DuckDB read it."""
    published.create_views(spark, out)
    assert spark.table("latest_offsets").count() == counts["latest_offsets"]
    effective = spark.sql("SELECT count(*) FROM effective_commits").first()[0]
    assert 0 < effective < counts["offset_commits"]
    assert spark.table("offset_commits").where("date = '2025-10-09'").count() > 0
    with duckdb.connect() as db:
        found = db.execute(f"SELECT count(*) FROM read_parquet('{out}/tables/rebalances/**/*.parquet')").fetchall()
    assert found == [(counts["rebalances"],)]


def test_tables_of_a_later_release_are_refused(tmp_path: Path) -> None:
    (tmp_path / published.NAME).write_text(json.dumps({"version": published.VERSION + 1}))
    with pytest.raises(UsageError, match="built by a later release"):
        published.load(tmp_path)
    with pytest.raises(FileNotFoundError, match="run build first"):
        published.load(tmp_path / "nothing")
    assert manifest.load(tmp_path / "nothing") == manifest.Manifest()


def test_the_current_build_and_the_one_before_it_are_kept(tmp_path: Path) -> None:
    """Whoever reads the last one may read on; those that died go too."""
    for name in ("1", "dead", "2", "3"):
        (tmp_path / "builds" / name).mkdir(parents=True)
        if name != "dead":
            published.publish(tmp_path, published.Snapshot(build=name), "")
    assert {entry.name for entry in (tmp_path / "builds").iterdir()} == {"2", "3"}
    assert published.load(tmp_path).build == "3"


def test_the_link_to_the_current_build_goes_with_tables_of_delta(tmp_path: Path) -> None:
    """These lie elsewhere, and the link would lead to an old build, or to none."""
    (tmp_path / "builds" / "1").mkdir(parents=True)
    published.publish(tmp_path, published.Snapshot(build="1"), "")
    assert (tmp_path / published.LINK).is_dir()
    published.publish(tmp_path, published.Snapshot(format="delta", build="2"), "")
    assert not (tmp_path / published.LINK).is_symlink()


def test_dates_of_directories_are_in_utc_in_any_session(spark: Any, tmp_path: Path) -> None:
    times = {1_760_000_000_000: "2025-10-09", -1: "1969-12-31", 1 << 62: "__HIVE_DEFAULT_PARTITION__"}
    rows = spark.createDataFrame([(ts,) for ts in times], "ts bigint")
    for zone in ("Pacific/Kiritimati", "America/Los_Angeles"):
        spark.conf.set("spark.sql.session.timeZone", zone)
        try:
            Tables(spark, tmp_path / "t").write("lag_history", rows)
        finally:
            spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert {path.parent.name for path in (tmp_path / "t").rglob("*.parquet")} == {
        f"date={one}" for one in times.values()
    }
