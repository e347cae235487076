"""A real `muster serve` process for tests: started, asked, killed, started again on the same ports and data.

with Muster(tmp_path, "--topic", "orders:4") as muster:
    consumer = Consumer({"bootstrap.servers": muster.kafka, ...})
    muster.kill()
    muster.start()
"""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import pytest

from tests.ports import reserve_ports

START_SECONDS = STOP_SECONDS = WAIT_SECONDS = 180.0  # on a machine that is four times too busy
_ERROR = re.compile(r'^at=\S+ level=error |"level": "error"|^\s*(\+ Exception Group )?Traceback ')


def wait_until(what: str, is_true: Callable[[], object], seconds: float = WAIT_SECONDS) -> None:
    """Wait for a condition that another process or thread brings about in its own time."""
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline, f"after {seconds:.0f} s still not: {what}"
        time.sleep(0.05)


class Muster:
    """A server process with a data directory of its own. Its ports stay the same over restarts."""

    def __init__(
        self,
        folder: Path,
        *options: str,
        environment: dict[str, str] | None = None,
        files_max: int | None = None,
        may_fail: bool = False,
        has_listen: bool = True,
    ) -> None:
        """`has_listen`: whether it is told by `--listen` to take a free port, and not by its environment. `files_max`: how many descriptors the process may have, where that is not what this one may. `may_fail`: it
        is the test's own matter whether the server ends by itself, or logs an error."""
        self.folder = folder
        self.options = options
        self.environment = environment or {}
        self.files_max = files_max
        self.may_fail = may_fail
        self.has_listen = has_listen
        self.data_dir = folder / "data"
        self.ready: dict[str, Any] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._is_ended = True  # by the test
        self._reserved = ExitStack()
        self._has_reserved = False  # its ports, from its first end on
        self._log = folder / "muster.log"

    def __enter__(self) -> "Muster":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._reserved.close()
        code = self._process.poll() if self._process else None
        is_dead_by_itself = code is not None and not self._is_ended
        if self._process and code is None:
            self._process.kill()
            self._process.wait(STOP_SECONDS)
        if error is not None:
            sys.stderr.write(f"--- the end of the server's log\n{self.log()[-4000:]}\n")
        elif not self.may_fail:
            # Clients try again: neither need show in what a test has seen.
            assert not is_dead_by_itself, f"the server ended by itself with {code}:\n{self.log()[-4000:]}"
            assert not self.errors(), f"the server has logged errors: {self.errors()}"

    @property
    def kafka(self) -> str:
        """Where Kafka clients connect: host:port."""
        return str(self.ready["kafka"])

    def address_of(self, listener: str) -> str:
        """Where a listener is, where there are several."""
        return str(self.ready["listeners"][self.ready["names"].index(listener)])

    @property
    def address(self) -> tuple[str, int]:
        """The same as a pair."""
        host, _, port = self.kafka.rpartition(":")
        return host, int(port)

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None as long as it runs."""
        assert self._process is not None, "not started"
        return self._process.poll()

    def start(self) -> None:
        """Start, or start again, and wait until it is ready."""
        ready_file = self.folder / "ready.json"
        ready_file.unlink(missing_ok=True)
        where = [] if {"--ephemeral", "--data-dir"} & set(self.options) else ["--data-dir", str(self.data_dir)]
        listen = self.ready.get("kafka", "127.0.0.1:0")
        admin = self.ready.get("admin", "http://127.0.0.1:0").removeprefix("http://")
        command = [sys.executable, "-m", "coordinator", "serve", "--admin", admin]
        command += ["--listen", listen] if self.has_listen else []
        command += ["--ready-file", str(ready_file), *where, *self.options]
        if self.files_max is not None:
            command = ["sh", "-c", f'ulimit -n {self.files_max}; exec "$0" "$@"', *command]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=os.environ | self.environment
            )
        deadline = time.monotonic() + START_SECONDS
        while not ready_file.exists():
            assert self._process.poll() is None, f"the server ended with {self._process.poll()}:\n{self.log()[-4000:]}"
            assert time.monotonic() < deadline, f"the server is not ready:\n{self.log()[-4000:]}"
            time.sleep(0.01)
        self.ready = json.loads(ready_file.read_text())
        self._is_ended = False

    def kill(self) -> None:
        """SIGKILL: what a crash leaves."""
        process = self._to_end()
        process.kill()
        process.wait(STOP_SECONDS)
        self._reserve_ports()

    def stop(self, how: int = signal.SIGTERM) -> int:
        """Ask it to stop; its exit code."""
        process = self._to_end()
        process.send_signal(how)
        code = process.wait(STOP_SECONDS)
        self._reserve_ports()
        return code

    def _reserve_ports(self) -> None:
        """Let nobody else have the ports while the server is away."""
        if not self._has_reserved:
            addresses = [self.ready[name] for name in ("kafka", "admin") if self.ready.get(name)]
            self._reserved.enter_context(reserve_ports(*[int(address.rpartition(":")[2]) for address in addresses]))
            self._has_reserved = True

    def _to_end(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "not started"
        if not (self.may_fail or self._is_ended):
            assert self._process.poll() is None, f"the server had ended by itself:\n{self.log()[-4000:]}"
        self._is_ended = True
        return self._process

    def log(self) -> str:
        """What it printed, all runs together."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def errors(self) -> list[str]:
        """The lines of its log that tell of an error, and what a traceback begins with."""
        return [line for line in self.log().splitlines() if _ERROR.search(line)]

    def get(self, path: str) -> str:
        """What the admin port answers. Raises urllib.error.HTTPError for a refusal."""
        with urllib.request.urlopen(f"{self.ready['admin']}{path}", timeout=WAIT_SECONDS) as answer:
            return str(answer.read().decode())

    def steer(self, method: str, path: str, **body: Any) -> Any:
        """Call the control API. Raises AssertionError with the sentence of a refusal."""
        data = json.dumps(body).encode() if body else None
        request = urllib.request.Request(f"{self.ready['admin']}/v1{path}", data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=WAIT_SECONDS) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()}") from None

    def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that have these labels."""
        from prometheus_client.parser import text_string_to_metric_families

        samples = (one for family in text_string_to_metric_families(self.get("/metrics")) for one in family.samples)
        return sum(one.value for one in samples if one.name == name and labels.items() <= one.labels.items())

    def connect(self) -> socket.socket:
        """A bare connection, for bytes that no client sends."""
        return socket.create_connection(self.address, timeout=WAIT_SECONDS)


def server_fixture(*options: str, scope: Literal["function", "module"] = "module") -> Any:
    """A fixture: a server with these options, for all tests of a module or for each."""

    @pytest.fixture(scope=scope)
    def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Muster]:
        with Muster(tmp_path_factory.mktemp("muster"), *options) as server:
            yield server

    return serve
