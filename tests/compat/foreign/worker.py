"""Exactly once: a copy loop with transactions, whose server and whose worker are killed in turn.

The worker reads a batch, writes it to another topic and sends its offsets in the same transaction. What is in that
topic for readers of committed records must be what was in the first: each once.
"""

from collections import Counter
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.compat.consumers import Member, produce, read, wait_until
from tests.compat.foreign.report import Report
from tests.compat.foreign.story import PARTITIONS, SETTINGS, committed_offsets
from tests.live import Muster

ROUNDS = 8
RECORDS = 100
WAIT_SECONDS = 60.0


def run(name: str, command: list[str], protocol: str, report: Report) -> None:
    options = [f"--topic={topic}:{PARTITIONS}" for topic in ("in", "out")] + [f"--set={one}" for one in SETTINGS]
    what = f"{name} {protocol}: each record is copied once though server and worker are killed, {ROUNDS} kills"
    with TemporaryDirectory() as folder, Muster(Path(folder), *options) as muster, report.check(what):
        words = ("work", muster.kafka, "copiers", "in", "out", protocol)
        worker = Member(*words, command=command)
        try:
            for number in range(ROUNDS):
                before = done(muster)
                values = (str(value) for value in range(number * RECORDS, (number + 1) * RECORDS))
                produce("confluent-kafka", muster.kafka, "in", PARTITIONS, values)
                wait_until("the worker goes on", partial(has_done, muster, before + 1), WAIT_SECONDS)
                if number % 2:
                    worker.kill()
                    worker = Member(*words, command=command)
                else:
                    muster.kill()
                    muster.start()
            wait_until("all is done", partial(has_done, muster, ROUNDS * RECORDS), WAIT_SECONDS)
        finally:
            worker.kill()
        found = Counter(read(muster.kafka, "out", ROUNDS * RECORDS, partitions=range(PARTITIONS)))
        assert found == Counter(str(number) for number in range(ROUNDS * RECORDS)), unequal(found)


def done(muster: Muster) -> int:
    return sum(committed_offsets(muster.kafka, "copiers", "in"))


def has_done(muster: Muster, count: int) -> bool:
    return done(muster) >= count


def unequal(found: Counter[str]) -> str:
    twice = sum(1 for count in found.values() if count > 1)
    return f"{len(found)} of {ROUNDS * RECORDS} are there, {twice} of them more than once"
