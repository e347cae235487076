"""A worker that copies records from `in` to `out`, records and offsets in one transaction, until all are copied.

    python -m tests.compat.copier BOOTSTRAP COUNT

It prints a line for each transaction that committed. What it cannot go on after ends it, as it would end a worker of
somebody who relies on his supervisor: the next one takes over its transactional id and its place in the group. So does
a transaction that takes too long: after a broker was killed librdkafka now and then waits for a connection that it does
not make, in `send_offsets_to_transaction` whatever the timeout, or in the end of a producer.
"""

import os
import signal
import sys
import traceback

from confluent_kafka import Producer, TopicPartition

from tests.compat.consumers import librdkafka

RECORDS_MAX = 5  # a transaction
TIMEOUT_SECONDS = 10  # of a call
PATIENCE_SECONDS = 12  # with one transaction; who tests it takes another copier when a busy machine needs longer


def transactional(bootstrap: str) -> Producer:
    """With it, whatever a worker before left open is aborted, and that worker fenced."""
    found = Producer({"bootstrap.servers": bootstrap, "transactional.id": "copier", "reconnect.backoff.max.ms": 500})
    found.init_transactions(TIMEOUT_SECONDS)
    return found


def copy(bootstrap: str, count: int) -> None:
    """Copy until the group has committed as many records as `count`, of all partitions together."""
    member = {"group.instance.id": "copier", "isolation.level": "read_committed", "session.timeout.ms": 60_000}
    writing, reading = transactional(bootstrap), librdkafka(bootstrap, "copiers", **member)
    reading.subscribe(["in"])
    while True:
        signal.alarm(PATIENCE_SECONDS)  # SIGALRM ends the process
        batch = [one for one in reading.consume(RECORDS_MAX, 0.5) if not one.error()]
        if not batch:
            mine = reading.committed(reading.assignment(), TIMEOUT_SECONDS)
            if sum(max(one.offset, 0) for one in mine) >= count:
                break
            continue
        writing.begin_transaction()
        for one in batch:
            writing.produce("out", one.value(), partition=one.partition())
        ends = {one.partition(): one.offset() + 1 for one in batch}
        positions = [TopicPartition("in", partition, end) for partition, end in ends.items()]
        writing.send_offsets_to_transaction(positions, reading.consumer_group_metadata(), TIMEOUT_SECONDS)
        writing.commit_transaction(TIMEOUT_SECONDS)
        sys.stdout.write(f"{len(batch)}\n")
        sys.stdout.flush()
    reading.close()


if __name__ == "__main__":
    try:
        copy(sys.argv[1], int(sys.argv[2]))
    except Exception:
        traceback.print_exc()
        os._exit(1)  # at once, without the end of the producer
