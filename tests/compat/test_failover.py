"""Released clients while coordinators move and brokers stop: no commit is lost but those that shall be, and nobody
rebalances who need not."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import KafkaException, Message, TopicPartition

from tests.compat.consumers import produce, wait_for_share, wait_until
from tests.compat.steered import CLASSIC, CONSUMER, OPTIONS, Confluent
from tests.live import Muster, server_fixture

PARTITIONS = 6
PROTOCOLS = pytest.mark.parametrize("settings", [CLASSIC, CONSUMER], ids=["classic", "consumer"])


muster = server_fixture(*OPTIONS, "--brokers=3", f"--topic=orders:{PARTITIONS}", scope="function")


class Worker(Confluent):
    """A member that consumes, and commits each record until the coordinator has acknowledged it."""

    def __init__(self, muster: Muster, name: str, group: str = "shop", **settings: Any) -> None:
        super().__init__(muster, name, **{"group.id": group, **settings})
        self.got: list[tuple[int, int]] = []  # partition and offset
        self.acknowledged: dict[int, int] = {}  # the last offset by partition

    def take(self, record: Message) -> None:
        partition, offset = record.partition(), record.offset() + 1
        self.got.append((partition, record.offset()))
        while not self._stop.is_set():
            try:
                self.consumer.commit(offsets=[TopicPartition("orders", partition, offset)], asynchronous=False)
            except KafkaException as error:
                self.errors.append(error.args[0].name())
                time.sleep(0.05)
            else:
                self.acknowledged[partition] = offset
                return


def work(muster: Muster, count: int) -> None:
    """Write so many records to each partition."""
    produce("confluent-kafka", muster.kafka, "orders", PARTITIONS, map(str, range(count * PARTITIONS)))


def acknowledged(workers: Sequence[Worker]) -> dict[str, int]:
    """The last offset that was acknowledged to anybody, by partition."""
    return {str(partition): offset for one in workers for partition, offset in one.acknowledged.items()}


def wait_for_all(workers: Sequence[Worker], count: int) -> None:
    """Until so many records of each partition are committed."""
    expected = {str(partition): count for partition in range(PARTITIONS)}
    wait_until(f"all of {count} records a partition are committed", lambda: acknowledged(workers) == expected)


def wait_until_settled(muster: Muster, group: str, members: int) -> None:
    """Until the group is stable: a client may hear of its last epoch after its partitions."""
    muster.steer("POST", "/wait", group=group, state="Stable", members=members, timeout_ms=60_000)


@PROTOCOLS
def test_a_group_of_three_goes_through_a_move_without_losing_a_commit(muster: Muster, settings: dict[str, Any]) -> None:
    with ExitStack() as stack:
        workers = [stack.enter_context(Worker(muster, name, **settings)) for name in "abc"]
        wait_for_share(workers, PARTITIONS)
        wait_until_settled(muster, "shop", 3)
        seen = [list(one.seen) for one in workers]
        work(muster, 5)
        wait_for_all(workers, 5)
        home = muster.steer("GET", "/coordinators/shop")["broker"]
        for step in (1, 2):
            to = (home + step) % 3
            before = acknowledged(workers)
            muster.steer("POST", "/coordinators/shop/move", to=to, load_ms=500)
            work(muster, 5)
            moved = muster.steer("POST", "/wait", group="shop", coordinator=to, timeout_ms=60_000)
            assert all(moved["offsets"]["orders"][index] >= offset for index, offset in before.items())
            wait_for_all(workers, 5 + 5 * step)
        assert [one.seen for one in workers] == seen, "nobody has rebalanced"
        got = [one for worker in workers for one in worker.got]
        assert sorted(got) == [(partition, offset) for partition in range(PARTITIONS) for offset in range(15)]
        events = muster.steer("GET", "/groups/shop/timeline")["events"]
        assert [one["cause"]["kind"] for one in events].count("coordinator_moved") == 2
        assert muster.steer("GET", "/groups/shop")["offsets"]["orders"] == acknowledged(workers)


@PROTOCOLS
def test_exactly_the_last_commits_are_lost_and_consumed_again(muster: Muster, settings: dict[str, Any]) -> None:
    """After the move the members go on where they are. Those that come later get what is no longer committed."""
    work(muster, 5)
    first = Worker(muster, "a", **settings)
    with first:
        wait_for_all([first], 5)
    last = first.got[-4:]
    home = muster.steer("GET", "/coordinators/shop")["broker"]
    muster.steer("POST", "/coordinators/shop/move", to=(home + 1) % 3, load_ms=200, lose_last_commits=4)
    moved = muster.steer("POST", "/wait", group="shop", coordinator=(home + 1) % 3, timeout_ms=60_000)
    left = {
        str(partition): min([5, *(offset for at, offset in last if at == partition)]) for partition in range(PARTITIONS)
    }
    assert moved["offsets"]["orders"] == left
    with Worker(muster, "b", **settings) as second:
        wait_until("the lost commits are done again", lambda: len(second.acknowledged) == len({at for at, _ in last}))
        wait_until(f"{second.got} is {last}", lambda: sorted(second.got) == sorted(last))
    assert muster.steer("GET", "/groups/shop")["offsets"]["orders"] == {str(one): 5 for one in range(PARTITIONS)}


@PROTOCOLS
def test_members_that_are_lost_come_back(muster: Muster, settings: dict[str, Any]) -> None:
    with ExitStack() as stack:
        workers = [stack.enter_context(Worker(muster, name, **settings)) for name in "ab"]
        wait_for_share(workers, PARTITIONS)
        home = muster.steer("GET", "/coordinators/shop")["broker"]
        muster.steer("POST", "/coordinators/shop/move", to=(home + 1) % 3, keep_members=False)
        wait_until("both have lost their partitions", lambda: all("lost" in one.seen for one in workers))
        wait_for_share(workers, PARTITIONS)


def test_a_rolling_restart_under_five_groups_loses_nothing_and_rebalances_nobody(muster: Muster) -> None:
    groups = [f"shop-{number}" for number in range(5)]
    with ExitStack() as stack:
        members = {
            group: [
                stack.enter_context(Worker(muster, f"{group}-{name}", group, **(CONSUMER if group == "shop-4" else CLASSIC)))
                for name in "ab"
            ]
            for group in groups
        }  # fmt: skip
        for group, workers in members.items():
            wait_for_share(workers, PARTITIONS)
            wait_until_settled(muster, group, 2)
        assert len({muster.steer("GET", f"/coordinators/{group}")["broker"] for group in groups}) > 1
        seen = {one.name: list(one.seen) for workers in members.values() for one in workers}
        work(muster, 5)
        restarted = muster.steer("POST", "/brokers/rolling-restart", down_ms=300, load_ms=100)["brokers"]
        assert all(one["is_running"] and not one["loading"] for one in restarted)
        work(muster, 5)
        for group, workers in members.items():
            wait_for_all(workers, 10)
            assert muster.steer("GET", f"/groups/{group}")["offsets"]["orders"] == acknowledged(workers)
            got = [one for worker in workers for one in worker.got]
            assert sorted(got) == [(partition, offset) for partition in range(PARTITIONS) for offset in range(10)]
        assert {one.name: one.seen for workers in members.values() for one in workers} == seen, "nobody has rebalanced"
        stops = muster.steer("GET", "/groups/shop-0/timeline")["events"]
        assert "coordinator_moved" in [one["cause"]["kind"] for one in stops]
