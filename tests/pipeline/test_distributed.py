"""A standalone master and two workers on loopback ingest what one process ingests: from a directory, and from S3 to S3."""

import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pipeline import manifest
from pipeline.decode.files import Store
from pipeline.decode.layout import log_dirs, spans
from pipeline.decode.rows import read_table
from pipeline.decode.schema import TABLES
from pipeline.jobs.optimize import optimize
from pipeline.synth import Plan, write_logs
from pipeline.synth_groups import write_lives
from tests.pipeline.object_store import object_store, run_to_end
from tests.pipeline.spark_cluster import cluster

# Four Java processes and an object store: minutes on a small machine.
pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark"), pytest.mark.timeout(900)]

# The driver, in a process of its own: Spark has one session a process, and the other tests have it. It is handed the
# master, a wheel and pairs of [path, place of the tables]; it prints where each executor has the package from.
DRIVER = """
import json, sys
from pipeline.jobs.ingest import ingest
from pipeline.session import Settings, session

master, wheel, jobs = json.loads(sys.argv[1])
conf = {"spark.executor.cores": "1", "spark.cores.max": "2", "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1", "spark.sql.shuffle.partitions": "2"}
spark = session(settings=Settings(master, "512m", "512m", tuple(conf.items()), (wheel,)))
assert spark.conf.get("spark.executor.memory") == "512m"
for path, out in jobs:
    ingest(spark, [path], out, split_bytes="40000")

def place(_):
    import os
    import pipeline.decode.kernels as module
    yield os.getppid(), module.__file__

print(json.dumps(spark.sparkContext.parallelize(range(8), 8).mapPartitions(place).collect()), flush=True)
spark.stop()
"""


def wheel_of_this_tree(directory: Path) -> Path:
    """The packages as a wheel holds them."""
    wheel = directory / "kafka_muster-0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for package in ("coordinator", "protocol", "storage", "pipeline"):
            for file in Path(package).rglob("*.py"):
                archive.write(file)
    return wheel


def ingest_on(master: str, wheel: Path, *jobs: tuple[str, str]) -> dict[int, str]:
    """Run them one after the other; by executor the file that it has the package from."""
    return dict(json.loads(run_to_end(sys.executable, "-c", DRIVER, json.dumps([master, str(wheel), jobs]))))


def rows(out: Store, table: str) -> list[Any]:
    """All rows of a raw table, in an order that does not depend on who wrote them."""
    found: list[dict[str, Any]] = []
    for file in manifest.load(out).files.get(table, ()):
        with out.open_input(file) as opened:
            found += pq.ParquetFile(opened).read().to_pylist()
    return ordered(found)


def ordered(found: list[dict[str, Any]]) -> list[Any]:
    return sorted(
        found, key=lambda row: [str(row.get(name)) for name in ("log_dir", "segment_base", "log_offset", "pos")]
    )


def test_two_workers_ingest_what_one_process_ingests(tmp_path: Path, store_keys: None) -> None:
    logs = tmp_path / "logs"
    write_logs(logs, Plan(records=4000, segment_bytes=100_000))
    write_lives(logs, groups=3, partition=9)
    wheel, near = wheel_of_this_tree(tmp_path), Store.of(tmp_path / "near")
    cut = [span for log in log_dirs([str(logs)]) for span in spans(log)]
    with cluster(tmp_path) as master, object_store(tmp_path, logs) as store:
        far = Store.of((store % "tables").replace("s3:", "s3a:"))
        found = ingest_on(master, wheel, (str(logs), near.uri), (store % "copy", far.uri))
        assert len(found) == 2, "two executors"
        assert all(".zip/pipeline/" in file for file in found.values()), "the package came with the job"
        assert not (tmp_path / "s3:").exists()
        for table in TABLES:
            want = ordered(read_table(cut, table).to_pylist())
            assert bool(want) == (table in ("batches", "offset_commits", "group_records"))
            for out in (near, far):
                assert rows(out, table) == want, f"{table} of {out.display_uri}"
        assert "testing" not in far.read(manifest.NAME).decode()
        before = manifest.load(far)
        assert optimize(far).files_after <= sum(map(len, before.files.values()))
        assert rows(far, "offset_commits") == ordered(read_table(cut, "offset_commits").to_pylist())
