"""A healthy member in a process of its own, which sends a heartbeat every 20 ms until its standard input ends.

    python -m benchmarks.member HOST:PORT PID [FILE]

FILE has settings for TLS and SASL, as `muster --command-config` takes them.
Then it prints JSON: how many milliseconds each heartbeat took by the wall clock, and how much processor time the
server's process used meanwhile, without the time in which the machine did not let the member run: the server goes on
with other work then. That is the server's own time, to which a busy machine adds little.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

from coordinator.client import Client
from coordinator.client.command_config import CommandConfig
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.sync_group import SyncGroupRequest

PERIOD_S = 0.020
SESSION_MS = 6_000
_SCHED = 2  # of the three clocks that Linux has for each process, the one in nanoseconds: see clock_getcpuclockid(3)


def cpu_ms(pid: int) -> float:
    """The processor time of another process on Linux, to the microsecond."""
    return 1e3 * time.clock_gettime((~pid << 3) | _SCHED)


def delay_ms() -> float:
    """How long this process has waited for a processor so far; always 0 where the system does not say so."""
    try:
        return int(Path("/proc/self/schedstat").read_bytes().split()[1]) / 1e6
    except OSError:
        return 0.0


class Heartbeats(NamedTuple):
    """How long heartbeats took, in milliseconds: by the wall clock, and in processor time of the server."""

    wall_ms: Sequence[float]
    own_ms: Sequence[float]
    errors: int


def p99(values: Sequence[float]) -> float:
    """The value that one in a hundred exceeds."""
    return sorted(values)[len(values) * 99 // 100]


class Member:
    """The process, while the block lasts; afterwards `heartbeats` are its."""

    heartbeats: Heartbeats

    def __init__(self, address: str, pid: int, command_config: Path | None = None) -> None:
        self._command = [sys.executable, "-m", "benchmarks.member", address, str(pid)]
        self._command += [str(command_config)] if command_config else []

    def __enter__(self) -> Member:
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None, "it is a pipe"
        assert self._process.stdout.readline() == b"joined\n", "the member has not joined"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        found, _ = self._process.communicate(timeout=300)
        if error is None:
            assert self._process.returncode == 0, "the member has failed"
            self.heartbeats = Heartbeats(*json.loads(found))


def main() -> None:
    address, pid = sys.argv[1], int(sys.argv[2])
    is_over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), is_over.set()), daemon=True).start()
    wall_ms: list[float] = []
    own_ms: list[float] = []
    errors = 0
    security = CommandConfig(sys.argv[3], 30.0) if len(sys.argv) > 3 else None
    with Client.to(address, security=security) as client:
        protocols = (JoinGroupRequestProtocol("range", b""),)
        joined = client.ask(JoinGroupRequest("healthy", SESSION_MS, 6_000, "", None, "consumer", protocols), version=3)
        client.ask(SyncGroupRequest("healthy", joined.generation_id, joined.member_id), version=3)
        beat = HeartbeatRequest("healthy", joined.generation_id, joined.member_id)
        print("joined", flush=True)
        while not is_over.wait(PERIOD_S):
            sent, before = time.perf_counter(), cpu_ms(pid) - delay_ms()
            errors += client.ask(beat, version=4).error_code != 0
            own_ms.append(max(0.0, cpu_ms(pid) - delay_ms() - before))
            wall_ms.append(1e3 * (time.perf_counter() - sent))
    json.dump((wall_ms, own_ms, errors), sys.stdout)


if __name__ == "__main__":
    main()
