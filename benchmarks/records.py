"""What records cost a server, with confluent-kafka as the client: processor time of the server a megabyte.

    python -m benchmarks.records [--megabytes 200] [--rounds 3] [--beside NAME=HOST:PORT@PID ...]

Produced and consumed are records of 1,000 bytes, of 100 bytes, and of 50 to 150 bytes, uncompressed, and of 1,000 bytes
with lz4 (JSON of random numbers, which packs to about half); a megabyte is one of records, before compression. Then one
record at a time: microseconds of the server for each produce that is waited for. Other brokers, which run already, are
measured in turn with ours; what is printed are medians over the rounds.
"""

import argparse
import contextlib
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.server import RunningServer, cpu_seconds

MEGABYTE = 1e6
PARTITIONS = 4
SINGLE = 2_000  # records that are produced one at a time
WORKS = {
    "1,000 bytes": (1_000, 0, "none"),
    "100 bytes": (100, 0, "none"),
    "50 to 150 bytes": (100, 50, "none"),
    "1,000 bytes, lz4": (1_000, 0, "lz4"),
}


def values(size: int, count: int, spread: int = 0) -> Iterator[bytes]:
    """Yield JSON-like values of this size, give or take `spread`, the same each time."""
    dice, sizes = random.Random(7), random.Random(8)
    kinds = []
    for _ in range(1_000):
        own = size + sizes.randint(-spread, spread)
        numbers = ",".join(f'"field":{dice.getrandbits(40)}' for _ in range(own // 10 + 1))
        kinds.append(("{" + numbers)[: own - 1].encode() + b"}")
    for number in range(count):
        yield kinds[number % len(kinds)]


class Broker:
    """A broker under measurement, by its address and process id."""

    def __init__(self, name: str, address: str, pid: int) -> None:
        self.name, self.address, self.pid = name, address, pid

    def make_topic(self, name: str) -> None:
        """Create a topic, and wait until it is there."""
        admin = AdminClient({"bootstrap.servers": self.address})
        admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(30)

    def cost(self, work: Callable[[], float]) -> float:
        """Return the seconds of processor time that the server takes for each unit of what `work` returns."""
        used = cpu_seconds(self.pid)
        units = work()
        time.sleep(0.3)  # what the server does behind the last response counts as well
        return (cpu_seconds(self.pid) - used) / units

    def produce(self, topic: str, size: int, spread: int, codec: str, megabytes: int) -> float:
        """Produce so many megabytes; return how many they were."""
        count = int(megabytes * MEGABYTE / size)
        settings = {"linger.ms": 5, "compression.type": codec, "queue.buffering.max.messages": 1_000_000}
        producer = Producer({"bootstrap.servers": self.address, **settings})
        for number, value in enumerate(values(size, count, spread)):
            while True:
                try:
                    producer.produce(topic, value, partition=number // 1_000 % PARTITIONS)
                    break
                except BufferError:
                    producer.poll(0.05)
            if number % 10_000 == 0:
                producer.poll(0)
        assert producer.flush(120) == 0, f"{self.name} did not take all records"
        return count * size / MEGABYTE

    def consume(self, topic: str, size: int, megabytes: int) -> float:
        """Consume so many megabytes; return how many they were."""
        count = int(megabytes * MEGABYTE / size)
        settings = {"group.id": "benchmark", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        consumer = Consumer({"bootstrap.servers": self.address, **settings})
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        seen, deadline = 0, time.monotonic() + 120
        while seen < count:
            seen += len(consumer.consume(10_000, 1.0))
            assert time.monotonic() < deadline, f"{self.name} gave {seen} of {count} records"
        consumer.close()
        return count * size / MEGABYTE

    def produce_singly(self, topic: str) -> float:
        """Produce records one at a time, each when the one before is acknowledged; return how many."""
        producer = Producer({"bootstrap.servers": self.address, "linger.ms": 0})
        for value in values(100, SINGLE):
            producer.produce(topic, value, partition=0)
            producer.flush(30)
        return SINGLE


def measure(broker: Broker, megabytes: int, number: int) -> Iterator[tuple[str, float]]:
    """Yield what each work costs, one round of it."""
    for name, (size, spread, codec) in WORKS.items():
        topic = f"records-{size}-{spread}-{codec}-{number}"
        broker.make_topic(topic)
        produce = partial(broker.produce, topic, size, spread, codec, megabytes)
        yield f"produce {name} (ms a MB)", broker.cost(produce) * 1e3
        consume = partial(broker.consume, topic, size, megabytes)
        yield f"consume {name} (ms a MB)", broker.cost(consume) * 1e3
    broker.make_topic(f"single-{number}")
    yield "produce one at a time (us each)", broker.cost(lambda: broker.produce_singly(f"single-{number}")) * 1e6


def main() -> None:
    """Measure all brokers, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--beside", metavar="NAME=HOST:PORT@PID", action="append", default=[])
    args = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        server = stack.enter_context(RunningServer(Path(folder)))
        brokers = [Broker("muster", server.kafka, server.pid)]
        for beside in args.beside:
            name, _, rest = beside.partition("=")
            address, _, pid = rest.partition("@")
            brokers.append(Broker(name, address, int(pid)))
        found: dict[str, dict[str, list[float]]] = {}
        run = int(time.time())
        for number in range(args.rounds):
            for broker in brokers:
                for work, cost in measure(broker, args.megabytes, run + number):
                    found.setdefault(work, {}).setdefault(broker.name, []).append(cost)
    print(f"{'processor time of the server':<40}" + "".join(f"{broker.name:>18}" for broker in brokers))
    for work, costs in found.items():
        medians = {name: statistics.median(each) for name, each in costs.items()}
        first = next(iter(medians.values()))
        row = "".join(f"{cost:>11.2f} {first / cost:>5.2f}x" for cost in medians.values())
        print(f"{work:<40}{row}")


if __name__ == "__main__":
    main()
