"""The log against the bare disk and against the bare bytes, all in one run; read the ratios.

    python -m benchmarks.log [--offsets 1000000] [--directory DIR]

1. group commit: fifty connections' commits in one append and one fsync, against an fsync for each write in a bare loop.
2. replay: recovery (every checksum and neighbour), then each record read and applied to a shard, against a bare scan:
   checksums compared, records stepped over.
3. compaction of all of it, against the same scan, with its longest step; once more when a third of it is new.

Reading and compacting are measured in seconds of this process's CPU, because the machine may have other things to do.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from coordinator.core import records
from coordinator.core.limits import Limits
from coordinator.core.records import OffsetCommitKey, OffsetCommitValue
from coordinator.core.shard import Shard
from coordinator.core.topics import Topics
from coordinator.runtime.loader import replay
from coordinator.runtime.partition import Partition
from protocol.record_batch import HEADER_BYTES, crc_of, encode
from protocol.records import Record
from storage import cleaner
from storage.log import Log
from storage.real_files import RealFiles

CONNECTIONS = 50
PARTITIONS = 10
NOW_MS = 1_700_000_000_000


def commit(number: int) -> list[Record]:
    """What one OffsetCommit of ten partitions writes; each number commits others."""
    group, topic = f"group-{number % 1000}", f"topic-{number // 1000}"
    value = OffsetCommitValue(number, 3, "", NOW_MS)
    facts = [records.Record(OffsetCommitKey(group, topic, partition), value) for partition in range(PARTITIONS)]
    return [Record(*records.encode(fact), timestamp=NOW_MS) for fact in facts]


def group_commit(directory: Path, seconds: float = 3.0) -> tuple[float, float]:
    """Commits a second, of the log and of the bare loop, the two taking turns on the same disk."""
    log = Log.open(RealFiles(), str(directory / "group-0"))
    bare = os.open(directory / "bare", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    batches = [encode(commit(number)) for number in range(CONNECTIONS)]
    ours = theirs = 0
    spent = {"ours": 0.0, "theirs": 0.0}
    while sum(spent.values()) < seconds:
        began = time.perf_counter()
        for _ in range(10):
            log.append(batches)
            log.sync()
            ours += CONNECTIONS
        between = time.perf_counter()
        for batch in batches:
            os.write(bare, batch)
            os.fdatasync(bare)
            theirs += 1
        spent["ours"] += between - began
        spent["theirs"] += time.perf_counter() - between
    os.close(bare)
    log.close()
    return ours / spent["ours"], theirs / spent["theirs"]


def cpu(work: Callable[[], object]) -> float:
    """Seconds of CPU that the work takes."""
    began = time.process_time()
    work()
    return time.process_time() - began


def fill(directory: str, offsets: int) -> None:
    log = Log.open(RealFiles(), directory)
    for number in range(offsets // PARTITIONS):
        log.append(encode(commit(number)))
    log.close()


def bare_scan(log: Log) -> int:
    """Checksums compared and records stepped over: the least that anything can do that wants to see each record."""
    count = 0
    for found in log.batches():
        data, at, header = found.chunk, found.at, found.header
        assert crc_of(data, at, header.size) == header.crc
        end, at = at + header.size, at + HEADER_BYTES
        while at < end:
            length = data[at]
            at += 1
            if length & 0x80:
                length = length & 0x7F | data[at] << 7
                at += 1
            at += length >> 1
            count += 1
    return count


def measure_compaction(log: Log) -> tuple[float, float, int]:
    """Seconds of CPU, the longest step in milliseconds of CPU, and the bytes that were read."""
    steps = cleaner.compact(log, NOW_MS)
    began = time.process_time()
    longest = 0.0
    while True:
        step = time.process_time()
        try:
            next(steps)
        except StopIteration as stop:
            return time.process_time() - began, longest * 1e3, stop.value.bytes_before
        longest = max(longest, time.process_time() - step)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--offsets", type=int, default=1_000_000)
    parser.add_argument("--directory", help="on the disk to be measured; the default is the one for temporary files")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as temporary:
        measure(Path(temporary), arguments.offsets)


def measure(directory: Path, offsets: int) -> None:
    """Print one line a measurement, with its ratio."""
    ours, theirs = group_commit(directory)
    row("group commit, commits/s", ours, "fsync a write", theirs, ours / theirs)

    path = str(directory / "__consumer_offsets-0")
    fill(path, offsets)
    log = Log.open(RealFiles(), path)
    size = log.size
    scan = min(cpu(lambda: bare_scan(log)) for _ in range(3))
    log.release()
    resting = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    partition = Partition(lambda write: Shard(0, Limits(), Topics(), write=write), lambda: Log.open(RealFiles(), path))
    recovered = cpu(partition.open)
    row("recovery, s", recovered, "bare scan", scan, recovered / scan)
    replayed = cpu(lambda: sum(replay(partition)))
    row("recovery and replay, s", recovered + replayed, "bare scan", scan, (recovered + replayed) / scan)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - resting) / 1024
    print(f"{'memory of the offsets, MiB':<32} {grown:>10.0f}   {grown * 2**20 / offsets:.0f} bytes each")

    for what in ("compaction", "compaction again, a third new"):
        seconds, longest, read = measure_compaction(partition.log)
        by_bytes = scan * read / size
        row(f"{what}, s", seconds, "bare scan", by_bytes, seconds / by_bytes)
        print(f"{'its longest step, ms of CPU':<32} {longest:>10.1f}")
        for number in range(offsets // PARTITIONS // 2):
            partition.log.append(encode(commit(number)))
    partition.log.close()


def row(what: str, ours: float, beside: str, theirs: float, ratio: float) -> None:
    print(f"{what:<32} {ours:>10.2f}   {beside:<14} {theirs:>10.2f}   x {ratio:.1f}")


if __name__ == "__main__":
    main()
