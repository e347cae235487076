"""Commit offsets on a cluster, and measure how fast Spark reads them: by `kafkalog`, and by its own Kafka source.

The rates count only if both have read everything: the last line has the rows of each, and the exit code is 1 otherwise.

MUSTER_SPARK_JARS names a directory with the jars of Spark's source; without it, only `kafkalog` is measured. Seconds are by
the clock, and both read the same topic one after the other, so that their ratio counts.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
GROUPS, PARTITIONS, ROUNDS = 250, 100, 2
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
    write(address, commits)
    directory = os.environ.get("MUSTER_SPARK_JARS")
    jars = ",".join(str(jar) for jar in Path(directory).glob("*.jar")) if directory else ""
    conf = (("spark.jars", jars), OF_INTERNAL_TOPICS) if jars else ()
    spark = session(settings=Settings("local[2]", "1g", None, conf=conf))
    register(spark)
    readers: dict[str, Callable[[], Any]] = {
        "kafkalog, decoded rows": lambda: spark.read.format("kafkalog").load(f"kafka://{address}"),
    }
    if jars:
        options = {"kafka.bootstrap.servers": address, "subscribe": TOPIC, "startingOffsets": "earliest"}
        readers["Spark's own source, keys and values"] = lambda: spark.read.format("kafka").options(**options).load()
    for number in range(ROUNDS):
        for name, read in readers.items():
            began_s = time.monotonic()
            read().write.format("noop").mode("overwrite").save()
            took_s = time.monotonic() - began_s
            print(f"  {number + 1}: {name}: {commits / took_s:,.0f} a second, {took_s:.1f} s", flush=True)
    counts = {name: read().count() for name, read in readers.items()}
    print(f"  rows: {counts}", flush=True)
    return sum(rows < commits for rows in counts.values())


def write(address: str, commits: int) -> None:
    """Commit so many offsets, of groups that lie in all partitions."""
    with Cluster([address]) as cluster:
        for number in range(commits // PARTITIONS):
            group = f"group-{number % GROUPS}"
            request = commit(group, {"orders": dict.fromkeys(range(PARTITIONS), number)})
            cluster.ask_coordinator(
                group,
                request,
                lambda one: [part.error_code for topic in one.topics for part in topic.partitions],
                up_to=8,
            )
