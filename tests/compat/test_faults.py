"""Each fault as released clients meet it: what the application sees, and what the server has done by then.

All tests share one server; each has a group of its own.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from kafka import KafkaConsumer
from kafka.errors import KafkaError as KafkaPythonError
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as KafkaPythonPartition

from tests.compat.consumers import librdkafka, wait_for_share, wait_until
from tests.compat.steered import CLASSIC, OPTIONS, Confluent
from tests.live import Muster, server_fixture

server = server_fixture(*OPTIONS, "--topic=orders:4", "--topic=more:2")


@pytest.fixture
def muster(server: Muster) -> Iterator[Muster]:
    yield server
    server.steer("DELETE", "/faults")


def fault(muster: Muster, do: dict[str, Any], *, count: int | None = 1, **on: Any) -> int:
    """Put a fault into force. Returns its number."""
    number: int = muster.steer("POST", "/faults", on=on, do=do, count=count)["number"]
    return number


def hits(muster: Muster, number: int) -> int:
    """How many requests a fault has met."""
    found: int = muster.steer("GET", f"/faults/{number}")["hits"]
    return found


def offset(muster: Muster, group: str) -> int | None:
    """What is committed for partition 0 of orders."""
    groups = {one["group"]: one for one in muster.steer("GET", f"/groups?prefix={group}")["groups"]}
    found: int | None = groups[group]["offsets"].get("orders", {}).get("0") if group in groups else None
    return found


def seen(muster: Muster, api: str, group: str) -> int:
    """How many of these requests of a group the server has seen."""
    return len(muster.steer("GET", f"/requests?api={api}&group={group}")["requests"])


@pytest.fixture
def committer(muster: Muster, group: str) -> Iterator[Consumer]:
    """A client that commits, and is no member of its group."""
    consumer = librdkafka(muster.kafka, group, **{"client.id": "committer", "socket.timeout.ms": 1_000})
    yield consumer
    consumer.close()


def commit(consumer: Consumer, at: int, topic: str = "orders") -> str:
    """Commit an offset. Returns the name of the error, "" if there was none."""
    try:
        consumer.commit(offsets=[TopicPartition(topic, 0, at)], asynchronous=False)
    except KafkaException as error:
        return str(error.args[0].name())
    return ""


@pytest.mark.parametrize("is_applied", [False, True])
def test_error(muster: Muster, group: str, committer: Consumer, is_applied: bool) -> None:
    fault(muster, {"error": "GROUP_AUTHORIZATION_FAILED", "apply": is_applied}, api="OffsetCommit", group=group)
    assert commit(committer, 5) == "GROUP_AUTHORIZATION_FAILED"
    assert offset(muster, group) == (5 if is_applied else None)
    assert commit(committer, 6) == "", "the fault was for one request"


def test_an_error_that_kafka_python_gets(muster: Muster, group: str) -> None:
    consumer = KafkaConsumer(bootstrap_servers=muster.kafka, group_id=group, enable_auto_commit=False)
    partition = KafkaPythonPartition("orders", 0)
    consumer.assign([partition])
    fault(muster, {"error": "TOPIC_AUTHORIZATION_FAILED"}, api="OffsetCommit", group=group)
    with pytest.raises(KafkaPythonError, match="TopicAuthorizationFailed"):
        consumer.commit({partition: OffsetAndMetadata(5, "", -1)})
    consumer.commit({partition: OffsetAndMetadata(6, "", -1)})
    consumer.close()
    assert offset(muster, group) == 6


@pytest.mark.parametrize("what", ["request", "response"])
def test_drop(muster: Muster, group: str, committer: Consumer, what: str) -> None:
    """The client waits for socket.timeout.ms, and sends the commit again."""
    fault(muster, {"drop": what}, api="OffsetCommit", group=group)
    assert commit(committer, 5) in ("", "_TIMED_OUT", "REQUEST_TIMED_OUT")
    wait_until(
        "the commit is sent again", lambda: seen(muster, "OffsetCommit", group) == 2 or commit(committer, 5) == ""
    )
    assert offset(muster, group) == 5


@pytest.mark.parametrize("when", ["before", "after"])
def test_disconnect(muster: Muster, group: str, committer: Consumer, when: str) -> None:
    """The client connects again, and repeats the commit: after "after" it is the second one."""
    number = fault(muster, {"disconnect": when}, api="OffsetCommit", group=group)
    wait_until("the commit has come through", lambda: commit(committer, 5) == "")
    assert hits(muster, number) == 1
    assert seen(muster, "OffsetCommit", group) >= 2
    assert offset(muster, group) == 5


def test_truncate(muster: Muster, group: str, committer: Consumer) -> None:
    fault(muster, {"truncate": 6}, api="OffsetCommit", group=group)
    wait_until("the commit has come through", lambda: commit(committer, 5) == "")
    (first, *others) = muster.steer("GET", f"/requests?api=OffsetCommit&group={group}")["requests"]
    assert len(first["response"]) == 2 * 6, "six bytes, as hexadecimal digits"
    assert others


def test_throttle(muster: Muster, group: str) -> None:
    told: list[float] = []
    settings = {**CLASSIC, "group.id": group, "throttle_cb": lambda one: told.append(one.throttle_time)}
    with Confluent(muster, "throttled", **settings) as a:
        wait_for_share([a])
        fault(muster, {"throttle_ms": 123}, api="Fetch", client="throttled")
        wait_until(f"a was told {told}", lambda: 0.123 in told)


def test_a_commit_is_held_until_it_is_released(muster: Muster, group: str, committer: Consumer) -> None:
    rules = muster.steer("POST", f"/groups/{group}/hold", at="commit")["faults"]
    (number,) = [one["number"] for one in rules if one["on"]["api"] == "OffsetCommit"]
    committer.commit(offsets=[TopicPartition("orders", 0, 5)], asynchronous=True)
    muster.steer("POST", "/wait", fault=number, hits=1, timeout_ms=60_000)
    assert muster.steer("GET", f"/faults/{number}")["held"] == 1
    assert offset(muster, group) is None
    muster.steer("POST", f"/groups/{group}/release")
    muster.steer("POST", "/wait", group=group, offsets={"orders": {"0": 5}}, timeout_ms=60_000)


def test_match_by_instance_and_generation(muster: Muster, group: str) -> None:
    """A fault is for the next generation of one static member: nothing happens before the group has rebalanced."""
    settings = {**CLASSIC, "group.id": group, "group.instance.id": "till-1"}
    with Confluent(muster, "a", **settings) as a:
        wait_for_share([a])
        on = {"api": "Heartbeat", "client": "till-1", "generation": 2}
        number = fault(muster, {"error": "FENCED_INSTANCE_ID"}, group=group, **on)
        beats = seen(muster, "Heartbeat", group)
        wait_until("two further heartbeats", lambda: seen(muster, "Heartbeat", group) > beats + 1)
        assert hits(muster, number) == 0
        muster.steer("POST", f"/groups/{group}/rebalance")
        wait_until(f"a has errors {a.errors}", lambda: "_FATAL" in a.errors)
        assert hits(muster, number) == 1


def test_scenario(muster: Muster, group: str, committer: Consumer) -> None:
    """A second commit is applied and its answer lost; then another group rebalances; then its member is fenced."""
    steps = [
        {"on": {"api": "OffsetCommit", "group": group, "nth": 2}, "do": {"apply": True, "drop": "response"}},
        {"after": {"group": "members", "state": "Stable", "members": 1}, "verb": {"rebalance": True}},
        {"on": {"api": "Heartbeat", "group": "members", "generation": 2}, "do": {"error": "UNKNOWN_MEMBER_ID"}},
    ]
    number = muster.steer("POST", "/scenarios", name="lost, then fenced", steps=steps)["number"]
    with Confluent(muster, "a", **CLASSIC, **{"group.id": "members"}) as a:
        wait_for_share([a])
        assert commit(committer, 5) == ""
        assert muster.steer("GET", f"/scenarios/{number}")["reached"] == 0
        committer.commit(offsets=[TopicPartition("orders", 0, 6)], asynchronous=True)
        wait_until("the scenario is done", lambda: muster.steer("GET", f"/scenarios/{number}")["done"])
        wait_until(f"a has seen {a.seen}", lambda: "lost" in a.seen)
        assert offset(muster, group) == 6
    muster.steer("DELETE", f"/scenarios/{number}")


def test_faults_of_a_producer(muster: Muster) -> None:
    """An idempotent producer repeats what was applied without an answer: no record is doubled."""
    number = fault(muster, {"apply": True, "drop": "response"}, api="Produce", topic="more")
    producer = Producer({"bootstrap.servers": muster.kafka, "enable.idempotence": True, "socket.timeout.ms": 1_000})
    failures: list[Any] = []
    producer.produce("more", b"once", partition=1, on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(180) == 0
    assert failures == [None]
    assert hits(muster, number) == 1
    reader = librdkafka(muster.kafka, "reader")
    assert reader.get_watermark_offsets(TopicPartition("more", 1), timeout=60) == (0, 1)
    reader.close()
