"""Released clients in transactions: what committed is read once, what aborted is not, and a worker that dies is fenced."""

import asyncio
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from tests.compat.consumers import produce, read
from tests.compat.copier import transactional
from tests.live import Muster, server_fixture

PARTITIONS = 2
RECORDS = 500
KILLS = (("worker",), ("server",), ("server", "worker"))
COPIERS_MAX = 40  # a kill costs one or two; each ends itself when it makes no progress


muster = server_fixture("--topic", f"in:{PARTITIONS}", "--topic", f"out:{PARTITIONS}", scope="function")


def with_confluent_kafka(bootstrap: str) -> None:
    producer = transactional(bootstrap)
    for number in range(4):
        producer.begin_transaction()
        producer.produce("out", f"{number}", partition=0)
        producer.flush(20)
        (producer.abort_transaction if number % 2 else producer.commit_transaction)(20)


def with_kafka_python(bootstrap: str) -> None:
    from kafka import KafkaProducer

    with KafkaProducer(bootstrap_servers=bootstrap, transactional_id="python") as producer:
        producer.init_transactions()
        for number in range(4):
            producer.begin_transaction()
            producer.send("out", str(number).encode(), partition=0).get(20)
            (producer.abort_transaction if number % 2 else producer.commit_transaction)()


def with_aiokafka(bootstrap: str) -> None:
    async def run() -> None:
        from aiokafka import AIOKafkaProducer

        async with AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="aio") as producer:
            for number in range(4):
                await producer.begin_transaction()
                await producer.send_and_wait("out", str(number).encode(), partition=0)
                await (producer.abort_transaction if number % 2 else producer.commit_transaction)()

    asyncio.run(asyncio.wait_for(run(), 60))


@pytest.mark.parametrize("write", [with_confluent_kafka, with_kafka_python, with_aiokafka])
def test_committed_records_are_read_and_aborted_ones_are_not(muster: Muster, write: Callable[[str], None]) -> None:
    write(muster.kafka)
    assert read(muster.kafka, "out", 2) == ["0", "2"]
    assert read(muster.kafka, "out", 4, "read_uncommitted") == ["0", "1", "2", "3"]


def test_a_second_instance_fences_the_first(muster: Muster) -> None:
    first = transactional(muster.kafka)
    first.begin_transaction()
    first.produce("out", "of the first", partition=0)
    first.flush(10)
    second = transactional(muster.kafka)
    second.begin_transaction()
    second.produce("out", "of the second", partition=0)
    second.commit_transaction(20)
    with pytest.raises(KafkaException) as refused:
        first.commit_transaction(20)
    assert refused.value.args[0].fatal()
    assert read(muster.kafka, "out", 1) == ["of the second"]


class Copier:
    """A worker in a process of its own (see `copier.py`). What it says on stderr is kept in a file."""

    def __init__(self, bootstrap: str, count: int, errors: Path) -> None:
        with errors.open("ab") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.compat.copier", bootstrap, str(count)],
                stdout=subprocess.PIPE,
                stderr=stderr,
            )

    def committed(self) -> int:
        """Wait for the next commit, and how many records it holds; 0 when none comes, for the worker has ended."""
        assert self._process.stdout is not None, "opened as a pipe"
        return int(self._process.stdout.readline() or 0)

    def end(self) -> int:
        """Let it come to its end; its exit code."""
        self._process.communicate()
        return self._process.returncode

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


class Copiers:
    """One copier after the other, not more than a few."""

    def __init__(self, bootstrap: str, errors: Path) -> None:
        self._bootstrap, self._errors, self.started = bootstrap, errors, 0

    def another(self) -> Copier:
        """Start the next one. Fails with what all of them said when there were too many."""
        self.started += 1
        assert self.started <= COPIERS_MAX, f"{COPIERS_MAX} copiers, and the copy is not done:\n{self.said()}"
        return Copier(self._bootstrap, RECORDS, self._errors)

    def said(self) -> str:
        """The end of what they said on stderr."""
        return self._errors.read_text(errors="replace")[-4000:]


def test_nobody_starts_copiers_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cap shows what they said: here, one that cannot read how many records there are."""
    monkeypatch.setattr("tests.compat.test_dataplane_transactions.COPIERS_MAX", 1)
    monkeypatch.setattr("tests.compat.test_dataplane_transactions.RECORDS", "many")
    copiers = Copiers("", tmp_path / "errors")
    assert copiers.another().committed() == 0
    with pytest.raises(AssertionError, match=r"ValueError.*many"):
        copiers.another()


def test_a_copy_loses_nothing_and_doubles_nothing_though_all_are_killed(muster: Muster, tmp_path: Path) -> None:
    """The worker, the server, or both, at moments that nobody chose: in the middle of whatever they do."""
    produce("confluent-kafka", muster.kafka, "in", PARTITIONS, map(str, range(RECORDS)))
    dice = random.Random(7)
    copiers = Copiers(muster.kafka, tmp_path / "copiers.stderr")
    copier, committed = copiers.another(), 0
    for victims in KILLS:
        for _ in range(dice.randrange(1, 25)):
            while not (records := copier.committed()):  # it met an error that it did not go on after
                copier = copiers.another()
            committed += records
        time.sleep(dice.random() / 100)
        if "worker" in victims:
            copier.kill()
        if "server" in victims:
            muster.kill()
            muster.start()
        if "worker" in victims:
            copier = copiers.another()
    assert committed < RECORDS, "there was work left to be disturbed at"
    while copier.end() != 0:
        copier = copiers.another()
    for partition in range(PARTITIONS):
        expected = [str(number) for number in range(partition, RECORDS, PARTITIONS)]
        assert read(muster.kafka, "out", len(expected), partitions=[partition]) == expected
