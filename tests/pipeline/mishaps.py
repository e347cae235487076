"""Copies of a log that differ, and logs with mishaps."""

import random
import shutil
from pathlib import Path

from pipeline.decode.layout import TOPIC, log_dirs
from pipeline.decode.positions import newest
from pipeline.synth import Plan, Writer, commit, write_logs
from tests.pipeline.group_logs import flip


def with_epoch(file: Path, epoch: int) -> None:
    """Another leader epoch in the first batch; no checksum covers it."""
    data = bytearray(file.read_bytes())
    data[12:16] = epoch.to_bytes(4, "big")
    file.write_bytes(data)


def diverged_copies(root: Path) -> None:
    """The log of broker a is of epoch 7 and ends at 9; broker b was cut off in epoch 0, and wrote 10 and 11."""
    for broker, length, epoch in (("a", 10, 7), ("b", 12, 0)):
        writer = Writer(root / broker / f"{TOPIC}-0")
        for n in range(length):
            writer.append([commit(("g", "t", 0), n + (100 * epoch if n >= 4 else 0), 1000)])
        file = next((root / broker).rglob("*.log"))
        data = bytearray(file.read_bytes())
        size = len(data) // length
        for n in range(4, length):
            data[n * size + 12 : n * size + 16] = epoch.to_bytes(4, "big")
        file.write_bytes(data)


def with_mishaps(root: Path, seed: int, first: int = 0) -> None:
    """Two logs of two brokers, from partition `first` on, to which something happens that is not meant to happen."""
    dice = random.Random(seed)
    plan = Plan(seed=seed, prefix=f"group-{seed}-", records=300, groups=4, topics=2, topic_partitions=2, partitions=2, segment_bytes=5000, batch=(1, 8), txn_share=0.3, tombstone_share=0.05)  # fmt: skip
    write_logs(root / "new", plan)
    for partition in range(2):
        written = root / "new" / f"{TOPIC}-{partition}"
        for broker in "ab":
            shutil.copytree(written, root / broker / f"{TOPIC}-{first + partition}")
    shutil.rmtree(root / "new")
    for broker in "ab":
        for partition in range(2):
            directory = root / broker / f"{TOPIC}-{first + partition}"
            match dice.choice(("nothing", "cut", "flip", "diverge", "epoch", "stray", "lag behind")):
                case "cut":
                    file = dice.choice(sorted(directory.glob("*.log")))
                    file.write_bytes(file.read_bytes()[: dice.randrange(file.stat().st_size + 1)])
                case "flip":
                    file = dice.choice(sorted(file for file in directory.glob("*.log") if file.stat().st_size))
                    flip(file, dice.randrange(file.stat().st_size))
                case "diverge" | "epoch":
                    end = next_offset(directory)
                    writer = Writer(directory, first_offset=end)
                    for n in range(dice.randrange(1, 5)):
                        writer.append([commit((f"group-{seed}-{dice.randrange(4)}", "topic-0", 0), n, 1 << 41)])
                    if dice.random() < 0.5:
                        with_epoch(directory / f"{end:020d}.log", 3)
                case "stray":
                    stray = commit((f"stray-{seed}", "t", 0), 1, 1 << 41)
                    Writer(directory, first_offset=next_offset(directory)).append([stray])
                case "lag behind":
                    for file in sorted(directory.glob("*.log"))[-2:]:
                        file.unlink()


def next_offset(directory: Path) -> int:
    return newest(log_dirs([str(directory)])[0]).next_offset
