"""How long a start takes, and what the server weighs at rest.

    python -m benchmarks.start [--runs 9]

Time from spawning `muster serve` to its first ApiVersions answer, against `python -c "import trio"` by the same
interpreter, in turns in one run; and the CPU of both, which is steadier on a busy machine. Aims: at most 1.5 times
that; at most 36 MiB at rest.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks.server import RunningServer, cpu_nanoseconds, resident_mib
from coordinator.client import Client, ClientError
from protocol.messages.api_versions import ApiVersionsRequest


class Start(NamedTuple):
    """Seconds that a start took, by the clock and of CPU."""

    wall: float
    cpu: float


def import_trio() -> Start:
    """Measure the interpreter: it starts, imports Trio and ends."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", "import trio"], check=True)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Start(wall, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)


def first_answer(folder: Path) -> Start:
    """Measure the server, from spawning it to its first answer."""
    began = time.perf_counter()
    with RunningServer(folder, wait=False) as server:
        while True:
            try:
                with Client.to(server.kafka) as client:
                    client.ask(ApiVersionsRequest("benchmark", "1"), version=3)
                return Start(time.perf_counter() - began, cpu_nanoseconds(server.pid) / 1e9)
            except ClientError:
                time.sleep(0.001)


def at_rest(folder: Path) -> float:
    """MiB that are resident a second after the server is ready."""
    with RunningServer(folder) as server:
        time.sleep(1)
        return resident_mib(server.pid)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=9)
    runs = parser.parse_args().runs
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode, so both sides have theirs
    with tempfile.TemporaryDirectory() as name:
        os.environ["PYTHONPYCACHEPREFIX"] = f"{name}/bytecode"
        folders = (Path(name) / str(number) for number in range(runs + 2))
        sides: tuple[Callable[[], Start], Callable[[], Start]] = (lambda: first_answer(next(folders)), import_trio)
        for side in sides:
            side()  # once without counting: files come from the disk
        pairs = [(sides[0](), sides[1]()) for _ in range(runs)]
        rest = at_rest(next(folders))
    for index, kind in enumerate(Start._fields):
        ours, trio = (statistics.median(times) for times in zip(*((a[index], b[index]) for a, b in pairs), strict=True))
        ratio = statistics.median(mine[index] / theirs[index] for mine, theirs in pairs)
        print(f"start to first answer, {kind:<4}  {ours * 1000:6.0f} ms")
        print(f"import trio, {kind:<4}            {trio * 1000:6.0f} ms   ratio {ratio:.2f} (aim: at most 1.5)")
    print(f"memory at rest               {rest:6.1f} MiB (aim: at most 36)")


if __name__ == "__main__":
    main()
