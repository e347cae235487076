"""One story, told twice: a worker hangs, and the other one takes over its partitions and goes on where it was.

Against a real Kafka the test sleeps for the session timeout, as is usual; against Muster it lets the session expire.

    python -m tests.compat.user_story 127.0.0.1:9092                             Kafka: sleeps for 45 s
    python -m tests.compat.user_story 127.0.0.1:9092 http://127.0.0.1:8092       Muster
"""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Callable

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic, TopicPartition

from tests.compat.consumers import librdkafka, produce, wait_until

SESSION_S = 45.0  # the default of clients

WORKER = """
import sys
from confluent_kafka import Consumer

bootstrap, topic, group = sys.argv[1:]
consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "client.id": "hangs",
                     "auto.offset.reset": "earliest", "enable.auto.commit": False, "heartbeat.interval.ms": 300})
consumer.subscribe([topic])
read = 0
while True:
    record = consumer.poll(0.1)
    if record is not None and not record.error() and read < 3:
        read += 1
        consumer.commit(record, asynchronous=False)
        print(record.partition(), record.offset(), flush=True)
"""

Hang = Callable[[str], None]  # lets the session of the worker end: it gets the group id


def sleep_for_the_session(group: str) -> None:
    """Do what a test against a real broker does."""
    time.sleep(SESSION_S)


def expire(admin: str) -> Hang:
    """Do what a test against Muster does."""

    def call(group: str) -> None:
        path = f"{admin}/v1/groups/{group}/members/hangs/expire"
        urllib.request.urlopen(urllib.request.Request(path, b"{}", method="POST"), timeout=30)

    return call


def tell(bootstrap: str, end_session: Hang) -> float:
    """Run the story. Returns the seconds that it took, the start of the clients included."""
    began = time.monotonic()
    topic, group = f"orders-{uuid.uuid4().hex[:8]}", f"billing-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (created,) = admin.create_topics([NewTopic(topic, 2, 1)]).values()
    created.result()
    produce("confluent-kafka", bootstrap, topic, 2, map(str, range(20)))
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, bootstrap, topic, group], stdout=subprocess.PIPE, text=True
    )
    consumer = librdkafka(bootstrap, group, **{"client.id": "stays", "heartbeat.interval.ms": 300})
    try:
        consumer.subscribe([topic])
        read: dict[int, list[int]] = {0: [], 1: []}

        def owned() -> list[int]:
            return [one.partition for one in consumer.assignment()]

        def poll() -> None:
            record = consumer.poll(0.1)
            if record is not None and not record.error():
                read[record.partition() or 0].append(record.offset() or 0)

        def each_owns_one() -> bool:
            poll()
            return len(owned()) == 1

        wait_until("each member owns a partition", each_owns_one)
        assert worker.stdout is not None
        theirs = 1 - owned()[0]
        assert worker.stdout.readline(), "the worker has read and committed"
        os.kill(worker.pid, signal.SIGSTOP)  # it hangs: neither polls nor sends heartbeats
        end_session(group)

        def owns_both() -> bool:
            poll()
            return len(owned()) == 2

        wait_until("the one that stays owns both", owns_both)
        read[theirs].clear()
        committed = consumer.committed([TopicPartition(topic, theirs)])[0].offset
        wait_until("it has read the rest", lambda: poll() or read[theirs][-1:] == [9])
        assert read[theirs] == list(range(max(committed, 0), 10)), "from where the other one was, without a gap"
    finally:
        worker.kill()
        consumer.close()
    return time.monotonic() - began


if __name__ == "__main__":
    took = tell(sys.argv[1], expire(sys.argv[2]) if len(sys.argv) > 2 else sleep_for_the_session)
    print(json.dumps({"seconds": round(took, 2)}))
