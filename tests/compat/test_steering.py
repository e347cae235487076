"""Released clients on a server that is steered: minutes of timeouts in a moment, faults that they must survive."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from coordinator import cli
from tests.compat.consumers import STOPS, wait_until
from tests.compat.steered import Confluent, KafkaPython, Polling, steer
from tests.live import WAIT_SECONDS, Muster

PARTITIONS = 4
CLASSIC: dict[str, Any] = {"session.timeout.ms": 45_000, "heartbeat.interval.ms": 100}


@pytest.fixture
def muster(tmp_path: Path) -> Iterator[Muster]:
    options = ["--ephemeral", f"--topic=orders:{PARTITIONS}", "--set=journal.max.bytes=16777216"]
    options += ["--set=group.consumer.min.heartbeat.interval.ms=100", "--set=group.consumer.heartbeat.interval.ms=100"]
    with Muster(tmp_path, *options) as server:
        yield server


def wait_for_share(*members: Polling) -> None:
    """Until the members own every partition once, and each of them some."""

    def is_shared() -> bool:
        owned = [partition for member in members for partition in member.owned]
        return sorted(owned) == list(range(PARTITIONS)) and all(member.owned for member in members)

    wait_until(f"{[member.owned for member in members]} is not all partitions once", is_shared)


def causes_of(muster: Muster) -> list[str]:
    """The causes in the group's timeline."""
    return [one["cause"]["kind"] for one in steer(muster, "GET", "/groups/shop/timeline")["events"]]


@pytest.mark.parametrize(
    "member",
    [
        pytest.param(partial(Confluent, **CLASSIC), id="classic"),
        pytest.param(partial(Confluent, **{"group.protocol": "consumer"}), id="consumer"),
        pytest.param(
            partial(KafkaPython, session_timeout_ms=45_000, heartbeat_interval_ms=100), id="kafka-python", marks=STOPS
        ),
    ],
)
@pytest.mark.parametrize("how", ["clock", "expire"])
def test_a_session_of_45_seconds_expires_in_a_moment(
    muster: Muster, member: Callable[[Muster, str], Polling], how: str
) -> None:
    """The member that is named learns that it lost its partitions; the other one stays, and takes them meanwhile."""
    with member(muster, "a") as a, member(muster, "b") as b:
        wait_for_share(a, b)
        if how == "clock":
            steer(muster, "POST", "/groups/shop/hold", at="heartbeat", client="b")  # or it beats while the clock moves
            fired = steer(muster, "POST", "/clock/advance", ms=45_001, keep_alive=["a"])["fired"]
            assert [one["kind"] for one in fired if one["group"] == "shop"][:1] == ["session"]
            steer(muster, "POST", "/groups/shop/release")
        else:
            steer(muster, "POST", "/groups/shop/members/b/expire")
        wait_until(f"b has seen {b.seen}", lambda: "lost" in b.seen)
        assert "lost" not in a.seen
        wait_for_share(a, b)
        assert "session_expired" in causes_of(muster)


def test_a_rebalance_timeout_of_five_minutes_ends_in_a_moment(muster: Muster) -> None:
    """B is held between two joins, as if its processing took too long: the clock ends the join phase without it."""
    with Confluent(muster, "a", **CLASSIC) as a, Confluent(muster, "b", **CLASSIC) as b:
        wait_for_share(a, b)
        steer(muster, "POST", "/groups/shop/hold", at="join", client="b")
        steer(muster, "POST", "/groups/shop/rebalance")
        steer(muster, "POST", "/wait", group="shop", state="PreparingRebalance")
        wait_until("b rejoins, and is held", lambda: steer(muster, "GET", "/faults")["faults"][0]["held"] == 1)
        wait_until("a has rejoined", lambda: causes_of(muster)[-1] == "member_rejoined")
        steer(muster, "POST", "/clock/advance", ms=300_000, keep_alive="all")
        wait_until(f"a owns {a.owned}", lambda: len(a.owned) == PARTITIONS)
        steer(muster, "POST", "/groups/shop/release")
        wait_for_share(a, b)
        assert {"rebalance_requested", "rebalance_timed_out"} <= set(causes_of(muster))


def test_half_an_applied_commit_doubles_the_work_of_a_consumer_that_trusts_it(muster: Muster) -> None:
    """The commit is applied and its response lost: the consumer goes back to what it believes to be committed."""
    producer = Producer({"bootstrap.servers": muster.kafka})
    work = [f"order {number}" for number in range(5)]
    for one in work:
        producer.produce("orders", one.encode(), partition=0)
    assert producer.flush(WAIT_SECONDS) == 0
    settings = {"group.id": "shop", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": muster.kafka, "socket.timeout.ms": 1_000, **settings})
    consumer.assign([TopicPartition("orders", 0, 0)])
    fault = steer(
        muster, "POST", "/faults", on={"api": "OffsetCommit", "group": "shop"}, do={"apply": True, "drop": "response"},
        count=None,
    )  # fmt: skip
    done: list[str] = []

    def process() -> bool:
        """Process what there is, and commit it; go back to the start if that fails."""
        records = consumer.consume(len(work) - len(done) % len(work), timeout=1.0)
        done.extend(record.value().decode() for record in records)
        if not records or len(done) % len(work):
            return False
        try:
            consumer.commit(offsets=[TopicPartition("orders", 0, len(work))], asynchronous=False)
        except KafkaException:
            consumer.seek(TopicPartition("orders", 0, 0))
            return False
        return True

    wait_until("the first commit has failed", lambda: process() or len(done) == len(work))
    assert steer(muster, "GET", "/groups/shop")["offsets"] == {"orders": {"0": len(work)}}
    steer(muster, "DELETE", f"/faults/{fault['number']}")
    wait_until("a commit has succeeded", process)
    consumer.close()
    assert done == work * 2


@pytest.mark.parametrize("how", ["kick", "fence"])
def test_a_removed_member_comes_back(muster: Muster, how: str) -> None:
    with Confluent(muster, "a", **CLASSIC) as a, Confluent(muster, "b", **CLASSIC) as b:
        wait_for_share(a, b)
        steer(muster, "POST", f"/groups/shop/members/b/{how}")
        wait_until(f"b has seen {b.seen}", lambda: "lost" in b.seen)
        wait_for_share(a, b)


def test_a_reset_under_load_leaks_nothing_of_the_old_world(muster: Muster) -> None:
    """Producers and a consumer are at work; after the reset there is no record, no offset and no member of before."""
    producer = Producer({"bootstrap.servers": muster.kafka, "message.timeout.ms": 60_000})
    with Confluent(muster, "a", **CLASSIC) as a:
        for number in range(200):
            producer.produce("orders", f"old {number}".encode())
        producer.flush(30)
        wait_for_share(a)
        before = steer(muster, "GET", "/groups/shop")["members"][0]["member_id"]
        steer(muster, "POST", "/reset")
        assert steer(muster, "GET", "/state") == {"topics": {"orders": PARTITIONS}, "offsets": {}}
        wait_until(f"a has seen {a.seen}", lambda: a.seen.count("assigned") > 1)
        after = steer(muster, "POST", "/wait", group="shop", state="Stable")["members"][0]["member_id"]
        assert before != after
    reader = Consumer({"bootstrap.servers": muster.kafka, "group.id": "reader", "auto.offset.reset": "earliest"})
    low, high = reader.get_watermark_offsets(TopicPartition("orders", 0), timeout=30)
    reader.close()
    assert (low, high) == (0, 0)


def test_what_a_client_did_can_be_verified(muster: Muster) -> None:
    with Confluent(muster, "a", **CLASSIC) as a:
        wait_for_share(a)
        expect = [{"api": "JoinGroup", "client": "a"}, {"api": "SyncGroup", "client": "a", "times": 1}]
        assert steer(muster, "POST", "/verify", expect=expect, in_order=True)["ok"]
        with pytest.raises(AssertionError, match="OffsetCommit client=a: expected at least 1, found 0"):
            steer(muster, "POST", "/verify", expect=[{"api": "OffsetCommit", "client": "a"}])
        assert steer(muster, "GET", "/lint") == {"findings": []}


def test_a_run_of_real_clients_is_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Members join, are kicked and leave, records are written and read: another server does the same, byte by byte."""
    options = [f"--topic=orders:{PARTITIONS}", "--seed=42", "--set=journal.max.bytes=67108864"]
    with Muster(tmp_path, *options, "--set=offsets.topic.num.partitions=3") as muster:
        producer = Producer({"bootstrap.servers": muster.kafka, "enable.idempotence": True})
        with Confluent(muster, "a", **CLASSIC) as a, Confluent(muster, "b", **CLASSIC) as b:
            wait_for_share(a, b)
            for number in range(100):
                producer.produce("orders", f"order {number}".encode(), partition=number % PARTITIONS)
            producer.flush(60)
            steer(muster, "POST", "/clock/advance", ms=600_000, keep_alive="all")
            steer(muster, "POST", "/groups/shop/members/b/kick")
            wait_until(f"b has seen {b.seen}", lambda: "lost" in b.seen)
            wait_for_share(a, b)
        consumer = Consumer({"bootstrap.servers": muster.kafka, "group.id": "other", "group.protocol": "consumer"})
        consumer.commit(offsets=[TopicPartition("orders", 0, 5)], asynchronous=False)
        consumer.close()
        journal = tmp_path / "run.jsonl"
        journal.write_text(muster.get("/v1/journal/file"))
        assert muster.stop() == 0
        assert cli.main(["replay", str(journal), "--data-dir", str(tmp_path / "again")]) == 0, capsys.readouterr().out
        assert " 0 of " in capsys.readouterr().out
        logs = sorted(path.relative_to(muster.data_dir) for path in muster.data_dir.glob("*/*.log"))
        assert len(logs) > PARTITIONS
        for log in logs:
            assert (tmp_path / "again" / log).read_bytes() == (muster.data_dir / log).read_bytes(), log
