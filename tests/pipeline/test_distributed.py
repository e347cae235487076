"""A standalone master and two workers on loopback give the tables that one local core gives, from files and from S3."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs
import pytest

from pipeline.decode.layout import log_dirs, spans
from pipeline.decode.rows import read_table
from pipeline.session import java_home
from pipeline.synth import Plan, write_logs
from tests.pipeline.test_source import replayed

pytestmark = [pytest.mark.xdist_group("spark"), pytest.mark.timeout(280)]

# The driver, in a process of its own: Spark has one session a process, and the other tests have it.
DRIVER = """
import json, sys
from pipeline.session import session
master, path = sys.argv[1:3]
spark = session(master, memory="512m", conf={"spark.executor.memory": "512m", "spark.executor.cores": "1", "spark.cores.max": "2",
    "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.sql.shuffle.partitions": "2"})
rows = spark.read.format("kafkalog").option("split_bytes", 40000).load(path)
latest = spark.read.format("kafkalog").option("reduce", "latest").load(path)
keys = {f"{r.group}/{r.topic}/{r.partition}": r.committed_offset for r in latest.collect()}
hosts = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
print(json.dumps({"rows": rows.count(), "offsets": sorted(r[0] for r in rows.select("log_offset").collect()), "keys": keys, "executors": hosts}))
"""


def processes(spark_home: Path, log: Path, *words: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "JAVA_HOME": str(java_home()), "SPARK_LOCAL_HOSTNAME": "localhost", "SPARK_DAEMON_MEMORY": "256m", "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(Path.cwd())}  # fmt: skip
    with log.open("wb") as file:
        return subprocess.Popen([spark_home / "bin" / "spark-class", *words], stdout=file, stderr=file, env=environment, cwd=log.parent, start_new_session=True)  # fmt: skip


def waited(log: Path, words: str, seconds: float = 90) -> str:
    """The line in which a process says that it is ready."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        for line in log.read_text(errors="replace").splitlines():
            if words in line:
                return line
        time.sleep(0.2)
    raise AssertionError(f"{words!r} was not said: {log.read_text()[-2000:]}")


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A cluster of one master and two workers; its address."""
    import pyspark

    home, directory = Path(pyspark.__file__).parent, tmp_path_factory.mktemp("cluster")
    running = []
    try:
        log = directory / "master.log"
        running.append(
            processes(
                home,
                log,
                "org.apache.spark.deploy.master.Master",
                "--host",
                "127.0.0.1",
                "--port",
                "0",
                "--webui-port",
                "0",
            )
        )
        address = waited(log, "Starting Spark master at").split()[-1]
        for number in range(2):
            words = (
                "org.apache.spark.deploy.worker.Worker",
                "--host",
                "127.0.0.1",
                "--webui-port",
                "0",
                "--cores",
                "1",
                "--memory",
                "700m",
            )
            running.append(
                processes(
                    home,
                    directory / f"worker{number}.log",
                    *words,
                    "--work-dir",
                    str(directory / f"work{number}"),
                    address,
                )
            )
        for number in range(2):
            waited(directory / f"worker{number}.log", "Successfully registered with master")
        yield address
    finally:
        for process in running:
            os.killpg(process.pid, signal.SIGTERM)
        for process in running:
            process.wait(20)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("logs")
    write_logs(directory, Plan(records=4000, segment_bytes=100_000))
    return directory


def told(master: str, path: str, **environment: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, master, path],
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def check(found: dict[str, Any], logs: Path) -> None:
    cut = [span for log in log_dirs([str(logs)]) for span in spans(log)]
    assert found["offsets"] == sorted(read_table(cut, "offset_commits")["log_offset"].to_pylist())
    assert found["rows"] == 4000
    assert found["keys"] == {"/".join(map(str, key)): value for key, value in replayed(logs).items()}


@pytest.mark.long
def test_two_workers_read_a_directory(master: str, logs: Path) -> None:
    found = told(master, str(logs))
    check(found, logs)
    assert found["executors"] == 2


@contextmanager
def object_store(directory: Path) -> Iterator[int]:
    """moto's server on a free port."""
    log = directory / "moto.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"], stdout=file, stderr=file
        )
    try:
        yield int(waited(log, "Running on").rsplit(":", 1)[-1].strip())
    finally:
        process.terminate()
        process.wait(20)


@pytest.mark.long
@pytest.mark.skipif(find_spec("moto") is None, reason="moto is not installed")
def test_two_workers_read_an_object_store(master: str, logs: Path, tmp_path: Path) -> None:
    keys = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_EC2_METADATA_DISABLED": "true"}
    with object_store(tmp_path) as port:
        store = pafs.S3FileSystem(
            access_key="testing",
            secret_key="testing",
            endpoint_override=f"127.0.0.1:{port}",
            scheme="http",
            region="us-east-1",
            allow_bucket_creation=True,
        )
        store.create_dir("logs")
        pafs.copy_files(str(logs), "logs/copy", destination_filesystem=store)
        path = f"s3://testing:testing@logs/copy?endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"
        check(told(master, path, **keys), logs)
