"""Make the segments of a real broker that `tests/storage/data` holds: `python -m tests.storage.record_kafka ADDRESS
LOGS OUT`.

ADDRESS is a running Apache Kafka, LOGS its `log.dirs`, OUT where the copies go. It plays a day of groups (classic,
static, KIP-848, transactional, deleted, without members) with confluent-kafka, copies the broker's
`__consumer_offsets-*` while the members live, writes down what the broker reports of every group at that moment, and
does both again after compaction. The README beside the data says with which settings the broker ran.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

TOPIC = "orders"
PARTITIONS = 3
KEPT = (".log", "leader-epoch-checkpoint", "partition.metadata")


class Day:
    """The clients of the recording; the members stay alive until `close`."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.admin = AdminClient({"bootstrap.servers": address})
        self.members: list[Consumer] = []

    def topic(self) -> None:
        self.admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(20)
        producer = Producer({"bootstrap.servers": self.address})
        for number in range(30):
            producer.produce(TOPIC, value=b"%d" % number, partition=number % PARTITIONS)
        producer.flush(20)

    def member(self, group: str, **settings: str) -> Consumer:
        settings = {name.replace("_", "."): value for name, value in settings.items()}
        consumer = Consumer({
            "bootstrap.servers": self.address, "group.id": group, "enable.auto.commit": "false",
            "auto.offset.reset": "earliest", "client.id": f"{group}-client", **settings,
        })  # fmt: skip
        consumer.subscribe([TOPIC])
        self.members.append(consumer)
        return consumer

    def settle(self, *consumers: Consumer, partitions: int = PARTITIONS) -> None:
        """Poll until the members own all partitions between them, each at least one."""

        def is_settled() -> bool:
            owned = [len(consumer.assignment()) for consumer in consumers]
            return sum(owned) == partitions and all(owned)

        self.until(is_settled, consumers)

    def until(self, is_done: Callable[[], bool], consumers: tuple[Consumer, ...] = ()) -> None:
        deadline = time.monotonic() + 60
        while not is_done():
            assert time.monotonic() < deadline, "the broker took more than a minute"
            for consumer in consumers or self.members:
                consumer.poll(0.05)

    def leave(self, consumer: Consumer) -> None:
        consumer.close()
        self.members.remove(consumer)

    def commit(self, group: str, **offsets: int) -> None:
        """Commit as an administrator does, without a member: p0=4 is offset 4 of partition 0."""
        partitions = [TopicPartition(TOPIC, int(name[1:]), offset) for name, offset in offsets.items()]
        request = [ConsumerGroupTopicPartitions(group, partitions)]
        self.admin.alter_consumer_group_offsets(request)[group].result(20)

    def transaction(self, group: str, offsets: dict[int, int], end: str) -> Producer:
        """Commit offsets in a transaction that is committed, aborted or left open."""
        settings = {"bootstrap.servers": self.address, "transactional.id": f"txn-{group}"}
        producer = Producer(settings)
        producer.init_transactions(20)
        producer.begin_transaction()
        positions = [TopicPartition(TOPIC, partition, offset) for partition, offset in offsets.items()]
        anyone = Consumer({"bootstrap.servers": self.address, "group.id": group})
        producer.send_offsets_to_transaction(positions, anyone.consumer_group_metadata(), 20)
        if end != "open":
            getattr(producer, f"{end}_transaction")(20)
        return producer

    def play(self) -> list[Producer]:
        """Everything the recording shall hold. The open transaction's producer is to be kept."""
        self.topic()
        classic = [self.member("classic-two"), self.member("classic-two")]
        self.settle(*classic)
        for number, consumer in enumerate(classic):
            owned = [TopicPartition(TOPIC, p.partition, 3 + number) for p in consumer.assignment()]
            consumer.commit(offsets=owned, asynchronous=False)
        static = self.member("static-one", group_instance_id="instance-1")
        self.settle(static)
        static.commit(offsets=[TopicPartition(TOPIC, 1, 7, "noted by instance-1")], asynchronous=False)
        modern = [self.member("modern-two", group_protocol="consumer") for _ in range(2)]
        self.settle(*modern)
        owned = [TopicPartition(TOPIC, p.partition, 2) for p in modern[0].assignment()]
        modern[0].commit(offsets=owned, asynchronous=False)
        left = self.member("classic-left")
        self.settle(left)
        left.commit(offsets=[TopicPartition(TOPIC, 0, 9), TopicPartition(TOPIC, 2, 1)], asynchronous=False)
        self.leave(left)
        gone = self.member("modern-left", group_protocol="consumer")
        self.settle(gone)
        gone.commit(offsets=[TopicPartition(TOPIC, 1, 5)], asynchronous=False)
        self.leave(gone)
        self.commit("simple", p0=4, p1=5)
        self.commit("simple", p0=6)
        for group in ("deleted", "deleted-again"):
            self.commit(group, p0=1, p2=2)
            self.admin.delete_consumer_groups([group])[group].result(20)
        self.commit("deleted-again", p1=8)
        self.commit("txn-aborted", p0=5)
        self.transaction("txn-aborted", {0: 50, 1: 51}, "abort")
        self.transaction("txn-committed", {0: 10, 2: 12}, "commit")
        self.commit("txn-open", p0=1)
        return [self.transaction("txn-open", {0: 100}, "open")]

    def report(self) -> dict[str, Any]:
        """What the broker says of every group now, in plain values."""
        listed = self.admin.list_consumer_groups().result(20).valid
        report = {}
        for group in sorted(g.group_id for g in listed if g.type.name in ("CLASSIC", "CONSUMER")):
            told = self.admin.describe_consumer_groups([group])[group].result(20)
            offsets = self.admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(20)
            report[group] = {
                "type": told.type.name,
                "state": told.state.name,
                "assignor": told.partition_assignor,
                "members": sorted((_member(m) for m in told.members), key=lambda m: str(m["member_id"])),
                "offsets": {
                    f"{p.topic}-{p.partition}": {
                        "offset": p.offset, "metadata": p.metadata or "", "leader_epoch": p.leader_epoch,
                    }
                    for p in offsets.topic_partitions
                },
            }  # fmt: skip
        return report

    def compacted(self, logs: Path) -> None:
        """Roll the broker's segments, let its cleaner run, and wait until it has."""
        self._configure({"segment.ms": "500", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "0"})
        sizes = _sizes(logs)
        for number in range(120):  # each append looks whether the segment is old enough to be rolled
            for group in ("simple", "txn-aborted", "txn-committed", "classic-left"):
                self.commit(group, p0=number)
            time.sleep(0.2)
            if number > 30 and _sizes(logs) < sizes * 3 // 4:
                break
        self._configure({"segment.ms": "604800000"})
        for number in range(3):
            self.commit("simple", p2=number)

    def _configure(self, settings: dict[str, str]) -> None:
        entries = [ConfigEntry(n, v, incremental_operation=AlterConfigOpType.SET) for n, v in settings.items()]
        resource = ConfigResource(ResourceType.TOPIC, "__consumer_offsets", incremental_configs=entries)
        self.admin.incremental_alter_configs([resource])[resource].result(20)

    def close(self) -> None:
        for consumer in list(self.members):
            self.leave(consumer)


def _member(member: Any) -> dict[str, Any]:
    owned = member.assignment.topic_partitions if member.assignment else []
    return {
        "member_id": member.member_id,
        "group_instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "client_host": member.host,
        "assignment": sorted(f"{p.topic}-{p.partition}" for p in owned),
    }


def _sizes(logs: Path) -> int:
    return sum(path.stat().st_size for path in logs.glob("__consumer_offsets-*/*.log"))


def copy(logs: Path, out: Path) -> None:
    """The directories as they are now, without indexes (the broker preallocates them) and snapshots."""
    for directory in logs.glob("__consumer_offsets-*"):
        (out / directory.name).mkdir(parents=True, exist_ok=True)
        for path in directory.iterdir():
            if path.name.endswith(KEPT):
                shutil.copy(path, out / directory.name / path.name)


def main() -> None:
    address, logs, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    day = Day(address)
    kept = day.play()
    for name in ("live", "compacted"):
        if name == "compacted":
            day.compacted(logs)
        for consumer in day.members:
            consumer.poll(0.1)
        time.sleep(2)
        copy(logs, out / name)
        (out / f"{name}.json").write_text(json.dumps(day.report(), indent=1) + "\n")
    day.close()
    del kept


if __name__ == "__main__":
    main()
