"""Real clients consume through Muster: sharing, leaving, a server that is killed, a member that falls silent, a topic that grows."""

from collections import Counter
from contextlib import ExitStack

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions

from coordinator.client import Client
from tests.compat.consumer_protocol import SETTINGS, group_of
from tests.compat.consumers import Member, produce, share, wait_for_share, wait_until
from tests.live import Muster, server_fixture
from tests.requests import fetch_offsets

PARTITIONS, GROWN = 4, 6


muster = server_fixture(f"--topic=orders:{PARTITIONS}", *[f"--set={one}" for one in SETTINGS], scope="function")


def committed_offsets(muster: Muster, group: str) -> dict[int, int]:
    """The group's offsets in `orders` by partition, as the server answers them."""
    with Client.to(muster.kafka) as client:
        (answer,) = client.ask(fetch_offsets(group), version=8).groups
    return {one.partition_index: one.committed_offset for topic in answer.topics for one in topic.partitions}


@pytest.mark.parametrize(
    "client",
    [
        ("kafka-python",),
        ("confluent-kafka",),
        ("confluent-kafka", "consumer"),
        ("aiokafka",),
    ],
    ids="-".join,
)
def test_a_group_lives_through_all_that_happens_to_groups(muster: Muster, client: tuple[str, ...]) -> None:
    name, *protocol = client

    def work(batch: str, count: int, expected: int) -> None:
        produce(name, muster.kafka, "orders", PARTITIONS, (f"{batch}-{n}" for n in range(count)))
        wait_until(f"the {batch} records are consumed", lambda: sum(len(one.got) for one in members) >= expected)
        seen = Counter(value for member in members for _, _, value in member.got)
        assert len(seen) == expected and max(seen.values()) == 1, "each record once"
        offsets = dict.fromkeys(range(PARTITIONS), expected // PARTITIONS)
        wait_until("all is committed", lambda: committed_offsets(muster, "shop") == offsets)

    with ExitStack() as stack:
        members = [stack.enter_context(Member(name, muster.kafka, "shop", "orders", *protocol)) for _ in range(3)]
        a, b, c = members
        wait_for_share(members, PARTITIONS)
        assert group_of(muster).type == (protocol or ["classic"])[0]
        work("first", 1_000, 1_000)
        c.leave()
        wait_for_share((a, b), PARTITIONS, "without the one that has left")
        work("second", 100, 1_100)
        muster.kill()
        muster.start()
        assert committed_offsets(muster, "shop") == dict.fromkeys(range(PARTITIONS), 275), (
            "what was acknowledged is there"
        )
        work("third", 100, 1_200)
        assert share((a, b), PARTITIONS), "and nobody had to join again"
        b.freeze()
        wait_for_share((a,), PARTITIONS, "without the one that is silent")
        admin = AdminClient({"bootstrap.servers": muster.kafka})
        admin.create_partitions([NewPartitions("orders", GROWN)])["orders"].result(20)
        wait_for_share((a,), GROWN, "of the topic that has grown")
        d = stack.enter_context(Member(name, muster.kafka, "audit", "orders", *protocol))
        wait_until("another group reads from the beginning", lambda: len(d.got) >= 1_200)
        assert len({value for _, _, value in d.got}) == 1_200
