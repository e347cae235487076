"""A group that moves to the consumer protocol and back."""

import threading
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack

from confluent_kafka import Producer

from coordinator.cli.cluster import Cluster
from coordinator.cli.group_view import DescribedGroup, describe_group
from tests.compat.consumers import Member, wait_for_share, wait_until
from tests.live import WAIT_SECONDS, Muster

PARTITIONS = 6

SETTINGS = (
    "group.min.session.timeout.ms=1000",
    "group.consumer.min.session.timeout.ms=1000",
    "group.consumer.session.timeout.ms=3000",
    "group.consumer.min.heartbeat.interval.ms=100",
    "group.consumer.heartbeat.interval.ms=300",
    "group.consumer.assignment.interval.ms=100",
)


def all_work(members: list[Member]) -> Callable[[], bool]:
    """Every member has consumed something and committed it."""
    return lambda: all(member.done for member in members)


def group_of(muster: Muster) -> DescribedGroup:
    with Cluster([muster.kafka]) as cluster:
        group = describe_group(cluster, "shop")
    assert group is not None, "there is a group"
    return group


def move_there_and_back(muster: Muster, member: Callable[[str], Member]) -> None:
    """Replace three classic members by ones of the consumer protocol, and those again: each record is worked off, and
    committed, once."""
    with ExitStack() as stack, Load(muster.kafka) as load:
        everyone: list[Member] = []

        def start(protocol: str) -> Member:
            everyone.append(stack.enter_context(member(protocol)))
            return everyone[-1]

        members = [start("classic") for _ in range(3)]
        wait_for_share(members, PARTITIONS)
        wait_until("each of them works", all_work(members))
        assert group_of(muster).type == "classic"
        for protocol in ("consumer", "classic"):
            for at in range(3):
                members[at].leave()
                members[at] = start(protocol)
                wait_for_share(members, PARTITIONS, f"with member {at} back in the {protocol} protocol")
                wait_until("each of them works", all_work(members))
                # The classic ones are served by the consumer group until the last has gone.
                mixed = {"classic", "consumer"} if at < 2 else {protocol}
                assert {one.protocol for one in group_of(muster).members} == mixed
            assert group_of(muster).type == protocol
        load.stop()
        wait_until("all is worked off", lambda: len(done(everyone)) == load.count > 0)
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

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(30)
        assert self._producer.flush(WAIT_SECONDS) == 0, "something was not delivered"

    def _run(self) -> None:
        while not self._stopping.wait(0.01):
            self._producer.produce("orders", f"{self.count}", partition=self.count % PARTITIONS)
            self.count += 1
