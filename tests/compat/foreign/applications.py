"""Kafka Streams applications of two instances, by both group protocols: a word count with a store, and a join.

Instances are closed and killed, the server is killed, a topic grows; everything is processed exactly once, so at the end
each count is right and each pair is there once.
"""

import json
import subprocess
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from tests.compat.consumers import produce
from tests.compat.foreign.clients import BUILD_SECONDS, PROGRAMS, run_tool
from tests.compat.foreign.report import Report
from tests.conformance import kafka
from tests.live import Muster, wait_until

PROTOCOLS = ("streams", "classic")
WORDS = [f"word-{number}" for number in range(20)]
PARTITIONS = 3
AGAIN = 4  # partitions of the repartition topic, as the topology says
WAIT_SECONDS = 120.0
SETTINGS = (
    "group.streams.min.session.timeout.ms=6000",
    "group.streams.session.timeout.ms=6000",
    "group.streams.min.heartbeat.interval.ms=200",
    "group.streams.heartbeat.interval.ms=200",
    "group.streams.assignment.interval.ms=200",
    "group.streams.initial.rebalance.delay.ms=0",
    "group.streams.num.standby.replicas=1",
)
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
  <groupId>local</groupId><artifactId>streams</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-streams</artifactId><version>{version}</version></dependency>
  </dependencies>
</project>
"""


def install(cache: Path) -> list[str]:
    """Fetch the library, compile the program, and return the command."""
    jars, classes = cache / f"kafka-streams-{kafka.VERSION}", cache / "java-streams"
    classes.mkdir(parents=True, exist_ok=True)
    if not (jars / f"kafka-streams-{kafka.VERSION}.jar").exists():
        (classes / "pom.xml").write_text(POM.format(version=kafka.VERSION))
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
        subprocess.run(["mvn", "-q", *goal], cwd=classes, check=True, timeout=BUILD_SECONDS)
    path = f"{jars}/*"
    run_tool(["javac", "-cp", path, "-d", str(classes), str(PROGRAMS / "java" / "Applications.java")], classes)
    return [
        "java",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Xmx160M",
        "-cp",
        f"{classes}:{path}",
        "Applications",
    ]


class Instance:
    """A process of an application, and what it has said so far."""

    def __init__(self, command: list[str], *words: str) -> None:
        self.active: list[str] = []
        self.standby: list[str] = []
        self.states: list[str] = []
        self.errors: list[str] = []
        self._process = subprocess.Popen(
            [*command, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def close(self) -> None:
        """Close the application as a user would."""
        assert self._process.stdin is not None, "opened as a pipe"
        self._process.stdin.close()
        self._process.wait(60)
        self._forget()

    def kill(self) -> None:
        """It says farewell to nobody."""
        self._process.kill()
        self._process.wait(30)
        self._forget()

    def _forget(self) -> None:
        self._reader.join(5)
        self.active = self.standby = []

    def _listen(self) -> None:
        assert self._process.stdout is not None, "opened as a pipe"
        for line in self._process.stdout:
            said = json.loads(line)
            if "tasks" in said:
                self.active, self.standby = said["tasks"]["active"], said["tasks"]["standby"]
            self.states += [said["state"]] if "state" in said else []
            self.errors += [said["error"]] if "error" in said else []


class Application:
    """One application on a server of its own."""

    def __init__(self, command: list[str], topology: str, protocol: str, muster: Muster, folder: Path) -> None:
        self.command, self.topology, self.protocol, self.muster, self.folder = (
            command,
            topology,
            protocol,
            muster,
            folder,
        )

    @contextmanager
    def instance(self, name: str) -> Iterator[Instance]:
        directory = str(self.folder / name)
        one = Instance(self.command, self.topology, self.muster.kafka, "app", self.protocol, "1", directory)
        try:
            yield one
        finally:
            one.kill()


def run(cache: Path, report: Report) -> None:
    command: list[str] = []
    with report.check(f"kafka-streams {kafka.VERSION}: installed"):
        command = install(cache)
    if command:
        for protocol in PROTOCOLS:
            with _server("words", "counts") as (muster, folder):
                word_count(Application(command, "count", protocol, muster, folder), report)
            with _server("left", "right", "pairs") as (muster, folder):
                join(Application(command, "join", protocol, muster, folder), report)


@contextmanager
def _server(*topics: str) -> Iterator[tuple[Muster, Path]]:
    options = [f"--topic={topic}:{PARTITIONS}" for topic in topics] + [f"--set={one}" for one in SETTINGS]
    with tempfile.TemporaryDirectory() as home, Muster(Path(home), *options) as muster:
        yield muster, Path(home)


def word_count(application: Application, report: Report) -> None:
    muster, what = application.muster, f"kafka-streams {application.protocol} word count"
    expected: Counter[str] = Counter()

    def write(count: int, partitions: int = PARTITIONS) -> None:
        values = [WORDS[number % len(WORDS)] for number in range(count)]
        produce("confluent-kafka", muster.kafka, "words", partitions, values)
        expected.update(values)

    def is_counted() -> bool:
        return latest_counts(muster.kafka) == expected

    with ExitStack() as stack:
        a = stack.enter_context(application.instance("a"))
        with report.check(f"{what}: one instance has all tasks, and counts"):
            wait_for_tasks([a], PARTITIONS + AGAIN)
            write(200)
            wait_until("all is counted", is_counted, WAIT_SECONDS)
        b = stack.enter_context(application.instance("b"))
        with report.check(f"{what}: two instances share the tasks, each with standbys for the other's"):
            wait_for_tasks([a, b], PARTITIONS + AGAIN)
            wait_until("each has standbys for the other", lambda: stand_by_each_other(a, b), WAIT_SECONDS)
            write(200)
            wait_until("all is counted", is_counted, WAIT_SECONDS)
        with report.check(f"{what}: one is closed, the other takes over"):
            b.close()
            wait_for_tasks([a], PARTITIONS + AGAIN)
            write(200)
            wait_until("all is counted", is_counted, WAIT_SECONDS)
        c = stack.enter_context(application.instance("c"))
        with report.check(f"{what}: the server is killed and comes back"):
            wait_for_tasks([a, c], PARTITIONS + AGAIN)
            muster.kill()
            muster.start()
            write(200)
            wait_until("all is counted", is_counted, WAIT_SECONDS)
        with report.check(f"{what}: the topic grows, and there are tasks for its new partitions"):
            admin = AdminClient({"bootstrap.servers": muster.kafka, "log_level": 4})
            admin.create_partitions([NewPartitions("words", PARTITIONS + 2)])["words"].result(20)
            wait_for_tasks([a, c], PARTITIONS + 2 + AGAIN)
            write(200, PARTITIONS + 2)
            wait_until("all is counted", is_counted, WAIT_SECONDS)
        with report.check(f"{what}: one is killed, the other takes over when its session ends"):
            write(200, PARTITIONS + 2)
            a.kill()
            write(200, PARTITIONS + 2)
            wait_for_tasks([c], PARTITIONS + 2 + AGAIN)
            wait_until("all is counted", is_counted, WAIT_SECONDS)


def join(application: Application, report: Report) -> None:
    muster = application.muster
    keys = [str(number) for number in range(120)]
    with (
        ExitStack() as stack,
        report.check(
            f"kafka-streams {application.protocol} join: each pair is written once, though an instance is killed"
        ),
    ):
        a = stack.enter_context(application.instance("a"))
        b = stack.enter_context(application.instance("b"))
        wait_for_tasks([a, b], PARTITIONS)
        write_keyed(muster.kafka, "left", keys[:60])
        write_keyed(muster.kafka, "right", keys[:60])
        wait_until("some are joined", lambda: len(pairs(muster.kafka)) >= 60, WAIT_SECONDS)
        write_keyed(muster.kafka, "left", keys[60:])
        b.kill()
        write_keyed(muster.kafka, "right", keys[60:])
        wait_for_tasks([a], PARTITIONS)
        wait_until("all are joined", lambda: len(pairs(muster.kafka)) >= len(keys), WAIT_SECONDS)
        assert pairs(muster.kafka) == Counter(f"{key}+{key}" for key in keys)


def wait_for_tasks(instances: list[Instance], count: int) -> None:
    """Wait until each of so many tasks is active at one of the instances, and each of these has some."""

    def is_shared() -> bool:
        active = [task for one in instances for task in one.active]
        return len(active) == len(set(active)) == count and all(one.active for one in instances)

    wait_until(f"{len(instances)} instances share {count} tasks", is_shared, WAIT_SECONDS)


def stand_by_each_other(a: Instance, b: Instance) -> bool:
    """Return whether each task with state has its standby at the other instance."""
    return all(
        set(one.standby) == {task for task in other.active if task.startswith("1_")} for one, other in ((a, b), (b, a))
    )


def latest_counts(bootstrap: str) -> Counter[str]:
    """The latest count of each word, of what is committed."""
    found: dict[str, int] = {}
    for key, value in _committed_records(bootstrap, "counts"):
        found[key] = int(value)
    return Counter(found)


def pairs(bootstrap: str) -> Counter[str]:
    return Counter(value for _, value in _committed_records(bootstrap, "pairs"))


def _committed_records(bootstrap: str, topic: str) -> list[tuple[str, str]]:
    settings = {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False, "log_level": 4}
    consumer = Consumer({**settings, "isolation.level": "read_committed", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found: list[tuple[str, str]] = []
    ends = 0
    while ends < PARTITIONS:
        message = consumer.poll(5.0)
        if message is None:
            break
        if message.error():
            ends += 1
            continue
        found.append(((message.key() or b"").decode(), (message.value() or b"").decode()))
    consumer.close()
    return found


def write_keyed(bootstrap: str, topic: str, keys: list[str]) -> None:
    """Write each key with itself as the value, to the partition that the key falls on."""
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2", "log_level": 4})
    for key in keys:
        producer.produce(topic, key=key, value=key)
    assert not producer.flush(60), f"not all of {topic} is written"
