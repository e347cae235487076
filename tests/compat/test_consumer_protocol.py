"""The consumer protocol (KIP-848) with a released client: a group's life, and moving a live group to it and back."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from coordinator.cli.cluster import Cluster
from coordinator.cli.group_view import GroupView, describe_group
from tests.compat.consumers import Member, produce, share, wait_until
from tests.live import WAIT_SECONDS, Muster

PARTITIONS = 6
GROWN = 8
CLIENT = "confluent-kafka"
SETTINGS = (
    "group.min.session.timeout.ms=1000",
    "group.consumer.min.session.timeout.ms=1000",
    "group.consumer.session.timeout.ms=3000",
    "group.consumer.min.heartbeat.interval.ms=100",
    "group.consumer.heartbeat.interval.ms=300",
    "group.consumer.assignment.interval.ms=100",
)


@pytest.fixture
def muster(tmp_path: Path) -> Iterator[Muster]:
    settings = [f"--set={one}" for one in SETTINGS]
    with Muster(tmp_path, f"--topic=orders:{PARTITIONS}", *settings) as server:
        yield server


def all_share(members: list[Member], partitions: int = PARTITIONS) -> Callable[[], bool]:
    """Every member has something, and together they have each partition once."""
    return lambda: share(members, partitions) and all(member.assigned for member in members)


def all_work(members: list[Member]) -> Callable[[], bool]:
    """Every member has consumed something and committed it."""
    return lambda: all(member.done for member in members)


def group_of(muster: Muster) -> GroupView:
    with Cluster([muster.kafka]) as cluster:
        group = describe_group(cluster, "shop")
    assert group is not None, "there is a group"
    return group


def test_a_group_lives_through_all_that_happens_to_groups(muster: Muster) -> None:
    with ExitStack() as stack:
        members = [stack.enter_context(Member(CLIENT, muster.kafka, "shop", "orders", "consumer")) for _ in range(3)]
        a, b, c = members
        wait_until("three members share", all_share(members))
        assert (group_of(muster).type, {one.protocol for one in group_of(muster).members}) == ("consumer", {"consumer"})

        produce(CLIENT, muster.kafka, "orders", PARTITIONS, (f"first-{n}" for n in range(600)))
        wait_until("all is consumed and committed", lambda: len(done(members)) == 600)
        assert set(done(members).values()) == {1}

        muster.kill()
        muster.start()
        produce(CLIENT, muster.kafka, "orders", PARTITIONS, (f"second-{n}" for n in range(60)))
        wait_until("they go on", lambda: len(done(members)) == 660)
        assert set(done(members).values()) == {1}
        assert all_share(members)(), "and nobody had to join again"

        c.leave()
        wait_until("two share what it had", all_share([a, b]))
        b.kill()
        wait_until("one has all when the other's session has ended", all_share([a]))

        admin = AdminClient({"bootstrap.servers": muster.kafka})
        admin.create_partitions([NewPartitions("orders", GROWN)])["orders"].result(20)
        wait_until("the topic has grown, and the group with it", all_share([a], GROWN))
        produce(CLIENT, muster.kafka, "orders", GROWN, (f"third-{n}" for n in range(80)))
        wait_until("the new partitions are read", lambda: len(done(members)) == 740)
        assert set(done(members).values()) == {1}


def test_a_live_group_moves_to_the_consumer_protocol_and_back(muster: Muster) -> None:
    """A rolling upgrade, and a rolling downgrade, under load: each record is worked off, and committed, once."""
    with ExitStack() as stack, load(muster) as sent:
        everyone: list[Member] = []

        def start(protocol: str) -> Member:
            member = stack.enter_context(Member(CLIENT, muster.kafka, "shop", "orders", protocol))
            everyone.append(member)
            return member

        members = [start("classic") for _ in range(3)]
        wait_until("three classic members share", all_share(members))
        wait_until("each of them works", all_work(members))
        assert group_of(muster).type == "classic"
        for protocol in ("consumer", "classic"):
            for at in range(3):
                members[at].leave()
                members[at] = start(protocol)
                wait_until(f"member {at} is back in the {protocol} protocol", all_share(members))
                wait_until("each of them works", all_work(members))
                if at < 2:  # the classic ones are served by the consumer group until the last has gone
                    assert {one.protocol for one in group_of(muster).members} == {"classic", "consumer"}
            assert group_of(muster).type == protocol
        sent.stop()
        wait_until("all is worked off", lambda: len(done(everyone)) == sent.count)
    assert set(done(everyone).values()) == {1}, "nothing was committed by two"


def done(members: list[Member]) -> Counter[tuple[int, int]]:
    """How often each record, by partition and offset, was consumed and then committed."""
    return Counter(one for member in members for one in member.done)


class Load:
    """A hundred records a second, until it is told to stop."""

    def __init__(self, bootstrap: str) -> None:
        self.count = 0
        self._stopping = threading.Event()
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 10})
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(30)
        assert self._producer.flush(WAIT_SECONDS) == 0, "something was not delivered"

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._producer.produce("orders", f"{self.count}", partition=self.count % PARTITIONS)
            self.count += 1
            time.sleep(0.01)


@contextmanager
def load(muster: Muster) -> Iterator[Load]:
    running = Load(muster.kafka)
    running.start()
    try:
        yield running
    finally:
        running.stop()
