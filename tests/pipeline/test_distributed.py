"""A standalone master and two workers on loopback ingest what one process ingests: from a directory, and from S3 to S3."""

import json
import os
import signal
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
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
from tests.pipeline.object_store import object_store, run_to_end, start_process, wait_for_line

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


@contextmanager
def cluster(directory: Path, spark_home: Path | None = None) -> Iterator[str]:
    """A master and two workers of one core each, of the installed Spark or of another one; the master's address."""
    import pyspark

    spark_class = (spark_home or Path(pyspark.__file__).parent) / "bin" / "spark-class"
    here = ("--host", "127.0.0.1", "--webui-port", "0")
    running = []
    try:
        log = directory / "master.log"
        running.append(start_process(log, spark_class, "org.apache.spark.deploy.master.Master", *here, "--port", "0"))
        address = wait_for_line(log, "Starting Spark master at").split()[-1]
        logs = [directory / f"worker{number}.log" for number in range(2)]
        for log in logs:
            size = ("--cores", "1", "--memory", "1g", "--work-dir", str(log.with_suffix("")))
            running.append(
                start_process(log, spark_class, "org.apache.spark.deploy.worker.Worker", *here, *size, address)
            )
        for log in logs:
            wait_for_line(log, "Successfully registered with master")
        yield address
    finally:
        for process in running:
            os.killpg(process.pid, signal.SIGTERM)
        for process in running:
            process.wait(20)


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
