"""The clock, holds, waits, states and namespaces as released clients meet them. All tests share one server."""

import io
import tarfile
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer, TopicPartition

from tests.compat.consumers import librdkafka, wait_for_share, wait_until
from tests.compat.steered import CLASSIC, OPTIONS, Confluent
from tests.live import Muster, server_fixture

DAY_MS = 86_400_000
NOTHING = -1001  # the offset of a partition without a commit


muster = server_fixture(*OPTIONS, "--topic=orders:4")


def member(muster: Muster, group: str, name: str, **settings: Any) -> Confluent:
    return Confluent(muster, name, **{"group.id": group, **CLASSIC, **settings})


def committed_offset(muster: Muster, group: str, topic: str = "orders") -> int:
    """What a client is told to be committed for partition 0."""
    consumer = librdkafka(muster.kafka, group)
    (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=60)
    consumer.close()
    return int(found.offset)


def commit(muster: Muster, group: str, at: int, topic: str = "orders") -> None:
    consumer = librdkafka(muster.kafka, group)
    consumer.commit(offsets=[TopicPartition(topic, 0, at)], asynchronous=False)
    consumer.close()


# -- the clock


def test_a_frozen_clock_serves_and_a_fast_one_expires(muster: Muster, group: str) -> None:
    """While the clock stands, members join, rebalance and commit; at a thousandfold pace a silent one is soon gone."""
    now_ms = muster.steer("PUT", "/clock", mode="frozen")["now_ms"]
    with member(muster, group, "a") as a:
        wait_for_share([a])
        commit(muster, f"{group}-offsets", 5)
        assert muster.steer("GET", "/clock?limit=0")["now_ms"] == now_ms
        muster.steer("POST", f"/groups/{group}/hold", at="heartbeat")
        muster.steer("PUT", "/clock", mode="rate", rate=1_000)
        muster.steer("POST", "/wait", group=group, members=0, timeout_ms=60_000)
        muster.steer("PUT", "/clock", mode="real")
        muster.steer("POST", f"/groups/{group}/release")
        wait_until(f"a has seen {a.seen}", lambda: "lost" in a.seen)


def test_records_expire_after_seven_days(muster: Muster, group: str) -> None:
    muster.steer("POST", "/state", topics={group: 1})
    producer = Producer({"bootstrap.servers": muster.kafka})
    now_ms = muster.steer("GET", "/clock?limit=0")["now_ms"]
    producer.produce(group, b"old", timestamp=now_ms)
    assert producer.flush(180) == 0
    consumer = librdkafka(muster.kafka, group)
    partition = TopicPartition(group, 0)
    muster.steer("POST", "/clock/advance", ms=7 * DAY_MS - 600_000, keep_alive="all")
    assert consumer.get_watermark_offsets(partition, timeout=60) == (0, 1)
    muster.steer("POST", "/clock/advance", ms=1_200_000, keep_alive="all")
    wait_until("the record has expired", lambda: consumer.get_watermark_offsets(partition, timeout=60) == (1, 1))
    consumer.close()


# -- hold and release


@pytest.mark.parametrize(("step", "state"), [("join", None), ("sync", "CompletingRebalance")])
def test_a_join_is_held_at_a_step(muster: Muster, group: str, step: str, state: str | None) -> None:
    muster.steer("POST", f"/groups/{group}/hold", at=step)
    with member(muster, group, "a") as a:
        number = next(one["number"] for one in muster.steer("GET", "/faults")["faults"] if one["on"]["group"] == group)
        muster.steer("POST", "/wait", fault=number, timeout_ms=60_000)
        groups = muster.steer("GET", f"/groups?prefix={group}")["groups"]
        assert [one["state"] for one in groups] == ([state] if state else [])
        assert not a.seen
        muster.steer("POST", f"/groups/{group}/release")
        wait_for_share([a])


def test_an_assignment_is_held(muster: Muster, group: str) -> None:
    """A member of the consumer protocol is assigned nothing while its heartbeats are held."""
    muster.steer("POST", f"/groups/{group}/hold", at="assignment")
    with Confluent(muster, "a", **{"group.id": group, "group.protocol": "consumer"}) as a:
        held = [one["number"] for one in muster.steer("GET", "/faults")["faults"] if one["on"]["group"] == group]
        wait_until("a's heartbeat is held", lambda: any(muster.steer("GET", f"/faults/{one}")["held"] for one in held))
        assert not a.seen
        muster.steer("POST", f"/groups/{group}/release")
        wait_for_share([a])


# -- states


def test_a_state_is_set_and_a_snapshot_restored(muster: Muster, group: str, tmp_path: Path) -> None:
    """A restored snapshot is the world as it was; its download is a data directory that another server starts with."""
    muster.steer("POST", "/state", topics={group: 2}, offsets={group: {group: {"0": 5}}})
    assert committed_offset(muster, group, group) == 5
    muster.steer("PUT", "/snapshots/before")
    commit(muster, group, 9, group)
    assert committed_offset(muster, group, group) == 9
    with member(muster, f"{group}-members", "a") as a:
        wait_for_share([a])
        muster.steer("POST", "/snapshots/before/restore")
        assert committed_offset(muster, group, group) == 5
        wait_until(f"a has seen {a.seen}", lambda: a.seen.count("assigned") > 1)
    with urllib.request.urlopen(f"{muster.ready['admin']}/v1/snapshots/before", timeout=60) as answer:
        data = answer.read()
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        tar.extractall(tmp_path / "data", filter="data")
    with Muster(tmp_path) as other:
        assert committed_offset(other, group, group) == 5
    muster.steer("DELETE", "/snapshots/before")


# -- namespaces


def test_namespaces_do_not_see_each_other(muster: Muster) -> None:
    """Two tests at work in one server: each lists, breaks, seeds and resets its own, and disturbs nobody."""
    for prefix in ("one-", "two-"):
        offsets = {f"{prefix}old": {f"{prefix}orders": {"0": 3}}}
        muster.steer("POST", "/state", topics={f"{prefix}orders": 4}, offsets=offsets)
    with (
        member(muster, "one-shop", "a", topics=["one-orders"]) as a,
        member(muster, "two-shop", "a", topics=["two-orders"]) as b,
    ):
        wait_for_share([a])
        wait_for_share([b])
        groups = muster.steer("GET", "/groups?prefix=one-")["groups"]
        assert [one["group"] for one in groups] == ["one-old", "one-shop"]
        assert muster.steer("GET", "/state?prefix=one-")["topics"] == {"one-orders": 4}
        (before,) = muster.steer("GET", "/groups?prefix=two-shop")["groups"]
        fault = {"on": {"api": "Heartbeat", "group": "one-shop"}, "do": {"error": "UNKNOWN_MEMBER_ID"}}
        number = muster.steer("POST", "/faults", **fault)["number"]
        wait_until(f"a has seen {a.seen}", lambda: "lost" in a.seen)
        assert muster.steer("GET", f"/faults/{number}")["hits"] == 1
        assert muster.steer("POST", "/reset", prefix="one-") == {"groups": 2, "topics": 1}
        assert muster.steer("GET", "/state?prefix=one-") == {"topics": {}, "offsets": {}}
        (after,) = muster.steer("GET", "/groups?prefix=two-shop")["groups"]
        assert after == before, "the same members in the same generation"
        assert b.seen == ["assigned"]
        assert committed_offset(muster, "two-old", "two-orders") == 3
        assert muster.steer("DELETE", "/groups?prefix=two-old") == {"groups": 1, "topics": 0}
        assert committed_offset(muster, "two-old", "two-orders") == NOTHING
