"""Commit offsets on a cluster, and measure how fast Spark reads them: by `kafkalog`, and by its own Kafka source.

The rates count only if both have read everything: the last line has the rows of each, and the exit code is 1 otherwise.

MUSTER_SPARK_JARS names a directory with the jars of Spark's source; without it, only `kafkalog` is measured. Both read the
same topic one after the other, so that their ratio counts: by the clock, and, where the machine has other things to do, by
the processor. The most memory that one process of Spark's Java or Python has taken since the start stands beside them.
"""

import os
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Thread
from typing import Any, Self

from confluent_kafka.admin import AdminClient, NewTopic

from coordinator.cli.cluster import Cluster
from pipeline.decode.layout import TOPIC
from pipeline.session import Settings, session
from pipeline.source import register
from tests.conformance.kafka import Broker
from tests.pipeline.staged.follower import make_topic_of_groups
from tests.requests import commit

SETTINGS = {
    "offsets.topic.num.partitions": "50",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.enable": "false",
}
GROUPS, PARTITIONS, ROUNDS, WRITERS = 250, 100, 3, 4
LOOK_S = 0.5
SEVEN = (  # as many as Spark's own source has, of which the key and the value are bytes
    "`group` string, topic string, `partition` int, committed_offset bigint, commit_ts bigint, log_partition int,"
    " log_offset bigint"
)
# With Kafka's admin client, which it takes by default, Spark's source leaves out internal topics, whether they are
# named or assigned (ConsumerStrategy.retrieveAllPartitions), and reads nothing. With a consumer it reads them.
OF_INTERNAL_TOPICS = ("spark.sql.streaming.kafka.useDeprecatedOffsetFetching", "true")


def check(broker: Broker, commits: int) -> int:
    """Commit and measure; print rates in rows a second. Return how many readers did not read everything."""
    address = f"127.0.0.1:{broker.port}"
    admin = AdminClient({"bootstrap.servers": address})
    for future in admin.create_topics([NewTopic("orders", PARTITIONS, 1)]).values():
        future.result(60)
    make_topic_of_groups(address)
    began_s = time.monotonic()
    write(address, commits)
    print(f"  committed in {time.monotonic() - began_s:.0f} s", flush=True)
    directory = os.environ.get("MUSTER_SPARK_JARS")
    jars = ",".join(str(jar) for jar in Path(directory).glob("*.jar")) if directory else ""
    conf = (("spark.jars", jars), OF_INTERNAL_TOPICS) if jars else ()
    spark = session(settings=Settings("local[2]", "1g", None, conf=conf))
    register(spark)
    readers: dict[str, Callable[[], Any]] = {
        "kafkalog, all columns": lambda: spark.read.format("kafkalog").load(f"kafka://{address}"),
        "kafkalog, seven columns": lambda: spark.read.format("kafkalog").schema(SEVEN).load(f"kafka://{address}"),
    }
    if jars:
        options = {"kafka.bootstrap.servers": address, "subscribe": TOPIC, "startingOffsets": "earliest"}
        readers["Spark's own source, seven columns"] = lambda: spark.read.format("kafka").options(**options).load()
    with Usage() as usage:
        for number in range(ROUNDS):
            for name, read in readers.items():
                began_s, used_s = time.monotonic(), usage.processor_s()
                read().write.format("noop").mode("overwrite").save()
                took_s, used_s = time.monotonic() - began_s, usage.processor_s() - used_s
                rate = f"{commits / took_s:,.0f} a second, {took_s:.1f} s, {used_s:.1f} s of the processor"
                print(f"  {number + 1}: {name}: {rate}; at most {dict(usage.peak_mib)} MiB", flush=True)
    counts = {name: read().count() for name, read in readers.items()}
    print(f"  rows: {counts}", flush=True)
    return sum(rows < commits for rows in counts.values())


def write(address: str, commits: int) -> None:
    """Commit so many offsets, of groups that lie in all partitions."""

    def write_share(writer: int) -> None:
        with Cluster([address]) as cluster:
            for number in range(writer, commits // PARTITIONS, WRITERS):
                group = f"group-{number % GROUPS}"
                request = commit(group, {"orders": dict.fromkeys(range(PARTITIONS), number)})
                cluster.ask_coordinator(
                    group,
                    request,
                    lambda one: [part.error_code for topic in one.topics for part in topic.partitions],
                    up_to=8,
                )

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(write_share, range(WRITERS)))


class Usage:
    """What Spark's processes take while the block runs: processor time, and the most memory, by the program's name.

    They are looked at all the time, since a worker that has had nothing to do for a minute ends, and takes with it what
    is known of its time.
    """

    def __init__(self) -> None:
        self.peak_mib: dict[str, int] = defaultdict(int)
        self._ticks: dict[str, int] = {}  # by process, also of those that have ended
        self._over = Event()
        self._thread = Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def processor_s(self) -> float:
        """Return the processor time until now."""
        self._look()
        return sum(list(self._ticks.values())) / os.sysconf("SC_CLK_TCK")

    def _watch(self) -> None:
        while not self._over.wait(LOOK_S):
            self._look()

    def _look(self) -> None:
        for process in of_spark():
            if of_process := _read(process / "stat").rpartition(")")[2].split():
                self._ticks[process.name] = sum(map(int, of_process[11:13]))
            lines = _read(process / "status").splitlines()
            fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
            if "VmHWM" in fields:
                most = int(fields["VmHWM"].split()[0]) // 1024
                self.peak_mib[fields["Name"]] = max(self.peak_mib[fields["Name"]], most)


def of_spark() -> list[Path]:
    """Find the processes below this one, without the broker."""
    children: dict[str, list[Path]] = defaultdict(list)
    for process in Path("/proc").glob("[0-9]*"):
        if fields := _read(process / "stat").rpartition(")")[2].split():
            children[fields[1]].append(process)
    found, left = [], [str(os.getpid())]
    while left:
        below = [one for one in children[left.pop()] if "kafka.Kafka" not in _read(one / "cmdline")]
        found += below
        left += [one.name for one in below]
    return found


def _read(path: Path) -> str:
    """Return the text of a file of a process; none where the process has ended."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
