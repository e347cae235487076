"""Rebalances, their causes, members and moves, against what really happened."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from coordinator.core import records as facts
from pipeline.decode.layout import TOPIC
from pipeline.synth import Writer, fact
from pipeline.synth_groups import SESSION_MS, Truth, write_lives
from pipeline.tables import groups, members, rebalances
from pipeline.tables.commits import latest_offsets, offset_commits

pytestmark = pytest.mark.xdist_group("spark")


def raw(spark: Any, path: Path, table: str) -> Any:
    return spark.read.format("kafkalog").option("table", table).load(str(path))


class Tables:
    """The tables of a log, derived."""

    def __init__(self, spark: Any, path: Path) -> None:
        self.commits = offset_commits(raw(spark, path, "offset_commits"), raw(spark, path, "batches")).cache()
        self.metadata = groups.group_metadata(raw(spark, path, "group_records")).cache()
        self.new = groups.new_group_records(raw(spark, path, "group_records"))
        self.moves = members.partition_moves(self.metadata).cache()
        self.classic = rebalances.classic(self.metadata, self.commits, self.moves).cache()
        self.consumer = rebalances.consumer(self.new, self.commits)


@pytest.fixture(scope="module")
def lives(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Tables, list[Truth]]:
    directory = tmp_path_factory.mktemp("lives")
    truth = write_lives(directory, seed=5, groups=25, rebalances=16)
    return Tables(spark, directory), truth


def test_causes_are_inferred_with_precision_and_recall(lives: tuple[Tables, list[Truth]]) -> None:
    tables, truth = lives
    got = sorted(tables.classic.select("group", "log_offset", "causes").collect(), key=lambda row: row.log_offset)
    want = [(one.group, one.cause) for one in truth]
    assert [row.group for row in got] == [group for group, _ in want], "one row for each rebalance"
    hits, said, was = Counter[str](), Counter[str](), Counter[str]()
    for row, (_, cause) in zip(got, want, strict=True):
        said.update(row.causes)
        was[cause] += 1
        hits[cause] += cause in row.causes
    for cause in ("join", "leave", "timeout", "static_rejoin", "subscription_change", "partition_count_change"):
        precision, recall = hits[cause] / said[cause], hits[cause] / was[cause]
        print(f"{cause:24} precision {precision:.3f} recall {recall:.3f} of {was[cause]}")
        assert was[cause] > 10
        assert precision >= 0.95
        assert recall >= 0.95


def test_members_before_and_after_fit_together(lives: tuple[Tables, list[Truth]]) -> None:
    rows = lives[0].classic.collect()
    assert all(row.members_after - row.members_before == len(row.joined) - len(row.left) for row in rows)
    assert all(5 <= row.sync_ms < 400 for row in rows)
    assert all(row.commit_gap_ms is None or row.commit_gap_ms > 0 for row in rows)


def test_sessions_begin_and_end(lives: tuple[Tables, list[Truth]]) -> None:
    tables, truth = lives
    rows = members.member_sessions(tables.metadata, tables.classic, tables.new).collect()
    ended = Counter(row.end_reason for row in rows)
    happened = Counter(one.cause for one in truth)
    for cause in ("leave", "timeout", "static_rejoin"):
        assert ended[cause] == pytest.approx(happened[cause], abs=2)
    assert all((row.end_reason is None) == (row.to_ts is None) for row in rows)
    assert all(row.to_ts is None or row.to_ts >= row.from_ts for row in rows)
    assert all(row.to_ts - row.from_ts >= SESSION_MS for row in rows if row.end_reason == "timeout")


def test_moves_account_for_every_partition(lives: tuple[Tables, list[Truth]]) -> None:
    rows = lives[0].moves.collect()
    assert {row.kind for row in rows} == {"kept", "moved", "gained", "revoked"}
    for row in rows:
        assert (row.kind == "gained") == (row.from_owner is None)
        assert (row.kind == "revoked") == (row.to_owner is None)
    seen = Counter((row.group, row.log_offset, row.topic, row.partition) for row in rows)
    assert max(seen.values()) == 1
    share = {row.group: row.stickiness for row in members.stickiness(lives[0].moves).collect()}
    assert all(0 <= one <= 1 for one in share.values())


def epoch(number: int) -> facts.ConsumerGroupMetadataValue:
    return facts.ConsumerGroupMetadataValue(epoch=number)


@pytest.fixture(scope="module")
def modern(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Tables:
    """A consumer group: a joins, b joins, b changes its topics, the topic grows, a leaves, b leaves, it is deleted."""
    directory = tmp_path_factory.mktemp("modern")
    writer = Writer(directory / f"{TOPIC}-0")
    now = 1000

    def say(*records: tuple[Any, Any]) -> None:
        nonlocal now
        now += 1000
        writer.append([fact(key, value, now) for key, value in records])

    group = facts.ConsumerGroupMetadataKey("new")
    member = {name: facts.ConsumerGroupMemberMetadataKey("new", name) for name in "ab"}
    current = {name: facts.ConsumerGroupCurrentMemberAssignmentKey("new", name) for name in "ab"}
    target = facts.ConsumerGroupTargetAssignmentMetadataKey("new")

    def about(*topics: str) -> facts.ConsumerGroupMemberMetadataValue:
        return facts.ConsumerGroupMemberMetadataValue(client_id="c", subscribed_topic_names=topics)

    say((member["a"], about("t")), (group, epoch(1)), (target, facts.ConsumerGroupTargetAssignmentMetadataValue(1)))
    say((current["a"], facts.ConsumerGroupCurrentMemberAssignmentValue(member_epoch=1)))
    say((member["b"], about("t")), (group, epoch(2)), (target, facts.ConsumerGroupTargetAssignmentMetadataValue(2)))
    say((current["a"], facts.ConsumerGroupCurrentMemberAssignmentValue(member_epoch=2)))
    say((current["b"], facts.ConsumerGroupCurrentMemberAssignmentValue(member_epoch=2)))
    say((member["b"], about("t", "u")), (group, epoch(3)))
    say((group, epoch(4)))
    say((current["a"], None), (member["a"], None), (group, epoch(5)))
    say((current["b"], None), (member["b"], None), (group, epoch(6)))
    say((target, None), (group, None))
    return Tables(spark, directory)


def test_epochs_of_a_consumer_group_and_why(modern: Tables) -> None:
    rows = sorted(modern.consumer.collect(), key=lambda row: row.log_offset)
    assert [(row.generation, row.cause, row.members_before, row.members_after) for row in rows] == [
        (1, "join", 0, 1),
        (2, "join", 1, 2),
        (3, "subscription_change", 2, 2),
        (4, "partition_count_change", 2, 2),
        (5, "leave_or_timeout", 2, 1),
        (6, "leave_or_timeout", 1, 0),
        (None, "deleted", 0, 0),
    ]
    assert [row.epoch_settle_ms for row in rows[:3]] == [1000, 2000, None]
    assert rows[1].cause_detail == "joined: b"


def test_sessions_of_a_consumer_group(modern: Tables) -> None:
    rows = members.member_sessions(modern.metadata, modern.classic, modern.new).collect()
    assert {(row.member_id, row.from_ts, row.to_ts, row.end_reason) for row in rows} == {
        ("a", 2000, 9000, "leave_or_timeout"),
        ("b", 4000, 10_000, "leave_or_timeout"),
    }


def test_a_deleted_group_has_no_state(modern: Tables, lives: tuple[Tables, list[Truth]]) -> None:
    assert groups.group_state(modern.metadata, modern.new, latest_offsets(modern.commits, 0)).count() == 0
    tables, truth = lives
    last = {one.group: one.generation for one in truth}
    rows = groups.group_state(tables.metadata, tables.new, latest_offsets(tables.commits, 0)).collect()
    assert {row.group: row.generation for row in rows} == last
