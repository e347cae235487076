"""A server process for a test run: found, started, stopped."""

import json
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pytest_muster.admin import MusterError

START_S: Final = 60.0
STOP_S: Final = 10.0
JOURNAL_BYTES: Final = 16 << 20
LOG_END: Final = 2_000  # characters of the log that an error shows


def find_command(command: str = "") -> list[str]:
    """Return the words of the `muster` command: as it is given, beside this Python, or on the PATH."""
    if command:
        return shlex.split(command)
    beside = Path(sys.executable).with_name("muster")
    found = str(beside) if beside.exists() else shutil.which("muster")
    if found is None:
        raise MusterError(
            "there is no command muster: install kafka-muster beside pytest-muster, or put it on the PATH, "
            "name the command in the ini file (muster_command), or set MUSTER_ADMIN to a running server"
        )
    return [found]


class Server:
    """A server that keeps everything in memory, on free ports of the loopback interface."""

    def __init__(self, folder: Path, options: Sequence[str] = (), command: str = "") -> None:
        self._folder = folder
        self._log = folder / "muster.log"
        self._words = [*find_command(command), "serve", "--ephemeral", "--exit-with-stdin"]
        self._words += ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]
        self._words += ["--set", f"journal.max.bytes={JOURNAL_BYTES}", *options]
        self._process: subprocess.Popen[bytes] | None = None
        self.bootstrap = ""
        self.admin = ""

    def start(self) -> None:
        """Start the process, and return once it is ready. Raises MusterError.

        Its standard input is a pipe that ends with this process, even if that is killed, and then the server stops.
        """
        ready_file = self._folder / "ready.json"
        with self._log.open("ab") as log:
            try:
                self._process = subprocess.Popen(
                    [*self._words, "--ready-file", str(ready_file)], stdin=subprocess.PIPE, stdout=log, stderr=log
                )
            except OSError as error:
                raise MusterError(f"cannot run {self._words[0]}: {error.strerror}") from None
        deadline_s = time.monotonic() + START_S
        while not ready_file.exists():
            if (code := self._process.poll()) is not None:
                raise MusterError(f"{shlex.join(self._words)} has ended with exit code {code}: {self.log()}")
            if time.monotonic() > deadline_s:
                self.stop()
                raise MusterError(f"{shlex.join(self._words)} was not ready within {START_S:.0f} s: {self.log()}")
            time.sleep(0.005)
        ready: dict[str, Any] = json.loads(ready_file.read_text("utf-8"))
        first, *_ = names = ready["names"]  # each broker has a listener of that name
        self.bootstrap = ",".join(one for one, name in zip(ready["listeners"], names, strict=True) if name == first)
        if ready["admin"] is None:
            self.stop()
            raise MusterError("the server has no admin port: take --admin off out of muster_options")
        self.admin = ready["admin"]

    def stop(self) -> None:
        """End the process."""
        if self._process is None:
            return
        self._process.terminate()
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def log(self) -> str:
        """Return the end of what the process has printed."""
        return self._log.read_text("utf-8", errors="replace")[-LOG_END:]
