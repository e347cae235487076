"""Released clients write and read records: every compression, headers, times, and a group that is left in peace."""

import asyncio
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.compat.consumers import Member, librdkafka, produce, wait_for_share, wait_until
from tests.live import WAIT_SECONDS, Muster, server_fixture

CODECS = (None, "gzip", "snappy", "lz4", "zstd")
VALUES = [f"value-{number}-{'x' * (number % 700)}" for number in range(300)]
FETCHES_PER_SECOND_MAX = 4  # a member, of a client that waits 500 ms each time
Found = list[tuple[str, str, dict[str, bytes]]]


muster = server_fixture()


def confluent_kafka(bootstrap: str, topic: str) -> Found:
    from confluent_kafka import TopicPartition

    consumer = librdkafka(bootstrap, "unused")
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    deadline = time.monotonic() + WAIT_SECONDS
    while len(found) < len(VALUES) and time.monotonic() < deadline:
        for one in consumer.consume(100, 0.5):
            assert one.error() is None, one.error()
            found.append((one.key().decode(), one.value().decode(), dict(one.headers())))
    consumer.close()
    return found


def kafka_python(bootstrap: str, topic: str) -> Found:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=int(WAIT_SECONDS * 1000)
    )
    consumer.assign([TopicPartition(topic, 0)])
    records = zip(VALUES, consumer, strict=False)
    found = [(one.key.decode(), one.value.decode(), dict(one.headers)) for _, one in records]
    consumer.close()
    return found


def aiokafka(bootstrap: str, topic: str) -> Found:
    return asyncio.run(_aiokafka(bootstrap, topic))


async def _aiokafka(bootstrap: str, topic: str) -> Found:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, 0)])
    async with consumer:
        records = [await asyncio.wait_for(consumer.getone(), 20) for _ in VALUES]
    return [(one.key.decode(), one.value.decode(), dict(one.headers)) for one in records]


READ = {"confluent-kafka": confluent_kafka, "kafka-python": kafka_python, "aiokafka": aiokafka}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("client", READ)
def test_what_a_client_writes_it_reads_again(muster: Muster, client: str, codec: str | None) -> None:
    """The extra `dev` has a library of each compression; a client that finds none raises."""
    produce(client, muster.kafka, f"{client}-{codec}", 1, VALUES, codec)
    found = READ[client](muster.kafka, f"{client}-{codec}")
    assert found == [(f"key-{n}", value, {"n": str(n).encode()}) for n, value in enumerate(VALUES)]


@pytest.mark.parametrize("seconds", [4, pytest.param(20, marks=pytest.mark.long)])
@pytest.mark.parametrize("client", ["confluent-kafka", "kafka-python", "aiokafka"])
def test_a_quiet_group_stays_quiet(client: str, seconds: int, tmp_path: Path) -> None:
    """Two members that have joined do not join again, and fetch no faster than their wait says."""
    options = ("--topic", "calm:2", "--set", "group.min.session.timeout.ms=1000")
    with Muster(tmp_path, *options) as server, ExitStack() as stack:
        members = [stack.enter_context(Member(client, server.kafka, "g", "calm")) for _ in range(2)]
        wait_for_share(members, 2)

        def asked(api: str) -> float:
            return server.metric("muster_requests_total", api=api)

        generation = server.metric("muster_group_generation", group="g")
        before, since = {api: asked(api) for api in ("JoinGroup", "Fetch", "Heartbeat")}, time.monotonic()
        assert before["JoinGroup"] > 0 and generation > 0
        time.sleep(seconds)
        wait_until("each beats twice", lambda: asked("Heartbeat") - before["Heartbeat"] >= 2 * len(members))
        fetches, elapsed = asked("Fetch") - before["Fetch"], time.monotonic() - since
        assert asked("JoinGroup") == before["JoinGroup"]
        assert server.metric("muster_group_generation", group="g") == generation
        # No machine is so slow that it makes a client fetch more often.
        assert 0 < fetches / elapsed <= FETCHES_PER_SECOND_MAX * len(members)
        assert [one.errors for one in members] == [[], []]
