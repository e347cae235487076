"""Logs that are read from a cluster give the rows that the same logs give in a directory."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from coordinator.cli import main
from pipeline import manifest, sink
from pipeline.decode.cluster import between, newest, open_reader, read_all
from pipeline.decode.files import Store
from pipeline.decode.latest import latest
from pipeline.decode.layout import TOPIC, log_dirs, logs_at, spans
from pipeline.decode.logs import RECORD_BYTES, START, Position
from pipeline.decode.rows import Options, read_table
from pipeline.decode.schema import TABLES
from pipeline.decode.transactions import read_commits
from pipeline.errors import UsageError
from pipeline.jobs.compact import compact
from pipeline.jobs.ingest import Follower, ingest
from pipeline.jobs.scan import scan
from pipeline.jobs.verify import verify
from pipeline.options import parse
from pipeline.plan import Task, tasks
from pipeline.synth import Plan, write_logs
from pipeline.synth_groups import write_lives
from protocol import record_batch
from tests.client.scripted_cluster import ScriptedCluster

PLACE = {"segment_base", "pos"}  # where a batch lies in files, which no client can see


def batches_of(directory: Path) -> dict[int, list[bytes]]:
    found: dict[int, list[bytes]] = {}
    for log in log_dirs([str(directory)]):
        data = b"".join(file.read_bytes() for file in sorted((directory / log.path).glob("*.log")))
        found[log.partition] = [data[at : at + header.size] for at, header in record_batch.batches(data)]
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("whole")
    write_logs(directory, Plan(records=1500, segment_bytes=30_000))
    write_lives(directory, groups=3, partition=9)
    return directory


@pytest.fixture(scope="module")
def compacted(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("compacted") / "logs"
    assert all(one.equal for one in compact(str(whole), directory))
    return directory


@pytest.fixture(params=["whole", "compacted"])
def directory(request: pytest.FixtureRequest) -> Path:
    found: Path = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def cluster(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedCluster]:
    """The same logs, at brokers that throttle for a moment and at which a reader soon tries again."""
    monkeypatch.setattr("coordinator.client.log_reader.PAUSE_LEAST_SECONDS", 0.01)
    with ScriptedCluster(batches_of(directory)) as made:
        made.throttle_ms = 20
        yield made
    open_reader.cache_clear()


def uri_of(cluster: ScriptedCluster) -> str:
    return f"kafka://{cluster.addresses[0]}/{TOPIC}"


def rows_of(path: str, table: str, split_bytes: int = 32 << 20) -> list[dict[str, Any]]:
    cut = [span for log in log_dirs([path]) for span in spans(log, split_bytes)]
    rows = read_table(cut, table).to_pylist()
    shown = [{name: value for name, value in row.items() if name not in PLACE} for row in rows]
    return sorted(shown, key=lambda row: (row["log_partition"], row.get("log_offset", row.get("base_offset"))))


@pytest.mark.parametrize("script", [[], ["cut", "moved", "close", "throttle"]], ids=["calm", "troubled"])
@pytest.mark.parametrize("split_bytes", [4_000, 20_000, 32 << 20])
def test_every_table_has_the_same_rows(
    cluster: ScriptedCluster, directory: Path, split_bytes: int, script: list[str]
) -> None:
    for table in sorted(TABLES.keys() - {"log_problems"}):
        cluster.script = script.copy()
        assert rows_of(uri_of(cluster), table, split_bytes) == rows_of(str(directory), table)
    assert rows_of(uri_of(cluster), "log_problems", split_bytes) == [], "a gap of compaction is no problem"


def test_a_scan_counts_the_same(cluster: ScriptedCluster, directory: Path) -> None:
    here, there = (scan([path], [TOPIC]) for path in (uri_of(cluster), str(directory)))
    sizes = [[(log.batches, log.bytes) for log in found.logs.values()] for found in (here, there)]
    assert sizes[0] == sizes[1]
    assert all(bytes_ for _, bytes_ in sizes[0])
    assert {name: n for name, n in here.rows.items() if name != "log_problems"} == {
        name: n for name, n in there.rows.items() if name != "log_problems"
    }


def test_latest_offsets_and_transactions_are_the_same(cluster: ScriptedCluster, directory: Path) -> None:
    for number, there in enumerate(logs_at([str(directory)])):
        here = logs_at([uri_of(cluster)])[number]
        one, other = (
            [
                {name: value for name, value in row.items() if name not in PLACE}
                for row in latest(spans(log), Options()).to_pylist()
            ]
            for log in (here, there)
        )
        assert sorted(one, key=str) == sorted(other, key=str)
        states = [
            sorted(
                (row["log_offset"], row["txn_state"])
                for rows in read_commits(spans(log, 5_000), Options())
                for row in rows.to_pylist()
            )
            for log in (here, there)
        ]
        assert states[0] == states[1]


def test_ingesting_reads_on_from_the_manifest(cluster: ScriptedCluster, directory: Path, tmp_path: Path) -> None:
    ends = dict(cluster.ends)
    cluster.ends = {number: end // 2 for number, end in ends.items()}
    ingest(None, [uri_of(cluster)], tmp_path / "steps", split_bytes="4000")
    cluster.ends = ends
    ingest(None, [uri_of(cluster)], tmp_path / "steps", split_bytes="4000")
    fetched = len(cluster.fetches)
    after = ingest(None, [uri_of(cluster)], tmp_path / "steps", split_bytes="4000")
    assert len(cluster.fetches) == fetched, "there is nothing more to read"
    reference = ingest(None, [str(directory)], tmp_path / "directory")
    assert {name: at.next_offset for name, at in after.logs.items()} == {
        name: at.next_offset for name, at in reference.logs.items()
    }
    tables = after.rows.keys() - {"batches"}  # one that lies on both sides of the half is in the second step
    assert {name: after.rows[name] for name in tables} == {name: reference.rows[name] for name in tables}


def test_only_the_last_span_of_a_log_says_how_far_it_was_read(cluster: ScriptedCluster, tmp_path: Path) -> None:
    log = logs_at([uri_of(cluster)])[0]
    cut = spans(log, 4_000)
    written = [sink.write(Task((span,)), Options(), Store.of(tmp_path)).to_pylist() for span in cut]
    reached = [[json.loads(row["position"])[0] for row in rows if row["log"]] for rows in written]
    assert len(cut) > 3
    assert reached == [[]] * (len(cut) - 1) + [[log.end]]  # type: ignore[attr-defined]  # of a cluster


def test_following_with_a_limit_reads_everything_once(
    cluster: ScriptedCluster, directory: Path, tmp_path: Path
) -> None:
    follower = Follower([uri_of(cluster)], tmp_path / "followed", max_bytes=60_000)
    with follower.lock_tables():
        steps = 0
        while follower.step():
            steps += 1
    reference = ingest(None, [str(directory)], tmp_path / "directory")
    assert steps > 1
    assert follower.known.rows["offset_commits"] == reference.rows["offset_commits"]


def test_a_limit_counts_from_where_the_log_begins(cluster: ScriptedCluster) -> None:
    """Retention has removed what lay before: nothing is to be read there, however much it once was."""
    log = msgspec.structs.replace(logs_at([uri_of(cluster)])[0], begin=1_000_000, end=2_000_000)
    assert newest(log, START, 10 * RECORD_BYTES).next_offset == 1_000_010


@pytest.mark.parametrize("read_to", [0, 1, 7, 20, 21])
@pytest.mark.parametrize("begin", [1, 20])
def test_what_retention_has_removed_unread_is_a_problem(cluster: ScriptedCluster, read_to: int, begin: int) -> None:
    """But not what lay before the first reading."""
    cluster.starts[0] = begin
    log = logs_at([uri_of(cluster)])[0]
    found = read_table(between(log, Position(read_to), None, 4_000), "log_problems").to_pylist()
    expected = [("gap", read_to, begin - 1)] if 0 < read_to < begin else []
    assert [(row["kind"], row["from_offset"], row["to_offset"]) for row in found] == expected


def test_what_is_written_after_the_listing_is_left_for_the_next_one(cluster: ScriptedCluster) -> None:
    """A Fetch brings whole batches, and more of them than there were: whatever the log ended with, it is read up to."""
    ends, batches = cluster.ends, cluster.logs[0]
    headers = [record_batch.header_at(raw) for raw in batches]
    for count in range(0, len(batches), max(1, len(batches) // 7)):
        cluster.ends = {**ends, 0: headers[count].base_offset}
        log = logs_at([uri_of(cluster)])[0]
        cluster.ends = ends
        assert b"".join(read_all(log)) == b"".join(batches[:count])


def test_a_cluster_verifies_itself_and_its_tables(cluster: ScriptedCluster) -> None:
    found = verify([uri_of(cluster)])
    assert (found.equal, found.problems, found.keys > 100) == (True, [], True)


def test_a_topic_that_was_made_anew_is_not_read_on(
    cluster: ScriptedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest(None, [uri_of(cluster)], tmp_path)
    cluster.ends = {number: end // 2 for number, end in cluster.ends.items()}
    with pytest.raises(UsageError, match="it ends before offset"):
        ingest(None, [uri_of(cluster)], tmp_path)
    cluster.topic_id = b"u" * 16
    with pytest.raises(UsageError, match="was deleted and made anew"):
        ingest(None, [uri_of(cluster)], tmp_path)


def test_a_topic_whose_id_is_not_told_any_more_is_read_on(cluster: ScriptedCluster, tmp_path: Path) -> None:
    """As where an older broker is asked."""
    ingest(None, [uri_of(cluster)], tmp_path)
    cluster.topic_id = bytes(16)
    assert ingest(None, [uri_of(cluster)], tmp_path)


def test_the_place_is_the_cluster_whichever_broker_was_asked(cluster: ScriptedCluster, tmp_path: Path) -> None:
    known = ingest(None, [uri_of(cluster)], tmp_path)
    assert known.places[f"{TOPIC}-1"] == f"kafka://scripted/{TOPIC}-1"
    ingest(None, [f"kafka://{cluster.addresses[1]}"], tmp_path)


def test_no_secret_is_in_tables_plans_or_output(
    cluster: ScriptedCluster, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=PLAINTEXT\nsasl.username=alice\nsasl.password=hunter2\n")
    out = tmp_path / "tables"
    words = ["pipeline", "ingest", uri_of(cluster), "--out", str(out), "--command-config", str(config), "--json"]
    assert main(words) == 0
    options = parse({"path": uri_of(cluster), "command_config": str(config)})
    planned = repr((options, tasks(options, logs_at(options.paths), options.starts)))
    said = capfd.readouterr()
    texts = [planned, said.out, said.err, *(file.read_bytes().decode("latin-1") for file in out.rglob("*.*"))]
    assert not [text for text in texts if "hunter2" in text]
    assert manifest.load(out).paths == (uri_of(cluster),), "nor where the settings are"
    assert json.loads(said.out)["problems"] == 0


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ("kafka://alice:hunter2@nowhere:1", "expected credentials in"),
        ("kafka://nowhere:port", "expected kafka://HOST[:PORT]"),
        ("kafka://127.0.0.1:1", "cannot connect to 127.0.0.1:1"),
        ("kafka:///x", "expected kafka://HOST[:PORT]"),
    ],
)
def test_an_address_that_leads_nowhere_is_said_in_one_line(
    path: str,
    complaint: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert main(["pipeline", "ingest", path, "--out", str(tmp_path)]) in (1, 2)
    said = capsys.readouterr().err
    assert complaint in said.splitlines()[-1]
    assert "hunter2" not in said
    assert main(["pipeline", "compact", path, "--out", str(tmp_path / "new")]) == 2
    manifest.save(tmp_path, manifest.Manifest())
    monkeypatch.setattr("pipeline.commands._spark", lambda *_: pytest.fail("Spark was started before"))
    assert main(["pipeline", "build", "--out", str(tmp_path), "--ends", path]) in (1, 2)
    assert complaint in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.xdist_group("spark")
def test_spark_reads_a_cluster_and_a_stream_goes_on_from_its_checkpoint(
    spark: Any, whole: Path, tmp_path: Path
) -> None:
    with ScriptedCluster(batches_of(whole)) as cluster:
        ends = dict(cluster.ends)
        source = spark.read.format("kafkalog").option("split_bytes", 20_000).load(uri_of(cluster))
        wanted = sorted((row["log_partition"], row["log_offset"]) for row in rows_of(str(whole), "offset_commits"))
        assert sorted((row.log_partition, row.log_offset) for row in source.collect()) == wanted

        def drain() -> list[tuple[int, int]]:
            rows = spark.readStream.format("kafkalog").option("max_bytes_per_trigger", 120_000).load(uri_of(cluster))
            written = rows.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
            query = written.trigger(availableNow=True).start(str(tmp_path / "rows"))
            assert query.awaitTermination(120), "the stream did not end"
            found = spark.read.parquet(str(tmp_path / "rows")).collect()
            return sorted((row.log_partition, row.log_offset) for row in found)

        cluster.ends = {number: end // 2 for number, end in ends.items()}
        assert 0 < len(drain()) < len(wanted)
        cluster.ends = ends
        assert drain() == wanted
