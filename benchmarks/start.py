"""How long a start takes, and what the server weighs at rest.

    python -m benchmarks.start [--runs 9]

Time from spawning `muster serve` to its first ApiVersions answer, against `python -c "import trio"` by the same
interpreter, in turns in one run. Aims: at most 3 times that; at most 45 MiB at rest.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.server import RunningServer, resident_mib
from coordinator.client import Client, ClientError
from protocol.messages.api_versions import ApiVersionsRequest


def import_trio() -> float:
    """Seconds that the interpreter takes to start, import Trio and end."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import trio"], check=True)
    return time.perf_counter() - began


def first_answer(folder: Path) -> float:
    """Seconds from spawning the server to its first answer."""
    began = time.perf_counter()
    with RunningServer(folder, wait=False) as server:
        while True:
            try:
                with Client.to(server.kafka) as client:
                    client.ask(ApiVersionsRequest("benchmark", "1"), version=3)
                return time.perf_counter() - began
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
        sides: tuple[Callable[[], float], Callable[[], float]] = (lambda: first_answer(next(folders)), import_trio)
        for side in sides:
            side()  # once without counting: files come from the disk
        pairs = [(sides[0](), sides[1]()) for _ in range(runs)]
        rest = at_rest(next(folders))
    ours, trio = (statistics.median(times) for times in zip(*pairs, strict=True))
    ratio = statistics.median(mine / theirs for mine, theirs in pairs)
    print(f"start to first answer  {ours * 1000:6.0f} ms")
    print(f"import trio            {trio * 1000:6.0f} ms   ratio {ratio:.2f} (aim: at most 3)")
    print(f"memory at rest         {rest:6.1f} MiB (aim: at most 45)")


if __name__ == "__main__":
    main()
