"""Records that are past their time or beyond their size are gone for released clients, and from the disk."""

import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from coordinator.core import records
from coordinator.core.records import OffsetCommitKey
from tests.compat.consumers import librdkafka, wait_until
from tests.live import WAIT_SECONDS, Muster, server_fixture

HOUR_MS = 3_600_000
MIB = 2**20
OFTEN = ("--set", "log.retention.check.interval.ms=1")


muster = server_fixture(*OFTEN, "--set", "offsets.topic.num.partitions=4", scope="function")


def create(muster: Muster, topic: str, **configs: int) -> None:
    settings = {name.replace("_", "."): str(value) for name, value in configs.items()}
    admin = AdminClient({"bootstrap.servers": muster.kafka})
    admin.create_topics([NewTopic(topic, 1, 1, config=settings)])[topic].result(10)


def produce(muster: Muster, topic: str, count: int, size: int = 10, age_ms: int = 0) -> None:
    """Each record in a batch of its own."""
    producer = Producer({"bootstrap.servers": muster.kafka, "batch.num.messages": 1})
    for _ in range(count):
        producer.produce(topic, bytes(size), partition=0, timestamp=int(time.time() * 1000) - age_ms)
    assert producer.flush(WAIT_SECONDS) == 0


def offsets(muster: Muster, topic: str) -> tuple[int, int]:
    """The first and the next offset, as the server tells them."""
    asking = librdkafka(muster.kafka, "readers")
    try:
        low, high = asking.get_watermark_offsets(TopicPartition(topic, 0), timeout=WAIT_SECONDS)
        return low, high
    finally:
        asking.close()


def segments(muster: Muster, topic: str) -> dict[int, int]:
    """What is on the disk: sizes by base offset."""
    return {int(path.stem): path.stat().st_size for path in (muster.data_dir / f"{topic}-0").glob("*.log")}


def test_old_records_go_and_who_stands_before_them_begins_behind_them(muster: Muster) -> None:
    create(muster, "t", retention_ms=HOUR_MS, segment_ms=HOUR_MS)
    produce(muster, "t", 5, age_ms=3 * HOUR_MS)
    produce(muster, "t", 5)
    wait_until("the first five are gone", lambda: offsets(muster, "t") == (5, 10))
    assert list(segments(muster, "t")) == [5]
    reading = librdkafka(muster.kafka, "readers")
    reading.assign([TopicPartition("t", 0, 2)])  # which is out of range now: it begins at the earliest
    found = [one.offset() for one in reading.consume(5, 20)]
    reading.close()
    assert found == [5, 6, 7, 8, 9]


def test_what_is_too_much_goes(muster: Muster) -> None:
    create(muster, "t", retention_bytes=2 * MIB, segment_bytes=MIB)
    produce(muster, "t", 40, size=MIB // 8)
    wait_until("all but the size is gone", lambda: sum(segments(muster, "t").values()) < 3 * MIB)
    assert sum(segments(muster, "t").values()) >= 2 * MIB
    assert offsets(muster, "t") == (min(segments(muster, "t")), 40)


def test_a_topic_that_nobody_asks_for_after_a_restart_grows_old_too(muster: Muster) -> None:
    create(muster, "old")
    produce(muster, "old", 5, age_ms=3 * HOUR_MS)
    create(muster, "new")
    produce(muster, "new", 5)
    assert muster.stop() == 0
    muster.options = (*muster.options, "--set", f"log.retention.ms={HOUR_MS}")
    muster.start()
    wait_until("the segment is gone from the disk", lambda: segments(muster, "old") == {5: 0})
    assert offsets(muster, "old") == (5, 5)
    assert offsets(muster, "new") == (0, 5)


def confluent_kafka(muster: Muster) -> Iterator[tuple[bytes, bytes | None]]:
    reading = librdkafka(muster.kafka, "readers")
    with closing(reading):
        reading.assign([TopicPartition("__consumer_offsets", partition, 0) for partition in range(4)])
        while True:
            for one in reading.consume(100, 0.5):
                assert one.error() is None, one.error()
                if one.key() is not None:
                    yield one.key(), one.value()


def kafka_python(muster: Muster) -> Iterator[tuple[bytes, bytes | None]]:
    from kafka import KafkaConsumer
    from kafka import TopicPartition as Partition

    reading = KafkaConsumer(bootstrap_servers=muster.kafka, auto_offset_reset="earliest", consumer_timeout_ms=20_000)
    with closing(reading):
        reading.assign([Partition("__consumer_offsets", partition) for partition in range(4)])
        for one in reading:
            yield one.key, one.value


@pytest.mark.parametrize("read", [confluent_kafka, kafka_python])
def test_the_topic_of_offsets_can_be_read_like_any_other(muster: Muster, read) -> None:
    """What tools that watch lag do: they read the commits of all groups as Kafka writes them."""
    create(muster, "t")
    produce(muster, "t", 3)
    committing = librdkafka(muster.kafka, "readers")
    wanted = TopicPartition("t", 0, 2)
    assert committing.commit(offsets=[wanted], asynchronous=False)[0].error is None
    committing.close()
    with closing(read(muster)) as found:
        facts = (records.decode(key, value) for key, value in found)
        commit = next((one for one in facts if one.key == OffsetCommitKey("readers", "t", 0)), None)
    assert commit is not None, "the commit was not read"
    assert commit.value is not None and commit.value.offset == 2
