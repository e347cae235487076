"""A Spark Connect server, and an environment of a client."""

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.session import SMALL
from tests.pipeline.object_store import start_process, wait_for_line

CLIENT = ["grpcio>=1.76", "grpcio-status>=1.76", "googleapis-common-protos>=1.71", "protobuf>=6.33", "zstandard>=0.25"]

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


@contextmanager
def connect_server(directory: Path) -> Iterator[str]:
    """Run Spark's own Connect server on loopback; its address."""
    import pyspark

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": str(port),
        "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1", "spark.sql.session.timeZone": "UTC",
        "spark.sql.python.filterPushdown.enabled": "true", **SMALL,
    }  # fmt: skip
    words = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    log = directory / "connect.log"
    process = start_process(log, submit, "--class", SERVER, "--master", "local[2]", *words)
    try:
        wait_for_line(log, "Spark Connect server started", seconds=300)
        yield f"sc://127.0.0.1:{port}"
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(60)
