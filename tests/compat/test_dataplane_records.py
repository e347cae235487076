"""Released clients write and read records: every compression, headers, times, and a group that is left in peace."""

import asyncio
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.compat.consumers import STOPS, Member, share, wait_until
from tests.live import WAIT_SECONDS, Muster

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
VALUES = [f"value-{number}-{'x' * (number % 700)}" for number in range(300)]
FETCHES_PER_SECOND_MAX = 4  # a member, of a client that waits 500 ms each time


@pytest.fixture(scope="module")
def muster(tmp_path_factory: pytest.TempPathFactory) -> Muster:
    with Muster(tmp_path_factory.mktemp("records")) as server:
        yield server


def confluent_kafka(bootstrap: str, topic: str, codec: str) -> list[tuple[str, str, dict[str, bytes]]]:
    from confluent_kafka import Consumer, Producer, TopicPartition

    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 50})
    for number, value in enumerate(VALUES):
        producer.produce(topic, value, f"key-{number}", headers={"n": str(number).encode()})
    assert producer.flush(WAIT_SECONDS) == 0
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    deadline = time.monotonic() + WAIT_SECONDS
    while len(found) < len(VALUES) and time.monotonic() < deadline:
        for one in consumer.consume(100, 0.5):
            assert one.error() is None, one.error()
            found.append((one.key().decode(), one.value().decode(), dict(one.headers())))
    consumer.close()
    return found


def kafka_python(bootstrap: str, topic: str, codec: str) -> list[tuple[str, str, dict[str, bytes]]]:
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition

    kind = None if codec == "none" else codec
    producer = KafkaProducer(bootstrap_servers=bootstrap, compression_type=kind, linger_ms=50)
    for number, value in enumerate(VALUES):
        headers = [("n", str(number).encode())]
        producer.send(topic, value.encode(), f"key-{number}".encode(), headers=headers, partition=0)
    producer.flush(WAIT_SECONDS)
    producer.close()
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=int(WAIT_SECONDS * 1000)
    )
    consumer.assign([TopicPartition(topic, 0)])
    found = []
    for one in consumer:
        found.append((one.key.decode(), one.value.decode(), dict(one.headers)))
        if len(found) == len(VALUES):
            break
    consumer.close()
    return found


def aiokafka(bootstrap: str, topic: str, codec: str) -> list[tuple[str, str, dict[str, bytes]]]:
    return asyncio.run(_aiokafka(bootstrap, topic, codec))


async def _aiokafka(bootstrap: str, topic: str, codec: str) -> list[tuple[str, str, dict[str, bytes]]]:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition

    kind = None if codec == "none" else codec
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, compression_type=kind, linger_ms=50) as producer:
        sent = [
            await producer.send(
                topic, value.encode(), f"key-{number}".encode(), headers=[("n", str(number).encode())], partition=0
            )
            for number, value in enumerate(VALUES)
        ]
        await asyncio.gather(*sent)
    found = []
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    consumer.assign([TopicPartition(topic, 0)])
    async with consumer:
        while len(found) < len(VALUES):
            one = await asyncio.wait_for(consumer.getone(), 20)
            found.append((one.key.decode(), one.value.decode(), dict(one.headers)))
    return found


CLIENTS = {"confluent-kafka": confluent_kafka, "kafka-python": kafka_python, "aiokafka": aiokafka}


def has_codec(client: str, codec: str) -> bool:
    """Whether the client finds a library for the compression here; librdkafka brings its own."""
    if client == "confluent-kafka" or codec == "none":
        return True
    import aiokafka.codec
    import kafka.codec

    where = aiokafka.codec if client == "aiokafka" else kafka.codec
    return bool(getattr(where, f"has_{codec}")())


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("client", CLIENTS)
def test_what_a_client_writes_it_reads_again(muster: Muster, client: str, codec: str) -> None:
    assert has_codec(client, codec), f"the extra `dev` has a library of {codec} for {client}"
    found = CLIENTS[client](muster.kafka, f"{client}-{codec}", codec)
    assert found == [(f"key-{n}", value, {"n": str(n).encode()}) for n, value in enumerate(VALUES)]


@pytest.mark.parametrize("seconds", [4, pytest.param(20, marks=pytest.mark.long)])
@pytest.mark.parametrize("client", ["confluent-kafka", pytest.param("kafka-python", marks=STOPS), "aiokafka"])
def test_a_quiet_group_stays_quiet(client: str, seconds: int, tmp_path: Path) -> None:
    """Two members that have joined do not join again, and fetch no faster than their wait says."""
    options = ("--topic", "calm:2", "--set", "group.min.session.timeout.ms=1000")
    with Muster(tmp_path, *options) as server, ExitStack() as stack:
        members = [stack.enter_context(Member(client, server.kafka, "g", "calm")) for _ in range(2)]
        wait_until("each member has a partition", lambda: share(members, 2) and all(one.assigned for one in members))

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
