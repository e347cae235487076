"""Released clients on a server that is steered: minutes of timeouts in a moment, faults that they must survive."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from coordinator import cli
from tests.compat.consumers import Member, librdkafka, produce, wait_for_share, wait_until
from tests.compat.steered import CLASSIC, CONSUMER, OPTIONS, Confluent, KafkaPython, Polling
from tests.live import Muster, server_fixture

PARTITIONS = 4


muster = server_fixture(*OPTIONS, "--topic=orders:4", scope="function")


@pytest.mark.parametrize(
    "member",
    [
        pytest.param(partial(Confluent, **CONSUMER), id="consumer"),
        pytest.param(partial(KafkaPython, session_timeout_ms=45_000, heartbeat_interval_ms=100), id="kafka-python"),
    ],
)
@pytest.mark.parametrize("how", ["clock", "expire"])
def test_a_session_of_45_seconds_expires_in_a_moment(
    muster: Muster, member: Callable[[Muster, str], Polling], how: str
) -> None:
    """The member that is named learns that it lost its partitions; the other one stays, and takes them meanwhile.

    The same with confluent-kafka's classic members: `test_timeline.py`.
    """
    with member(muster, "a") as a, member(muster, "b") as b:
        wait_for_share([a, b])
        if how == "clock":
            muster.steer("POST", "/groups/shop/hold", at="heartbeat", client="b")  # or it beats while the clock moves
            fired = muster.steer("POST", "/clock/advance", ms=45_001, keep_alive=["a"])["fired"]
            assert [one["kind"] for one in fired if one["group"] == "shop"][:1] == ["session"]
            muster.steer("POST", "/groups/shop/release")
        else:
            muster.steer("POST", "/groups/shop/members/b/expire")
        wait_until(f"b has seen {b.seen}", lambda: "lost" in b.seen)
        assert "lost" not in a.seen
        wait_for_share([a, b])
        events = muster.steer("GET", "/groups/shop/timeline")["events"]
        assert "session_expired" in [one["cause"]["kind"] for one in events]


def test_half_an_applied_commit_doubles_the_work_of_a_consumer_that_trusts_it(muster: Muster) -> None:
    """The commit is applied and its response lost: the consumer goes back to what it believes to be committed."""
    work = [f"order {number}" for number in range(5)]
    produce("confluent-kafka", muster.kafka, "orders", 1, work)
    consumer = librdkafka(muster.kafka, "shop", **{"socket.timeout.ms": 1_000})
    consumer.assign([TopicPartition("orders", 0, 0)])
    commits = {"api": "OffsetCommit", "group": "shop"}
    fault = muster.steer("POST", "/faults", on=commits, do={"apply": True, "drop": "response"}, count=None)
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
    assert muster.steer("GET", "/groups/shop")["offsets"] == {"orders": {"0": len(work)}}
    muster.steer("DELETE", f"/faults/{fault['number']}")
    wait_until("a commit has succeeded", process)
    consumer.close()
    assert done == work * 2


def test_a_reset_under_load_leaks_nothing_of_the_old_world(muster: Muster) -> None:
    """Producers and a consumer are at work; after the reset there is no record, no offset and no member of before."""
    producer = Producer({"bootstrap.servers": muster.kafka, "message.timeout.ms": 60_000})
    for number in range(200):
        producer.produce("orders", f"old {number}".encode())
    producer.flush(30)
    # In a process of its own: librdkafka takes a minute to close where its member is kept out.
    with Member("--session", "45000", "confluent-kafka", muster.kafka, "shop", "orders") as a:
        wait_for_share([a])
        before = muster.steer("GET", "/groups/shop")["members"][0]["member_id"]
        muster.steer("POST", "/reset")
        assert muster.steer("GET", "/state") == {"topics": {"orders": PARTITIONS}, "offsets": {}}
        with Confluent(muster, "b", **CLASSIC) as b:
            wait_for_share([b])
            (after,) = muster.steer("POST", "/wait", group="shop", state="Stable")["members"]
            assert after["member_id"] != before, "members of before the reset are kept out"
    reader = librdkafka(muster.kafka, "reader")
    low, high = reader.get_watermark_offsets(TopicPartition("orders", 0), timeout=30)
    reader.close()
    assert (low, high) == (0, 0)


def test_a_run_of_real_clients_is_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Members join, are kicked and leave, records are written and read: another server does the same, byte by byte."""
    options = [f"--topic=orders:{PARTITIONS}", "--seed=42", "--set=journal.max.bytes=67108864"]
    with Muster(tmp_path, *options, "--set=offsets.topic.num.partitions=3") as muster:
        producer = Producer({"bootstrap.servers": muster.kafka, "enable.idempotence": True})
        with Confluent(muster, "a", **CLASSIC) as a, Confluent(muster, "b", **CLASSIC) as b:
            wait_for_share([a, b])
            for number in range(100):
                producer.produce("orders", f"order {number}".encode(), partition=number % PARTITIONS)
            producer.flush(60)
            muster.steer("POST", "/clock/advance", ms=600_000, keep_alive="all")
            muster.steer("POST", "/groups/shop/members/b/kick")
            wait_until(f"b has seen {b.seen}", lambda: "lost" in b.seen)
            wait_for_share([a, b])
        consumer = librdkafka(muster.kafka, "other", **CONSUMER)
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


def test_a_member_of_kafka_python_goes_on_with_a_join_that_outlasts_its_polls(muster: Muster) -> None:
    """By `tests.compat.kafka_python`: else it would stop for good, as it leads the group and its topic has grown."""
    with KafkaPython(muster, "a", session_timeout_ms=45_000, metadata_max_age_ms=200) as a:
        wait_until(f"a owns {a.assigned}", lambda: len(a.assigned) == PARTITIONS)
        muster.steer("POST", "/faults", on={"api": "SyncGroup", "group": "shop"}, do={"delay_ms": 500})
        admin = AdminClient({"bootstrap.servers": muster.kafka})
        admin.create_partitions([NewPartitions("orders", PARTITIONS + 1)])["orders"].result(60)
        wait_until(f"a owns {a.assigned}", lambda: len(a.assigned) == PARTITIONS + 1)
