"""How long a heartbeat waits while the server loads a long log, and while it compacts it.

    python -m benchmarks.stalls [--offsets 1000000] [--directory DIR]

One partition of `__consumer_offsets` holds so many live offsets, none of them compacted yet. The server is started on
it, and one connection sends a Heartbeat as soon as the last one was answered: while the log is read and replayed, while
all of it is compacted, which a server begins as soon as it has loaded, and for some seconds afterwards, when nothing
else happens: that is what the machine itself does to such a client. Aim: none waits for more than 100 ms.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.log import fill
from benchmarks.server import Served
from coordinator.client import Client
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from storage import checkpoint
from storage.files import RealFiles

IDLE_S = 3.0
PATIENCE_S = 300.0


def waits(client: Client, is_over: Callable[[], bool]) -> list[float]:
    """Milliseconds that each Heartbeat took, until it is over, which is asked ten times a second."""
    found: list[float] = []
    began = asked = time.monotonic()
    while True:
        sent = time.perf_counter()
        client.ask(HeartbeatRequest("group-0", 1, "nobody"), version=4)
        found.append(1e3 * (time.perf_counter() - sent))
        if (now := time.monotonic()) >= asked + 0.1:
            if is_over():
                return found
            asked = now
            assert now < began + PATIENCE_S, "it takes too long"


def row(what: str, found: list[float]) -> None:
    inner = sorted(found)
    print(f"{what:28}{sum(found) / 1e3:>8.1f}{len(found):>12,}{inner[len(inner) * 99 // 100]:>10.1f}{inner[-1]:>10.1f}")


def measure(folder: Path, offsets: int) -> None:
    """Print one line a phase."""
    directory = str(folder / "__consumer_offsets-0")
    fill(directory, offsets)

    def is_compacted() -> bool:
        found = checkpoint.decode(checkpoint.read(RealFiles(), directory) or b"")
        return found is not None and found.cleaned_to > 0

    print(f"{'':28}{'seconds':>8}{'heartbeats':>12}{'p99, ms':>10}{'longest':>10}")
    served = Served(folder, "--set", "offsets.topic.num.partitions=1")
    with served as server, Client.to(server.kafka) as client, Client.to(server.kafka) as other:
        asking = OffsetFetchRequest("group-0", (OffsetFetchRequestTopic("topic-0", (0,)),))
        row("loading", waits(client, lambda: not other.ask(asking, version=6).error_code))
        row("compacting", waits(client, is_compacted))
        end = time.monotonic() + IDLE_S
        row("nothing else to do", waits(client, lambda: time.monotonic() > end))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--offsets", type=int, default=1_000_000)
    parser.add_argument("--directory", help="on the disk to be measured; the default is the one for temporary files")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as folder:
        measure(Path(folder), arguments.offsets)


if __name__ == "__main__":
    main()
