"""A standalone master and two workers on loopback ingest what one local core ingests, from a directory and from S3."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from pipeline.decode.layout import log_dirs, spans
from pipeline.decode.rows import read_table
from pipeline.decode.schema import TABLES
from pipeline.session import java_home
from pipeline.synth import Plan, write_logs
from pipeline.synth_groups import write_lives

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(280)]

# The driver, in a process of its own: Spark has one session a process, and the other tests have it. It is handed lists
# of [master, path, directory of the tables] and says how many executors each had.
DRIVER = """
import json, sys
from pathlib import Path
from pipeline.jobs.ingest import ingest
from pipeline.session import session
for master, path, out in json.loads(sys.argv[1]):
    spark = session(master, memory="512m", conf={"spark.executor.memory": "512m", "spark.executor.cores": "1",
        "spark.cores.max": "2", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2"})
    ingest(spark, [path], Path(out), split_bytes="40000")
    print(spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1, flush=True)
    spark.stop()
"""


def started(log: Path, *command: str | Path) -> subprocess.Popen[bytes]:
    """A process of the cluster; what it says is in `log`."""
    environment = os.environ | {
        "JAVA_HOME": str(java_home()), "SPARK_LOCAL_HOSTNAME": "localhost", "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(Path.cwd()),
    }  # fmt: skip
    with log.open("wb") as file:
        return subprocess.Popen(
            command, stdout=file, stderr=file, env=environment, cwd=log.parent, start_new_session=True
        )


def waited(log: Path, words: str, seconds: float = 90) -> str:
    """The line in which a process says that it is ready."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        for line in log.read_text(errors="replace").splitlines():
            if words in line:
                return line
        time.sleep(0.1)
    raise AssertionError(f"{words!r} was not said: {log.read_text()[-2000:]}")


@contextmanager
def cluster(directory: Path) -> Iterator[str]:
    """A master and two workers of one core each; the master's address."""
    import pyspark

    spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
    here = ("--host", "127.0.0.1", "--webui-port", "0")
    running = []
    try:
        log = directory / "master.log"
        running.append(started(log, spark_class, "org.apache.spark.deploy.master.Master", *here, "--port", "0"))
        address = waited(log, "Starting Spark master at").split()[-1]
        logs = [directory / f"worker{number}.log" for number in range(2)]
        for log in logs:
            size = ("--cores", "1", "--memory", "700m", "--work-dir", str(log.with_suffix("")))
            running.append(started(log, spark_class, "org.apache.spark.deploy.worker.Worker", *here, *size, address))
        for log in logs:
            waited(log, "Successfully registered with master")
        yield address
    finally:
        for process in running:
            os.killpg(process.pid, signal.SIGTERM)
        for process in running:
            process.wait(20)


@contextmanager
def object_store(directory: Path, logs: Path) -> Iterator[str]:
    """moto's server on a free port, with a copy of the logs; where they are in it."""
    log = directory / "moto.log"
    process = started(log, sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0")
    try:
        port = waited(log, "Running on").rsplit(":", 1)[-1].strip()
        where = f"endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"
        store, _ = pafs.FileSystem.from_uri(f"s3://testing:testing@logs?{where}&allow_bucket_creation=true")
        store.create_dir("logs")
        pafs.copy_files(str(logs), "logs/copy", destination_filesystem=store)
        yield f"s3://testing:testing@logs/copy?{where}"
    finally:
        process.terminate()
        process.wait(20)


def ingested(*jobs: tuple[str, str, Path]) -> list[int]:
    """Run them one after the other; how many executors each had."""
    keys = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_EC2_METADATA_DISABLED": "true"}
    said = json.dumps([[master, path, str(out)] for master, path, out in jobs])
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, said], capture_output=True, text=True, timeout=240, env=os.environ | keys
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [int(line) for line in done.stdout.splitlines()]


def rows(out: Path, table: str) -> list[Any]:
    """All rows of a raw table, in an order that does not depend on who wrote them."""
    if not (out / "raw" / table).exists():
        return []
    return ordered(pq.read_table(out / "raw" / table).to_pylist())


def ordered(found: list[dict[str, Any]]) -> list[Any]:
    return sorted(
        found, key=lambda row: [str(row.get(name)) for name in ("log_dir", "segment_base", "log_offset", "pos")]
    )


def test_two_workers_ingest_what_one_core_ingests(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    write_logs(logs, Plan(records=4000, segment_bytes=100_000))
    write_lives(logs, groups=3, partition=9)
    alone, near, far = (tmp_path / name for name in ("alone", "near", "far"))
    with cluster(tmp_path) as master, object_store(tmp_path, logs) as store:
        executors = ingested(("local[1]", str(logs), alone), (master, str(logs), near), (master, store, far))
    assert executors == [0, 2, 2]
    cut = [span for log in log_dirs([str(logs)]) for span in spans(log)]
    for table in TABLES:
        want = ordered(read_table(cut, table).to_pylist())
        assert bool(want) == (table in ("batches", "offset_commits", "group_records"))
        for out in (alone, near, far):
            assert rows(out, table) == want, f"{table} of {out.name}"
