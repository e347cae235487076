"""A live Muster for a while, in memory, on a free port of loopback.

with muster.running({"group.max.size": "2"}) as port: ...
"""

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

START_S = 30
STOP_S = 20
KAFKA_ONLY = {  # settings of Kafka's that Muster needs not: it looks for late transactions when they are late
    "transaction.abort.timed.out.transaction.cleanup.interval.ms",
}


@contextlib.contextmanager
def running(settings: Mapping[str, str]) -> Iterator[int]:
    """The port of a fresh Muster with these settings, stopped afterwards. Its log is shown if it did not start or died."""
    with tempfile.TemporaryDirectory(prefix="muster-conformance-") as home:
        ready, said = Path(home) / "ready.json", Path(home) / "log"
        words = ["serve", "--listen", "127.0.0.1:0", "--admin", "off", "--ephemeral", "--ready-file", str(ready)]
        words += ["--log-level", "warning"]
        for pair in pairs(settings):
            words += ["--set", pair]
        with said.open("wb") as log:
            process = subprocess.Popen([sys.executable, "-m", "coordinator", *words], stdout=log, stderr=log)
        try:
            yield await_ready(process, ready, said)
            if process.poll() is not None:
                raise RuntimeError(f"Muster died with {process.returncode}:\n{said.read_text()[-4000:]}")
        finally:
            stop(process)


def stop(process: "subprocess.Popen[bytes]") -> None:
    """Ask it to end, and end it if it does not."""
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(STOP_S)


def pairs(settings: Mapping[str, str]) -> list[str]:
    """The settings that Muster has too, each as NAME=VALUE."""
    return [f"{name}={value}" for name, value in settings.items() if name not in KAFKA_ONLY]


def await_ready(process: "subprocess.Popen[bytes]", ready: Path, said: Path) -> int:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        if ready.exists():
            return int(json.loads(ready.read_text())["kafka"].rpartition(":")[2])
        time.sleep(0.02)
    raise RuntimeError(f"Muster did not start:\n{said.read_text()[-4000:]}")
