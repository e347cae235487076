"""A server process to be measured, and what the system says of it."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

TICKS = os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])


def cpu_seconds(pid: int) -> float:
    """What the process has used so far, by the system's own account."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def cpu_nanoseconds(pid: int) -> int:
    """The same to the nanosecond, of all its threads."""
    return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat"))


def resident_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))


def _with_port(command: list[str], port: int) -> list[str]:
    """The command with its port where it says {port}, or at its end."""
    words = [word.replace("{port}", str(port)) for word in command]
    return [*command, str(port)] if words == command else words


class RunningServer:
    """`muster serve`, or another command that listens on `port`, until the block ends."""

    def __init__(self, folder: Path, *options: str, command: list[str] | None = None, wait: bool = True) -> None:
        self.port = free_port()
        self.admin_port = free_port()
        self.kafka = f"127.0.0.1:{self.port}"
        self._wait = wait
        self.command = command and _with_port(command, self.port)
        if not self.command:
            self.command = [
                sys.executable,
                "-m",
                "coordinator",
                "serve",
                "--listen",
                self.kafka,
                "--admin",
                f"127.0.0.1:{self.admin_port}",
            ]
            self.command += ["--log-level", "error", "--data-dir", str(folder), *options]

    def __enter__(self) -> "RunningServer":
        assert self.command, "made by __init__"
        self._process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL)
        self.pid = self._process.pid
        while self._wait:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                break
            except ConnectionRefusedError:
                assert self._process.poll() is None, "the server ended"
                time.sleep(0.01)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(30)
