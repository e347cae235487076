"""A server is killed while clients commit: the tables of what it left say what it says itself when it is back."""

import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.compat.consumers import librdkafka
from tests.live import Muster
from tests.pipeline.golden_tables import of_tables
from tests.pipeline.histories import Offsets, of_server

pytestmark = pytest.mark.xdist_group("spark")


def members(muster: Muster) -> list[Consumer]:
    """A classic group of two, one of them static, and a consumer group (KIP-848) of two, all with two partitions."""
    made = [librdkafka(muster.kafka, "classic", **more) for more in ({}, {"group.instance.id": "till-1"})]
    made += [librdkafka(muster.kafka, "modern", **{"group.protocol": "consumer"}) for _ in range(2)]
    for one in made:
        one.subscribe(["orders"])
    for _ in range(300):
        for one in made:
            one.poll(0.05)
        if all(len(one.assignment()) == 2 for one in made):
            return made
    raise AssertionError("the groups did not settle")


def in_transactions(muster: Muster, dice: random.Random) -> None:
    """Some that are committed, some aborted, and one that is left open."""
    outside = librdkafka(muster.kafka, "transactional")
    for number in range(6):
        producer = Producer({"bootstrap.servers": muster.kafka, "transactional.id": f"t-{number}"})
        producer.init_transactions(10)
        producer.begin_transaction()
        offsets = [TopicPartition("orders", dice.randrange(4), dice.randrange(1000))]
        producer.send_offsets_to_transaction(offsets, outside.consumer_group_metadata(), 10)
        if number < 5:
            (producer.commit_transaction if dice.random() < 0.6 else producer.abort_transaction)(10)
    outside.close()


def tools(muster: Muster, dice: random.Random) -> None:
    """Commits from outside of any group, some of which are deleted with their group."""
    for number in range(8):
        tool = librdkafka(muster.kafka, f"tool-{number}")
        tool.commit(offsets=[TopicPartition("orders", p, dice.randrange(1000)) for p in range(4)], asynchronous=False)
        tool.close()
    admin = AdminClient({"bootstrap.servers": muster.kafka})
    for future in admin.delete_consumer_groups(["tool-1", "tool-5"]).values():
        future.result(10)


def answered(muster: Muster, groups: set[str]) -> Offsets:
    """The offsets that the server itself answers with."""
    admin = AdminClient({"bootstrap.servers": muster.kafka})
    found: Offsets = {}
    for group in sorted(groups):
        (future,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
        for one in future.result(10).topic_partitions:
            if one.offset >= 0:
                found[group, one.topic, one.partition] = one.offset
    return found


def test_what_a_killed_server_left(spark: Any, tmp_path: Path) -> None:
    dice = random.Random(9)
    acked: dict[int, int] = {}
    with Muster(tmp_path, "--topic", "orders:4") as muster:
        alive = members(muster)
        in_transactions(muster, dice)
        tools(muster, dice)
        hurried = librdkafka(muster.kafka, "hurried", on_commit=lambda _error, done: acked.update((p.partition, p.offset) for p in done))  # fmt: skip
        hurried.commit(offsets=[TopicPartition("orders", 0, 0)], asynchronous=False)  # it knows the coordinator now
        for number in range(1, 300):
            hurried.commit(offsets=[TopicPartition("orders", number % 4, number)], asynchronous=True)
            hurried.poll(0)
        for one in alive:
            one.commit(
                offsets=[TopicPartition("orders", p.partition, 77) for p in one.assignment()], asynchronous=False
            )
        muster.kill()
        left = tmp_path / "left"
        shutil.copytree(muster.data_dir, left, ignore=shutil.ignore_patterns("*.lock", "*.reserve"))
        got, states = of_tables(spark, left)
        assert {key[0] for key in got} == {"hurried", "transactional", "classic", "modern", *(f"tool-{n}" for n in (0, 2, 3, 4, 6, 7))}  # fmt: skip
    shutil.copytree(left, tmp_path / "again" / "data")
    with Muster(tmp_path / "again") as restarted:  # at a port of its own: clients that try again must not add to it
        assert got == answered(restarted, {key[0] for key in got} | {"tool-1", "tool-5"})
    assert all(got["hurried", "orders", partition] >= offset for partition, offset in acked.items())
    assert (got, states) == of_server(left)
    assert states["classic"][::2] == ("classic", 2)
    assert states["modern"][::2] == ("consumer", 2)
