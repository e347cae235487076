"""An object store on loopback: moto's server, which speaks S3, in a process of its own."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs

from pipeline.session import java_home

KEYS = {
    "AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing-secret", "AWS_EC2_METADATA_DISABLED": "true",
}  # fmt: skip


def start_process(log: Path, *command: str | Path) -> subprocess.Popen[bytes]:
    """Start a process of a cluster or a store; what it prints goes to `log`."""
    environment = {"SPARK_DAEMON_MEMORY": "256m"} | os.environ | {
        "JAVA_HOME": str(java_home()), "SPARK_LOCAL_HOSTNAME": "localhost",
        "PYSPARK_PYTHON": sys.executable, **KEYS,
    }  # fmt: skip
    with log.open("wb") as file:
        return subprocess.Popen(
            command, stdout=file, stderr=file, env=environment, cwd=log.parent, start_new_session=True
        )


def run_to_end(*command: str | Path, code: int = 0, is_clean: bool = False, mark: str = "", **options: Any) -> str:
    """Run a process that must end with this exit code, or without a traceback as well.

    Return what the last line says that begins with the mark: Spark's Java may print lines of its own behind it.
    """
    done = subprocess.run(command, capture_output=True, text=True, **{"timeout": 1200, **options})
    assert done.returncode == code, done.stderr[-3000:]
    assert not is_clean or "Traceback" not in done.stderr, done.stderr[-3000:]
    return [line for line in done.stdout.splitlines() if line.startswith(mark)][-1].removeprefix(mark)


def wait_for_line(log: Path, words: str, seconds: float = 90) -> str:
    """Wait for the line in which a process says that it is ready; return that line."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        for line in log.read_text(errors="replace").splitlines():
            if words in line:
                return line
        time.sleep(0.1)
    raise AssertionError(f"{words!r} was not printed: {log.read_text()[-2000:]}")


@contextmanager
def object_store(directory: Path, logs: Path | None = None) -> Iterator[str]:
    """Run moto's server on a free port, with a copy of the logs as `copy`; the pattern of a path in its bucket."""
    log = directory / "moto.log"
    process = start_process(log, sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0")
    try:
        port = wait_for_line(log, "Running on").rsplit(":", 1)[-1].strip()
        where = f"endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"
        store, _ = pafs.FileSystem.from_uri(f"s3://logs?{where}&allow_bucket_creation=true")
        store.create_dir("logs")
        if logs is not None:
            pafs.copy_files(str(logs), "logs/copy", destination_filesystem=store)
        yield f"s3://logs/%s?{where}"
    finally:
        process.terminate()
        process.wait(20)
