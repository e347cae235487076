"""A Spark cluster of two workers on loopback."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.pipeline.object_store import start_process, wait_for_line


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
