"""A server that is killed again and again while released clients commit (R4): what was acknowledged stays.

    python -m tests.compat.kills --rounds 1000 --seed 7 [--fsync]

Four committers, of two clients, each with a group of its own, commit ever greater offsets for all partitions of a topic
in one request. The server gets SIGKILL at a moment that the seed names, starts again on what is there, and is asked what
is committed: never less than what was acknowledged, never more than what was sent, and the same for all partitions, for
a request is in the log as a whole or not at all.

Clients that lose their server send again what was on the way, and that would hide what was lost before it. So the first
start after a kill listens where only witnesses connect: the same clients, which have never committed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from types import TracebackType

import confluent_kafka
import kafka

from tests.compat.consumers import librdkafka
from tests.live import WAIT_SECONDS, Muster

TOPIC, PARTITIONS = "orders", 4
KILL_AFTER_MS = (5, 250)
"""A round is killed so long after all of its committers have had an answer."""


class Confluent:
    """librdkafka with one group, which it is no member of: it commits an offset for all partitions, and asks, no more."""

    def __init__(self, address: str, group: str) -> None:
        timeouts = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 100, "socket.timeout.ms": 10_000}
        self._consumer = librdkafka(address, group, **timeouts, logger=_Silent())

    def commit(self, offset: int) -> None:
        told = self._consumer.commit(
            offsets=[confluent_kafka.TopicPartition(TOPIC, number, offset) for number in range(PARTITIONS)],
            asynchronous=False,
        )
        for one in told or ():
            if one.error is not None:
                raise confluent_kafka.KafkaException(one.error)

    def committed(self) -> list[int]:
        asked = [confluent_kafka.TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        told = self._consumer.committed(asked, timeout=5)
        for one in told:
            if one.error is not None:
                raise confluent_kafka.KafkaException(one.error)
        return [max(one.offset, 0) for one in told]  # below 0 is: nothing committed

    def close(self) -> None:
        self._consumer.close()


class KafkaPython:
    """The same with the client in Python."""

    def __init__(self, address: str, group: str) -> None:
        self._topic_partitions = [kafka.TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        self._consumer = kafka.KafkaConsumer(
            bootstrap_servers=address,
            group_id=group,
            enable_auto_commit=False,
            reconnect_backoff_ms=10,
            reconnect_backoff_max_ms=100,
            retry_backoff_ms=20,
            request_timeout_ms=10_000,
        )
        self._consumer.assign(self._topic_partitions)

    def commit(self, offset: int) -> None:
        self._consumer.commit(
            {one: kafka.structs.OffsetAndMetadata(offset, "", -1) for one in self._topic_partitions}, timeout_ms=10_000
        )

    def committed(self) -> list[int]:
        return [self._consumer.committed(one, timeout_ms=5_000) or 0 for one in self._topic_partitions]

    def close(self) -> None:
        self._consumer.close(autocommit=False)


class _Silent:
    """librdkafka tells of each lost connection; losing them is the point."""

    def log(self, *_: object) -> None: ...


Committing = Confluent | KafkaPython
ERRORS = (confluent_kafka.KafkaException, kafka.errors.KafkaError)
"""What the clients raise where a connection ends and where an answer is an error."""
CLIENTS: dict[str, Callable[[str, str], Committing]] = {"confluent-kafka": Confluent, "kafka-python": KafkaPython}


def committed_offsets(client: Committing) -> list[int]:
    """What the server says, as soon as the client has found it again."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            return client.committed()
        except ERRORS:
            assert time.monotonic() < deadline, "the server is not found again"
            time.sleep(0.02)


class Committer:
    """A client in a thread of its own that commits 1, 2, 3 and so on, as fast as it is answered, while it may."""

    def __init__(self, name: str, address: str, group: str) -> None:
        self.name = f"{name} {group}"
        self.acknowledged = 0
        self.sent = 0
        self.commits = 0
        self._client = CLIENTS[name](address, group)
        self._may = threading.Event()
        self._is_idle = threading.Event()
        self._is_over = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def go(self) -> None:
        self._may.set()

    def rest(self) -> None:
        """Return when the commit that is on its way is answered, or given up."""
        self._may.clear()
        assert self._is_idle.wait(WAIT_SECONDS), f"{self.name} hangs in a commit"

    def close(self) -> None:
        self._is_over = True
        self._may.set()
        self._thread.join(WAIT_SECONDS)
        self._client.close()

    def _run(self) -> None:
        while True:
            if not self._may.is_set():
                self._is_idle.set()
                self._may.wait()
            if self._is_over:
                return
            self._is_idle.clear()
            self.sent += 1
            try:
                self._client.commit(self.sent)
            except ERRORS:
                time.sleep(0.01)
            else:
                self.acknowledged = self.sent
                self.commits += 1


class Campaign:
    """One data directory, and two servers that run on it in turns: the one that is killed, and the witnesses'."""

    def __init__(self, folder: Path, seed: int, *options: str) -> None:
        everywhere = ("--topic", f"{TOPIC}:{PARTITIONS}", "--data-dir", str(folder / "data"))
        (folder / "witnessed").mkdir()
        self.server = Muster(folder, *everywhere, *options)
        self.witnessed = Muster(folder / "witnessed", *everywhere)
        self.where = f"seed {seed}"
        self._dice = Random(seed)
        self._committers: list[Committer] = []
        self._witnesses: list[Committing] = []

    def __enter__(self) -> Campaign:
        groups = {f"group-{number}": name for number, name in enumerate([*CLIENTS, *CLIENTS])}
        self.witnessed.__enter__()  # the clients in Python want to see a server when they are made
        self._witnesses += [CLIENTS[name](self.witnessed.kafka, group) for group, name in groups.items()]
        self.witnessed.kill()
        self.server.__enter__()
        self._committers += [Committer(name, self.server.kafka, group) for group, name in groups.items()]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:  # else the server may be away, and clients would wait for it: see `main`
            for one in (*self._committers, *self._witnesses):
                one.close()
        self.witnessed.__exit__(kind, error, traceback)
        self.server.__exit__(kind, error, traceback)

    @property
    def commits(self) -> int:
        """How many were acknowledged."""
        return sum(committer.commits for committer in self._committers)

    def round(self) -> None:
        """Commit, kill, look. Raises AssertionError where something acknowledged is missing."""
        self._let_commit()
        time.sleep(self._dice.uniform(*KILL_AFTER_MS) / 1000)
        self.server.kill()
        self.witnessed.start()
        told = [committed_offsets(witness) for witness in self._witnesses]
        self.witnessed.kill()
        # No server of theirs has run since, so all that they were told was told before the kill.
        found = [
            f"{self.where}: {committer.name}: {problem}"
            for committer, offsets in zip(self._committers, told, strict=True)
            if (problem := wrong(committer.acknowledged, committer.sent, offsets))
        ]
        self.server.start()
        for committer in self._committers:
            committer.rest()
        assert not found, found

    def _let_commit(self) -> None:
        """Return when each of them has been answered since."""
        before = [committer.commits for committer in self._committers]
        for committer in self._committers:
            committer.go()
        deadline = time.monotonic() + WAIT_SECONDS
        while not all(one.commits > had for one, had in zip(self._committers, before, strict=True)):
            assert time.monotonic() < deadline, f"{self.where}: not everyone is answered"
            time.sleep(0.005)


def wrong(acknowledged: int, sent: int, offsets: Sequence[int]) -> str | None:
    """What is wrong with the offsets that a server names after a kill, if anything is."""
    if len(set(offsets)) != 1:
        return f"half of a commit is there, {offsets}"
    if offsets[0] < acknowledged:
        return f"{offsets[0]} is committed, but {acknowledged} was acknowledged"
    if offsets[0] > sent:
        return f"{offsets[0]} is committed, but only {sent} was sent"
    return None


def rounds(folder: Path, count: int, seed: int, *options: str) -> int:
    """Kill a server so many times. Returns how many commits were acknowledged; raises AssertionError for a loss.

    Clients whose server is away go on looking for it: `kill_in_process` ends them.
    """
    with Campaign(folder, seed, *options) as campaign:
        for number in range(1, count + 1):
            campaign.where = f"seed {seed}, round {number}"
            campaign.round()
        return campaign.commits


def kill_in_process(count: int, seed: int, *options: str, path: Path | None = None) -> tuple[int, str]:
    """Kill a server so many times, by clients of another process. Returns its exit code and what it printed.

    `path`: a folder with modules that the server imports.
    """
    command = [sys.executable, "-m", "tests.compat.kills", "--rounds", str(count), "--seed", str(seed), *options]
    environment = os.environ | ({"PYTHONPATH": f"{path}:{Path.cwd()}"} if path else {})
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    return done.returncode, done.stdout + done.stderr


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    parser.add_argument("--fsync", action="store_true")
    arguments = parser.parse_args()
    began = time.monotonic()
    commits: int | None = None
    print(f"seed {arguments.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        options = [*["--fsync"] * arguments.fsync, "--log-level", "error"]
        try:
            commits = rounds(Path(folder), arguments.rounds, arguments.seed, *options)
        except AssertionError as problem:
            print(problem, flush=True)
    if commits is None:
        os._exit(1)  # without waiting for the clients
    seconds = time.monotonic() - began
    print(f"{arguments.rounds:,} kills, {commits:,} acknowledged commits in {seconds:.0f} s, nothing lost")


if __name__ == "__main__":
    main()
