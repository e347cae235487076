"""The history of groups, from records alone: causes against the engine's events, and each case for itself."""

import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial, reduce
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.core.events import Cause
from pipeline.decode.layout import TOPIC
from pipeline.history.activity import activity_of, gather_activity
from pipeline.history.departures import follow
from pipeline.history.gaps import format_partitions
from pipeline.history.group import HELD_MAX, GroupHistory
from pipeline.history.records import OF_EPOCHS, Move, Rebalance, Record, Role, Row, Session
from pipeline.synth_groups import write_lives
from tests.pipeline.engine import TOLD, Engine, EngineOfWrongClock
from tests.pipeline.group_logs import read_rows
from tests.pipeline.read_histories import read
from tests.pipeline.simulated_groups import live, live_hard

CERTAIN = (
    "join", "leave", "static_rejoin", "subscription_change", "partition_count_change", "topic_found",
    "cooperative_handover", "migrated",
)  # fmt: skip
MEMBER = next(version for version, (kind, role) in OF_EPOCHS.items() if (kind, role) == ("consumer", Role.MEMBER))
MODERN = {Cause.SUBSCRIPTION_CHANGED: "subscription_change", Cause.STATIC_MEMBER_RETURNED: "static_rejoin"}
GROUPS, HAPPENINGS = 32, 15
PIECES, PIECE = 8, 30  # logs that the long test makes, and the groups of each of two kinds of life in one


def every(seconds: float, first: float, last: float) -> list[float]:
    return [first + n * seconds for n in range(int((last - first) / seconds) + 1)]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    made = Engine(tmp_path_factory.mktemp("habits") / f"{TOPIC}-0")
    for number in range(GROUPS):
        live(made, f"group-{number}", Random(number), HAPPENINGS)
    return made


@pytest.fixture(scope="module")
def rows(engine: Engine) -> list[Row]:
    return read(engine.directory)


def true_causes(engine: Engine) -> dict[tuple[str, int], set[str]]:
    """(group, log offset) -> causes for classic groups, (group, epoch) for consumer groups."""
    truths = {(one.group, one.at): set(one.causes) for one in engine.truth}
    for event in engine.events:
        cause = MODERN.get(event.cause) or TOLD.get(event.cause)
        if event.type == "consumer" and cause:
            truths.setdefault((event.group, event.generation), set()).add(cause)
    return truths


def score(engine: Engine, rows: list[Row]) -> tuple[Counter[str], Counter[str]]:
    """How often each cause was named, and how often wrongly; prints both, and the recall."""
    truths = true_causes(engine)
    claimed, wrong, happened, hit = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for row in rows:
        if not isinstance(row, Rebalance):
            continue
        truth = truths.get((row.group, row.log_offset if row.type == "classic" else row.generation or 0), set())
        for cause in row.causes:
            if cause in CERTAIN:
                claimed[cause] += 1
                wrong[cause] += cause not in truth
        happened.update(truth)
        hit.update(truth.intersection(row.causes))
    for cause in CERTAIN:
        recall = hit[cause] / happened[cause] if happened[cause] else 1.0
        print(f"{cause:24} claimed {claimed[cause]:5} wrong {wrong[cause]:4} recall {recall:.2f} of {happened[cause]}")
    print(f"wrong: {wrong.total() / claimed.total():.2%} of {claimed.total()} certain answers")
    return claimed, wrong


def test_certain_answers_are_right(engine: Engine, rows: list[Row]) -> None:
    claimed, wrong = score(engine, rows)
    assert min(claimed[cause] for cause in CERTAIN if cause != "migrated") > 10
    assert wrong.total() <= 0.02 * claimed.total()
    assert all(wrong[cause] <= 0.05 * claimed[cause] for cause in CERTAIN), wrong


def test_what_is_easily_mistaken_is_not_named(tmp_path: Path) -> None:
    made = Engine(tmp_path / f"{TOPIC}-0")
    for number in range(GROUPS):
        live_hard(made, f"group-{number}", Random(number), HAPPENINGS)
    rows = read(made.directory)
    claimed, wrong = score(made, rows)
    assert claimed["leave"] > 10
    assert wrong.total() <= 0.02 * claimed.total()
    assert all(wrong[cause] <= 0.02 * claimed[cause] for cause in CERTAIN), wrong
    certain, wrong_ends = find_wrong_ends(made, rows)
    assert certain > 10
    assert len(wrong_ends) <= 0.02 * certain, wrong_ends


def test_nothing_is_certain_by_a_clock_that_went_back(tmp_path: Path) -> None:
    made = EngineOfWrongClock(tmp_path / f"{TOPIC}-0", Random(5))
    for number in range(GROUPS // 2):
        (live_hard if number % 2 else live)(made, f"group-{number}", Random(1000 + number), HAPPENINGS)
    rows = read(made.directory)
    claimed, wrong = score(made, rows)
    assert claimed["leave"] > 10
    assert wrong.total() <= 0.02 * claimed.total()
    assert wrong["leave"] <= 0.02 * claimed["leave"]
    certain, wrong_ends = find_wrong_ends(made, rows)
    assert len(wrong_ends) <= 0.02 * certain, wrong_ends


@pytest.mark.parametrize(
    ("first", "second", "end"),
    [
        pytest.param(every(3, 0, 99), every(3, 99, 147), "leave", id="the clock is right"),
        pytest.param(every(3, 0, 99), every(3, 60, 147), "leave_or_timeout", id="it went back for the other one"),
    ],
)
def test_a_member_is_gone_by_a_wrong_clock(first: list[float], second: list[float], end: str) -> None:
    """Member a has committed until 147 s, and the one that is still there goes on from an earlier time."""
    script = Script()
    script.generation(0, 1, a=[0], b=[1])
    script.commits(p0=every(3, 0, 147), p1=[*first, *second])
    script.generation(148, 2, b=[0, 1])
    assert script.end().causes()[1] == [end]


@pytest.mark.parametrize(("at", "end"), [(148, "leave"), (146.5, "leave"), (140, "leave_or_timeout")])
def test_a_generation_may_be_older_than_the_commits_before_it(at: float, end: str) -> None:
    script = Script()
    script.generation(0, 1, a=[0], b=[1])
    script.commits(p0=every(3, 0, 147), p1=every(3, 0, 147))
    script.generation(at, 2, b=[0, 1])
    assert script.end().causes()[1] == [end]


@pytest.mark.long
@pytest.mark.parametrize("piece", range(PIECES))
def test_certain_answers_are_right_of_groups_nobody_has_seen(tmp_path: Path, piece: int) -> None:
    first = int(os.environ.get("MUSTER_TEST_SEED", time.time_ns() % 1_000_000_000)) + piece * PIECE
    print(f"MUSTER_TEST_SEED={first - piece * PIECE}")
    made = Engine(tmp_path / f"{TOPIC}-0")
    for seed in range(first, first + PIECE):
        live(made, f"group-{seed}", Random(seed), HAPPENINGS)
        live_hard(made, f"hard-{seed}", Random(seed), HAPPENINGS)
    rows = read(made.directory)
    claimed, wrong = score(made, rows)
    assert claimed["leave"] > 10
    assert wrong.total() <= 0.02 * claimed.total()
    certain, wrong_ends = find_wrong_ends(made, rows)
    assert len(wrong_ends) <= 0.02 * certain, wrong_ends


def test_what_the_generator_made_up_is_inferred(tmp_path: Path) -> None:
    truth = write_lives(tmp_path, seed=5, groups=25, rebalances=16)
    rows = read(tmp_path / f"{TOPIC}-0")
    found = sorted((row for row in rows if isinstance(row, Rebalance)), key=lambda row: row.log_offset)
    assert [row.group for row in found] == [one.group for one in truth], "one row for each rebalance"
    claimed, hit, happened = Counter[str](), Counter[str](), Counter[str]()
    for row, one in zip(found, truth, strict=True):
        claimed.update(row.causes)
        happened[one.cause] += 1
        hit[one.cause] += one.cause in row.causes
    for cause in set(happened):
        print(f"{cause:24} recall {hit[cause] / happened[cause]:.2f} of {happened[cause]}")
        assert hit[cause] >= 0.98 * claimed[cause]
        assert hit[cause] >= (0 if cause == "timeout" else 0.7 if cause == "leave" else 0.95) * happened[cause]
    assert all(row.members_after - (row.members_before or 0) == len(row.joined) - len(row.left) for row in found)
    assert all((row.sync_ms is None) == (row.causes == ["static_rejoin"]) for row in found)
    assert all(row.sync_ms is None or 5 <= row.sync_ms < 400 for row in found)
    assert all(row.commit_gap_ms is None or row.commit_gap_ms > 0 for row in found)
    sessions = [row for row in rows if isinstance(row, Session)]
    assert all((row.end_reason is None) == (row.to_ts is None) for row in sessions)
    ended = Counter(row.end_reason for row in sessions)
    assert ended["static_rejoin"] == happened["static_rejoin"]
    assert ended["leave"] + ended["timeout"] + ended["leave_or_timeout"] == happened["leave"] + happened["timeout"]
    seen = Counter((row.group, row.log_offset, row.topic, row.partition) for row in rows if isinstance(row, Move))
    assert max(seen.values()) == 1


def find_wrong_ends(engine: Engine, rows: list[Row]) -> tuple[int, list[Session]]:
    """How many sessions have a certain end, and those that ended in another way."""
    ends = {Cause.MEMBER_LEFT: "leave", Cause.SESSION_EXPIRED: "timeout", Cause.REBALANCE_TIMED_OUT: "timeout"}
    truth = {event.member: ends[event.cause] for event in engine.events if event.cause in ends and event.member}
    sessions = [row for row in rows if isinstance(row, Session) and row.end_reason in ("leave", "timeout")]
    wrong = [row for row in sessions if truth.get(row.member_id) != row.end_reason]
    return len(sessions), wrong


def test_sessions_end_as_the_members_did(engine: Engine, rows: list[Row]) -> None:
    certain, wrong = find_wrong_ends(engine, rows)
    assert certain > 50
    assert len(wrong) <= 0.02 * certain, wrong


class Script:
    """Records of one group, one after the other, and the rows that they lead to. Times are in seconds."""

    def __init__(self) -> None:
        self.history = GroupHistory("g")
        self.rows: list[Row] = []
        self.offset = 0

    def record(self, at: float, key_version: int, value: dict[str, Any] | None, member: str | None = None, epoch: int | None = None) -> None:  # fmt: skip
        payload = msgspec.json.encode(value or {}).decode()
        self.offset += 1
        self.rows += self.history.apply(Record(self.offset, int(at * 1000), key_version, member, epoch, value is None, payload))  # fmt: skip

    def generation(self, at: float, number: int, *, rebalance_s: int = 300, protocol: str = "p", instances: dict[str, str] | None = None, formed_at: float | None = None, **owned: list[int]) -> None:  # fmt: skip
        """A generation of these members, each with its partitions of the topic `t`; it was formed when it is written, or
        before."""
        members = [
            {
                "member_id": name, "group_instance_id": (instances or {}).get(name), "client_id": "c", "client_host": "h",
                "rebalance_timeout": rebalance_s * 1000, "session_timeout": 45_000, "subscription": "s",
                "assignment": {"t": numbers} if numbers else {},
            }
            for name, numbers in owned.items()
        ]  # fmt: skip
        value = {
            "generation": number,
            "protocol": protocol,
            "current_state_timestamp": int((at if formed_at is None else formed_at) * 1000),
            "members": members,
        }
        self.record(at, 2, value, epoch=number)

    def commits(self, **times: list[float]) -> None:
        """Commits since the last generation: partition `p<number>` -> times."""
        for partition, ats in times.items():
            parts = [activity_of(int(at * 1000), is_txn=False) for at in ats]
            activity = reduce(follow, parts)
            self.history.observe("t", int(partition[1:]), activity)

    def member(self, at: float, name: str, instance: str | None = None, topics: tuple[str, ...] = ("t",)) -> None:
        """The metadata of a member of a consumer group."""
        self.record(at, 5, {"instance_id": instance, "client_id": "c", "subscribed_topic_names": topics}, name)

    def epoch(self, at: float, number: int, digest: int = 1) -> None:
        """An epoch of a consumer group, its target, and all members that reach it."""
        self.record(at, 3, {"epoch": number, "metadata_hash": digest}, epoch=number)

    def end(self) -> "Script":
        self.rows += self.history.end()
        return self

    def causes(self) -> list[list[str]]:
        found = sorted((row for row in self.rows if isinstance(row, Rebalance)), key=lambda row: row.log_offset)
        return [row.causes for row in found]

    def ends(self) -> dict[str, str | None]:
        return {row.member_id: row.end_reason for row in self.rows if isinstance(row, Session)}

    def moves(self, offset: int) -> dict[int, tuple[str, str | None]]:
        moves = [row for row in self.rows if isinstance(row, Move) and row.log_offset == offset]
        return {row.partition: (row.kind, row.from_owner) for row in moves}


def test_a_cooperative_handover_is_a_cause_of_its_own_and_a_move() -> None:
    script = Script()
    script.generation(0, 1, a=[0, 1, 2, 3])
    script.generation(10, 2, a=[0, 1], b=[])
    script.generation(11, 3, a=[0, 1], b=[2, 3])
    script.end()
    assert script.causes() == [["join"], ["join"], ["cooperative_handover"]]
    assert script.moves(2) == {0: ("kept", "a"), 1: ("kept", "a"), 2: ("revoked", "a"), 3: ("revoked", "a")}
    assert script.moves(3) == {0: ("kept", "a"), 1: ("kept", "a"), 2: ("moved", "a"), 3: ("moved", "a")}


def test_partitions_are_more_only_if_nobody_had_them() -> None:
    script = Script()
    script.generation(0, 1, a=[0, 1])
    script.generation(10, 2, a=[0, 1, 2])
    script.generation(20, 3, a=[0])
    script.generation(9000, 4, a=[0, 1])
    assert script.end().causes() == [["join"], ["partition_count_change"], ["unknown"], ["unknown"]]


def test_a_topic_is_found_if_nobody_had_anything_of_it() -> None:
    """A leader that joins before it knows the topics has nothing to assign, and joins again (kafka-python)."""
    script = Script()
    script.generation(0, 1, a=[])
    script.generation(0.1, 2, a=[0, 1, 2])
    script.generation(9, 3)
    script.generation(20, 4, b=[])
    script.generation(20.1, 5, b=[0, 1, 2])
    script.generation(30, 6, b=[0, 1, 2, 3])
    script.end()
    found = sorted((row for row in script.rows if isinstance(row, Rebalance)), key=lambda row: row.log_offset)
    assert [one.causes[0] for one in found] == [
        "join", "topic_found", "emptied", "join", "topic_found", "partition_count_change",
    ]  # fmt: skip
    assert [one.cause_detail for one in found][1::3] == ["topics: t", "topics: t"]
    assert [one.cause_detail for one in found][5] == "topics: t"


def test_what_an_owner_gave_up_long_ago_is_nothing_that_the_leader_has_found() -> None:
    script = Script()
    script.generation(0, 1, rebalance_s=60, a=[0])
    script.generation(10, 2, rebalance_s=60, a=[], b=[])
    script.generation(900, 3, rebalance_s=60, a=[], b=[0])
    assert script.end().causes() == [["join"], ["join"], ["unknown"]]


@pytest.mark.parametrize(
    ("last_commits", "rebalance_s", "protocol", "end"),
    [
        pytest.param((147, 147), 300, "range", "leave", id="it was alive, and the generation is young"),
        pytest.param((100, 147), 300, "range", "leave_or_timeout", id="it was silent, for whatever reason"),
        pytest.param((None, 147), 300, "range", "leave_or_timeout", id="it has never committed"),
        pytest.param((147, 147), 60, "range", "leave", id="the other one was busy until the end"),
        pytest.param((147, 110), 60, "range", "leave_or_timeout", id="the other one may have waited for it"),
        pytest.param((147, None), 60, "range", "leave_or_timeout", id="the other one never commits"),
        pytest.param(
            (147, 147), 60, "cooperative-sticky", "leave_or_timeout", id="the other one commits while it waits"
        ),
    ],
)
@pytest.mark.parametrize("returns", [False, True], ids=["", "another one has returned meanwhile"])
def test_a_member_is_gone(
    last_commits: tuple[int | None, ...], rebalance_s: int, protocol: str, end: str, *, returns: bool
) -> None:
    """Members a and b commit every three seconds until then; of them b alone is in the generation at 148 s.

    That a static member returns within the generation says nothing of a.
    """
    script, known = (
        Script(),
        {"rebalance_s": rebalance_s, "protocol": protocol, "instances": dict.fromkeys(("c", "c2"), "till")},
    )
    commits = {f"p{n}": every(3, 0, last) for n, last in enumerate(last_commits) if last is not None}
    script.generation(0, 1, a=[0], b=[1], **({"c": []} if returns else {}), **known)
    if returns:
        script.commits(**{name: some for name, ats in commits.items() if (some := [at for at in ats if at < 140])})
        script.generation(140, 1, a=[0], b=[1], c2=[], formed_at=0, **known)
        commits = {name: some for name, ats in commits.items() if (some := [at for at in ats if at > 140])}
    script.commits(**commits)
    script.generation(148, 2, b=[0, 1], **({"c2": []} if returns else {}), **known)
    assert script.end().causes() == [["join"], *([["static_rejoin"]] * returns), [end]]
    assert script.ends() == {"a": end, "b": None, **({"c": "static_rejoin", "c2": None} if returns else {})}


@pytest.mark.parametrize(
    ("last_commit", "end"), [(147, "leave"), (100, "leave_or_timeout"), (None, "leave_or_timeout")]
)
def test_a_static_member_is_removed_by_no_join_phase(last_commit: int | None, end: str) -> None:
    """The other one has not committed for long: of a dynamic member nothing could be said."""
    script = Script()
    script.generation(0, 1, rebalance_s=60, instances={"a": "till"}, a=[0], b=[1])
    if last_commit is not None:
        script.commits(p0=every(3, 0, last_commit))
    script.generation(148, 2, rebalance_s=60, b=[0, 1])
    assert script.end().causes()[1] == [end]


def test_the_only_member_cannot_have_been_waited_for() -> None:
    script = Script()
    script.generation(0, 1, rebalance_s=60, a=[0])
    script.commits(p0=every(3, 0, 900))
    script.generation(901, 2, rebalance_s=60)
    assert script.end().causes()[1] == ["emptied", "leave"]


@pytest.mark.parametrize(
    ("pause_s", "cause"), [(30, "cooperative_handover"), (90, "cooperative_handover"), (150, "unknown")]
)
def test_a_handover_may_take_two_rebalance_timeouts(pause_s: int, cause: str) -> None:
    """The member that gives up partitions rejoins late, and the others are waited for as long again."""
    script = Script()
    script.generation(0, 1, rebalance_s=60, a=[0, 1])
    script.generation(10, 2, rebalance_s=60, a=[0], b=[])
    script.generation(10 + pause_s, 3, rebalance_s=60, a=[0], b=[1])
    assert script.end().causes()[2] == [cause]


def test_a_member_that_missed_a_rebalance_did_not_leave() -> None:
    """It beats and commits, but does not rejoin when b joins; the join phase ends without it after 60 s."""
    script = Script()
    script.generation(0, 1, a=[0], rebalance_s=60)
    script.commits(p0=every(3, 0, 99))
    script.generation(100, 2, b=[0], rebalance_s=60)
    assert script.end().causes()[1] == ["leave_or_timeout", "join"]


@pytest.mark.parametrize(
    ("at", "generation", "last_commit", "cause"),
    [
        pytest.param(100, 1, 3, "static_rejoin", id="within the generation it was there"),
        pytest.param(40, 2, None, "static_rejoin", id="within a session of its join"),
        pytest.param(100, 2, 60, "static_rejoin", id="within a session of its last commit"),
        pytest.param(100, 2, 50, "static_rejoin_or_join", id="it may have been removed in between"),
    ],
)
def test_a_static_member_is_back(at: int, generation: int, last_commit: int | None, cause: str) -> None:
    script = Script()
    script.generation(0, 1, instances={"a": "till"}, a=[0], b=[1])
    if last_commit is not None:
        script.commits(p0=[last_commit])
    script.generation(at, generation, instances={"a2": "till"}, a2=[0], b=[1])
    assert script.end().causes()[1] == [cause]
    assert script.ends() == {"a": cause, "a2": None, "b": None}


def test_what_came_before_the_first_record_is_not_known() -> None:
    script = Script()
    script.generation(0, 57, a=[0])
    script.generation(1, 58, a=[0], b=[])
    assert script.end().causes() == [["unknown"], ["join"]]


def test_a_group_that_was_deleted_begins_anew() -> None:
    script = Script()
    script.generation(0, 5, a=[0])
    script.record(10, 2, None)
    script.generation(20, 1, a=[0])
    assert script.end().causes() == [["unknown"], ["deleted"], ["join"]]


def test_a_group_migrates_and_its_members_stay() -> None:
    script = Script()
    script.generation(0, 1, a=[0], b=[1])
    script.record(10, 2, None)
    for name in "ab":
        script.member(10, name)
    script.epoch(10, 1)
    script.member(10, "new")
    script.epoch(10, 2)
    for name in ("new", "b"):  # b leaves with the last member of the new protocol: a stays
        script.record(20, 5, None, name)
    script.record(20, 5, None, "a")
    script.record(20, 3, None)
    script.generation(20, 2, a=[0])
    script.end()
    assert script.causes() == [["join"], ["migrated"], ["join"], ["migrated", "leave_or_timeout"]]
    assert script.moves(script.offset) == {0: ("gained", None)}, (
        "who had it before it was a consumer group is long past"
    )
    ended = [(row.type, row.member_id, row.end_reason) for row in script.rows if isinstance(row, Session)]
    assert sorted(ended, key=str) == [
        ("classic", "a", "migrated"), ("classic", "a", None), ("classic", "b", "migrated"),
        ("consumer", "a", "migrated"), ("consumer", "b", "leave_or_timeout"), ("consumer", "new", "leave_or_timeout"),
    ]  # fmt: skip


@pytest.mark.parametrize("instance", ["i", None])
def test_a_static_member_may_come_back_with_the_classic_protocol(instance: str | None) -> None:
    """Where it was the last one of the newer protocol, the group goes on as a classic one."""
    script = Script()
    script.member(0, "a", instance)
    script.epoch(0, 1)
    script.record(10, 5, None, "a")
    script.record(10, 3, None)
    script.generation(10, 2, a2=[0], instances={"a2": instance} if instance else None)
    # How long a session of the newer protocol lasts, no record of the group says.
    other = ["static_rejoin_or_join"] if instance else ["leave_or_timeout", "join"]
    assert script.end().causes() == [["join"], ["migrated", *other]]


def test_a_static_member_of_a_consumer_group_comes_back() -> None:
    script = Script()
    script.member(0, "a", "i")
    script.epoch(0, 1)
    script.record(10, 5, None, "a")
    script.member(10, "a2", "i")
    script.member(20, "b")
    script.epoch(20, 2)
    script.record(30, 5, None, "a2")
    script.member(30, "a3", "i", ("t", "u"))
    script.epoch(30, 3)
    script.end()
    assert script.causes() == [["join"], ["static_rejoin"], ["join"], ["static_rejoin"]]
    assert script.ends() == {"a": "static_rejoin", "a2": "static_rejoin", "a3": None, "b": None}


def test_epochs_of_a_consumer_group_and_why() -> None:
    script = Script()
    script.member(0, "a")
    script.epoch(0, 1)
    script.record(0, 6, {}, epoch=1)
    script.record(2, 8, {}, "a", 1)
    script.member(10, "a", None, ("t", "u"))
    script.epoch(10, 2)
    script.epoch(20, 3, digest=2)
    script.epoch(30, 4, digest=2)
    script.record(40, 5, None, "a")
    script.epoch(40, 5, digest=2)
    script.record(50, 3, None)
    script.member(86_400, "a")
    script.epoch(86_400, 1)
    script.record(86_400, 6, {}, epoch=1)
    script.record(86_403, 8, {}, "a", 1)
    script.end()
    assert script.causes() == [
        ["join"], ["subscription_change"], ["partition_count_change"], ["unknown"], ["leave_or_timeout"], ["deleted"],
        ["join"],
    ]  # fmt: skip
    settled = [row.epoch_settle_ms for row in script.rows if isinstance(row, Rebalance) and row.generation == 1]
    assert settled == [2000, 3000]


def test_the_first_hash_of_a_newer_broker_is_no_change_of_topics() -> None:
    """Brokers before 4.1 write the topics into a record; the first hash comes with the upgrade."""
    topics = next(version for version, of in OF_EPOCHS.items() if of == ("consumer", Role.TOPICS))
    script = Script()
    script.member(0, "a")
    script.record(0, topics, {"topics": []})
    script.epoch(0, 1, digest=0)
    script.record(5, topics, {"topics": []})
    script.epoch(5, 2, digest=0)
    script.epoch(9, 3, digest=7)
    script.epoch(12, 4, digest=8)
    assert script.end().causes() == [["join"], ["partition_count_change"], ["unknown"], ["partition_count_change"]]


@pytest.mark.parametrize("kind", sorted({kind for kind, _ in OF_EPOCHS.values()}))
def test_groups_of_every_kind_with_epochs_have_a_history(kind: str) -> None:
    number = {role: version for version, (of, role) in OF_EPOCHS.items() if of == kind}
    script = Script()
    script.record(0, number[Role.MEMBER], {"client_id": "c"}, "a")
    script.record(0, number[Role.EPOCH], {"metadata_hash": 1}, epoch=2)
    script.record(0, number[Role.TARGET], {}, epoch=2)
    script.record(3, number[Role.CURRENT], {}, "a", 2)
    script.record(9, number[Role.MEMBER], {"client_id": "c"}, "b")
    script.record(9, number[Role.MEMBER], None, "a")
    script.record(9, number[Role.EPOCH], {"metadata_hash": 1}, epoch=3)
    script.record(20, number[Role.MEMBER], None, "b")
    script.record(20, number[Role.EPOCH], None)
    script.end()
    assert script.causes() == [["join"], ["leave_or_timeout", "join"], ["deleted"]]
    assert {row.type for row in script.rows if isinstance(row, Rebalance | Session)} == {kind}
    assert script.ends() == {"a": "leave_or_timeout", "b": "deleted"}
    assert next(row.epoch_settle_ms for row in script.rows if isinstance(row, Rebalance)) == 3_000


def test_tasks_of_a_streams_group_move_from_member_to_member() -> None:
    number = {role: version for version, (of, role) in OF_EPOCHS.items() if of == "streams"}

    def tasks(**partitions: list[int]) -> dict[str, Any]:
        return {"active_tasks": [{"subtopology_id": n[1:], "partitions": p} for n, p in partitions.items()]}

    script = Script()
    for epoch, member in ((2, "a"), (3, "b")):
        script.record(epoch, number[Role.MEMBER], {"client_id": "c"}, member)
        script.record(epoch, number[Role.EPOCH], {"metadata_hash": 1}, epoch=epoch)
        script.record(epoch, number[Role.TARGET], {}, epoch=epoch)
        if epoch == 2:
            script.record(epoch, number[Role.CURRENT], tasks(s0=[0, 1], s1=[0]), "a", epoch)
    script.record(4, number[Role.CURRENT], tasks(s0=[0]), "a", 3)
    script.record(5, number[Role.CURRENT], tasks(s0=[1], s1=[0]), "b", 3)
    script.record(6, number[Role.MEMBER], None, "a")
    script.record(6, number[Role.EPOCH], {"metadata_hash": 1}, epoch=4)
    script.record(6, number[Role.TARGET], {}, epoch=4)
    script.record(7, number[Role.CURRENT], tasks(s0=[0, 1], s1=[0]), "b", 4)
    moves = [
        (m.generation, f"{m.topic}_{m.partition}", m.from_owner, m.to_owner)
        for m in script.end().rows
        if isinstance(m, Move)
    ]
    assert moves == [
        *((2, name, None, "a") for name in ("task 0_0", "task 0_1", "task 1_0")),
        *((3, name, "a", "b") for name in ("task 0_1", "task 1_0")),
        (4, "task 0_0", "a", "b"),
    ]
    moved = [row.partitions_moved for row in script.rows if isinstance(row, Rebalance)]
    assert moved == [3, 2, 1]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.none() | st.sets(st.integers(0, 2))), max_size=8))
def test_a_task_that_comes_to_a_member_is_told_with_whoever_had_it_last(
    acts: list[tuple[str, set[int] | None]],
) -> None:
    """A member that goes, for which there is None, has no tasks when it comes again, and is still the one that had them."""
    number = {role: version for version, (of, role) in OF_EPOCHS.items() if of == "streams"}
    script, held, last = Script(), dict[str, set[int]](), dict[int, str]()
    expected = list[tuple[int, str | None, str, str]]()
    for epoch, (member, tasks) in enumerate(acts, 2):
        if tasks is None:
            script.record(epoch, number[Role.MEMBER], None, member)
            held.pop(member, None)
        elif member not in held:
            script.record(epoch, number[Role.MEMBER], {"client_id": "c"}, member)
        script.record(epoch, number[Role.EPOCH], {"metadata_hash": 1}, epoch=epoch)
        script.record(epoch, number[Role.TARGET], {}, epoch=epoch)
        if tasks is not None:
            active = [{"subtopology_id": "0", "partitions": sorted(tasks)}]
            script.record(epoch, number[Role.CURRENT], {"active_tasks": active}, member, epoch)
            for task in sorted(tasks - held.get(member, set())):
                before, last[task] = last.get(task), member
                kind = "gained" if before is None else "kept" if before == member else "moved"
                expected.append((task, before, member, kind))
            held[member] = tasks
    moves = [(m.partition, m.from_owner, m.to_owner, m.kind) for m in script.end().rows if isinstance(m, Move)]
    assert moves == expected
    moved = sum(row.partitions_moved or 0 for row in script.rows if isinstance(row, Rebalance))
    assert moved == sum(kind != "kept" for *_, kind in expected)


def test_a_record_that_tells_nothing_of_epochs_changes_no_history() -> None:
    script = Script()
    script.epoch(0, 1)
    script.record(1, 990, {}, "a")
    script.end()
    assert len(script.causes()) == 1


class Migrant:
    """The records of a group that changes its kind, member by member and batch by batch, a second each."""

    ACTS = ("join", "leave", "look_in", "say_more", "say_more", "migrate", "migrate")

    def __init__(self, *, is_classic: bool) -> None:
        self.records: list[Record] = []
        self.members: list[str] = []
        self.is_classic, self.epoch, self.at = is_classic, 0, 0
        self.join()
        self.join()

    def write(self, key_version: int, value: dict[str, Any] | None, member: str | None = None, epoch: int | None = None) -> None:  # fmt: skip
        payload = msgspec.json.encode(value or {}).decode()
        self.records.append(
            Record(len(self.records), 1000 * self.at, key_version, member, epoch, value is None, payload)
        )

    def join(self) -> None:
        self._change([*self.members, f"m{len(self.records)}"])

    def leave(self) -> None:
        self._change(self.members[1:])

    def look_in(self) -> None:
        """Let a member come that subscribes to nothing, which raises no epoch, and go again, which does."""
        if not self.is_classic:
            self._write_member("visitor")
            self.at, self.epoch = self.at + 1, self.epoch + 1
            self.write(5, None, "visitor")
            self.write(3, {"epoch": self.epoch, "metadata_hash": 1}, epoch=self.epoch)

    def say_more(self) -> None:
        """Let all members but the last one change what nobody rebalances for."""
        self.at += 1
        for member in self.members[:-1] if not self.is_classic else ():
            self._write_member(member)

    def migrate(self) -> None:
        self.at += 1
        if self.is_classic:
            self.write(2, None)
            for member in self.members:
                self._write_member(member)
            self.write(3, {"epoch": self.epoch, "metadata_hash": 1}, epoch=self.epoch)
        else:
            for member in self.members:
                self.write(5, None, member)
            self.write(3, None)
            self._write_generation()
        self.is_classic = not self.is_classic

    def _change(self, members: list[str]) -> None:
        self.at, self.epoch = self.at + 1, self.epoch + 1
        before, self.members = self.members, members
        if self.is_classic:
            self._write_generation()
            return
        for member in before:
            if member not in members:
                self.write(5, None, member)
        for member in members:
            if member not in before:
                self._write_member(member)
        self.write(3, {"epoch": self.epoch, "metadata_hash": 1}, epoch=self.epoch)

    def _write_member(self, member: str) -> None:
        self.write(5, {"client_id": "c", "client_host": f"h{self.at}", "subscribed_topic_names": ["t"]}, member)

    def _write_generation(self) -> None:
        members = [{"member_id": member, "subscription": "s", "assignment": {}} for member in self.members]
        value = {
            "generation": self.epoch,
            "protocol": "p",
            "current_state_timestamp": 1000 * self.at,
            "members": members,
        }
        self.write(2, value, epoch=self.epoch)


def compact(records: list[Record], count: int) -> list[Record]:
    """The records after a compaction of the first so many: of each key the last one is left."""
    latest = {(one.key_version, one.member_id): one.log_offset for one in records[:count]}
    return [one for one in records[:count] if latest[one.key_version, one.member_id] == one.log_offset] + records[
        count:
    ]


@settings(max_examples=300)
@given(st.booleans(), st.lists(st.sampled_from(Migrant.ACTS), max_size=8), st.floats(0, 1))
def test_what_a_compaction_leaves_tells_nothing_wrong(is_classic: bool, acts: list[str], share: float) -> None:
    """A deletion is told only where a tombstone has no other record of its migration, and each row adds up."""
    migrant = Migrant(is_classic=is_classic)
    for act in acts:
        getattr(migrant, act)()
    left = compact(migrant.records, round(share * len(migrant.records)))
    history = GroupHistory("g")
    rows = [row for record in left for row in history.apply(record)] + list(history.end())
    of_kinds = [(one.record_ts, one.key_version == 2) for one in left if not one.is_tombstone]
    ends = [one for one in left if one.is_tombstone and one.key_version in (2, 3)]
    lonely = [one for one in ends if (one.record_ts, one.key_version != 2) not in of_kinds]
    causes = [row.causes for row in rows if isinstance(row, Rebalance)]
    assert causes.count(["deleted"]) <= len(lonely)
    for row in rows:
        if isinstance(row, Rebalance) and row.causes not in (["unknown"], ["deleted"]) and "migrated" not in row.causes:
            assert row.members_after - row.members_before == len(row.joined) - len(row.left), row
            assert not set(row.joined) & set(row.left), row


def gaps(script: Script) -> list[tuple[int | None, str | None, int | None]]:
    rows = sorted((row for row in script.end().rows if isinstance(row, Rebalance)), key=lambda row: row.log_offset)
    return [(row.commit_gap_ms, row.commit_gap_partitions, row.commit_interval_ms) for row in rows]


@given(st.sets(st.tuples(st.sampled_from(["orders", "größe"]), st.integers(0, 12)), min_size=1))
def test_partitions_that_follow_each_other_are_a_range(places: set[tuple[str, int]]) -> None:
    found, topic = list[tuple[str, int]](), ""
    parts = format_partitions(places).split(", ")
    for part in parts:
        name, _, numbers = part.rpartition(" ")
        topic = name or topic
        first, _, last = numbers.partition("-")
        found += [(topic, number) for number in range(int(first), int(last or first) + 1)]
    assert found == sorted(places)
    assert len(parts) == sum((topic, number - 1) not in places for topic, number in places)


def test_a_partition_that_changed_hands_stands_still_for_itself() -> None:
    """`a` dies, and its partitions have no commit for 7 s; `b` commits all the time."""
    script = Script()
    script.generation(0, 1, a=[0, 1], b=[2, 3])
    script.commits(p0=[1, 2], p1=[1, 2, 3], p2=every(1, 0, 9), p3=every(1, 0, 9))
    script.generation(9, 2, b=[0, 1, 2, 3])
    script.commits(p0=[10], p1=[10], p2=[10], p3=[10])
    assert gaps(script) == [(None, None, None), (8000, "t 0-1", 1000)]


def test_a_gap_ends_in_the_generation_that_commits_again_and_belongs_to_all_that_moved_the_partition() -> None:
    script = Script()
    script.generation(0, 1, a=[0], b=[1])
    script.commits(p0=[1, 8], p1=[9])
    script.generation(10, 2, a=[1], b=[0])
    script.generation(11, 3, a=[0], b=[1])
    script.commits(p0=[15])
    script.generation(16, 4, a=[0], b=[1])
    script.commits(p1=[30])
    assert gaps(script)[1:] == [(21_000, "t 1", None), (21_000, "t 1", None), (None, None, None)]


def test_an_empty_group_and_its_restart_are_no_outage_of_a_rebalance() -> None:
    script = Script()
    script.generation(0, 1, a=[0])
    script.commits(p0=[1, 2])
    script.generation(3, 2)
    script.generation(10, 3, b=[0])
    script.commits(p0=[11])
    assert gaps(script) == [(None, None, None)] * 3


def test_a_clock_that_goes_back_makes_no_gap() -> None:
    """Between p0's commits; that of p1 is known, and of p2 the group waits no longer."""
    script = Script()
    script.generation(0, 1, a=[0, 1], b=[2])
    script.commits(p0=[100], p1=[1], p2=[100])
    script.generation(50, 2, a=[2], b=[0, 1])
    script.commits(p0=[51], p1=[52])
    script.generation(53, 3, a=[2], b=[0, 1])
    script.commits(p2=[54])
    assert gaps(script) == [(None, None, None), (51_000, "t 1", None), (None, None, None)]


def test_gaps_are_what_the_commits_of_each_partition_say(engine: Engine, rows: list[Row]) -> None:
    """The same, found the long way: for each rebalance, all commits of each partition that moved."""
    of_partition: dict[tuple[str, str, int], list[tuple[int, int]]] = {}
    for row in read_rows(engine.directory, "offset_commits"):
        key = (row["group"], row["topic"], row["partition"])
        of_partition.setdefault(key, []).append((row["log_offset"], row["record_ts"]))
    moved: dict[tuple[str, int], list[Move]] = {}
    for one in rows:
        if isinstance(one, Move) and one.kind == "moved":
            moved.setdefault((one.group, one.log_offset), []).append(one)
    checked = 0
    for rebalance in (row for row in rows if isinstance(row, Rebalance) and row.type == "classic"):
        if any(
            cause.startswith("static_rejoin") for cause in rebalance.causes
        ):  # its own partitions changed hands without a move
            continue
        later = [row.log_offset for row in rows if isinstance(row, Rebalance) and row.group == rebalance.group]
        limit = [offset for offset in later if offset > rebalance.log_offset][HELD_MAX : HELD_MAX + 1] or [1 << 60]
        expected = dict[tuple[str, int], int]()
        for move in moved.get((rebalance.group, rebalance.log_offset), ()):
            commits = of_partition.get((move.group, move.topic, move.partition), [])
            before = [ts for offset, ts in commits if offset < rebalance.log_offset]
            after = [ts for offset, ts in commits if rebalance.log_offset < offset < limit[0]]
            if before and after:
                expected[move.topic, move.partition] = after[0] - before[-1]
        assert rebalance.commit_gap_ms == max(expected.values(), default=None), rebalance
        longest = [one for one, gap in expected.items() if 10 * gap >= 8 * max(expected.values())]
        assert rebalance.commit_gap_partitions == (format_partitions(longest) if longest else None)
        checked += bool(expected)
    assert checked > 100


@given(st.lists(st.tuples(st.sampled_from([2, 3, MEMBER, "p0", "p1"]), st.integers(0, 99), st.booleans()), max_size=20))
def test_a_commit_falls_into_the_step_before_it(events: list[tuple[int | str, int, bool]]) -> None:
    """Records of members begin none."""
    records, commits, step, counted = list[Record](), list[dict[str, Any]](), -1, dict[tuple[int, str], int]()
    for offset, (what, ts, is_txn) in enumerate(events):
        if isinstance(what, int):
            records.append(Record(offset, ts, what, None, None, False, "{}"))
            step = step if what == MEMBER else offset
        else:
            commits.append({"log_offset": offset, "topic": what, "partition": 7, "record_ts": ts, "is_txn": is_txn})
            counted[step, what] = counted.get((step, what), 0) + 1
    found = gather_activity(records, commits)
    assert {(at, topic): one.commits for at, of in found.items() for (topic, _), one in of.items()} == counted


def test_only_members_that_waited_for_an_assignment_have_a_time_to_sync() -> None:
    """A static member that is back writes a record as late as the generation is old. Then the broker's clock goes
    back."""
    script = Script()
    for at, number, members, formed in (
        (2, 1, ["a"], 1),
        (7, 1, ["b"], 1),
        (9, 2, [], 9),
        (12, 3, ["c"], 11),
        (13, 4, ["d"], 14),
    ):
        value = {
            "generation": number, "current_state_timestamp": formed * 1000,
            "members": [{"member_id": one, "group_instance_id": "till"} for one in members],
        }  # fmt: skip
        script.record(at, 2, value, epoch=number)
    rows = sorted((row for row in script.end().rows if isinstance(row, Rebalance)), key=lambda row: row.log_offset)
    assert [(row.causes[0], row.sync_ms) for row in rows] == [
        ("join", 1000), ("static_rejoin", None), ("emptied", None), ("join", 1000),
        ("static_rejoin_or_join", None),
    ]  # fmt: skip


def count_lines(work: Callable[[], object]) -> int:
    """How many lines were run: a measure of work that no other program changes."""
    lines = 0

    def count(_frame: object, event: str, _arg: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        work()
    finally:
        sys.settrace(before)
    return lines


def live_long(generations: int, *, is_quiet: bool) -> None:
    """A group that rebalances so often, with commits between any two, or with none after the first."""
    script = Script()
    for number in range(generations):
        at = 10.0 * number
        script.generation(at, number + 1, **{"a": [0], f"b{number % 2}": [1]})
        if not is_quiet or number == 0:
            script.commits(p0=[at + 1, at + 5], p1=[at + 2])
    assert len([row for row in script.end().rows if isinstance(row, Rebalance)]) == generations


@pytest.mark.parametrize("is_quiet", [False, True])
def test_the_work_for_a_history_grows_as_the_history(is_quiet: bool) -> None:
    few, more, many = (count_lines(partial(live_long, n, is_quiet=is_quiet)) for n in (200, 400, 800))
    assert many - more <= 2.05 * (more - few), "a group twice as old takes twice the work"


def test_the_work_to_place_commits_grows_as_the_commits() -> None:
    def gather(count: int) -> None:
        steps = [Record(n * 10, n * 1000, 3, None, n, False, "{}") for n in range(count // 10)]
        rows = [
            {"log_offset": n, "topic": "t", "partition": 0, "record_ts": n * 100, "is_txn": False} for n in range(count)
        ]
        assert len(gather_activity(steps, rows)) >= len(steps)

    few, more, many = (count_lines(partial(gather, n)) for n in (1000, 2000, 4000))
    assert many - more <= 2.05 * (more - few)


def share_states(script: Script, **initialized: list[int]) -> None:
    """Type 15: the partitions of a share group of which there are states."""
    topics = [{"topic_id": topic, "topic_name": topic, "partitions": numbers} for topic, numbers in initialized.items()]
    script.record(0, 15, {"initializing_topics": [], "initialized_topics": topics, "deleting_topics": []})


def share_epoch(script: Script, number: int, digest: int = 1) -> None:
    script.record(0, 11, {"epoch": number, "metadata_hash": digest}, epoch=number)


def test_partitions_of_a_share_group_may_be_assigned_when_their_states_are_initialized() -> None:
    script = Script()
    script.record(0, 10, {"client_id": "c", "subscribed_topic_names": ["t"]}, "m")
    share_epoch(script, 1)
    share_states(script, t=[0, 1])
    share_epoch(script, 2)
    share_epoch(script, 3, digest=2)  # the topic has grown
    share_states(script, t=[0, 1, 2])
    share_epoch(script, 4, digest=2)
    share_states(script, t=[0, 1])  # fewer are no reason, and the same again are none
    share_states(script, t=[0, 1])
    share_epoch(script, 5, digest=2)
    assert script.end().causes() == [
        ["join"], ["partitions_initialized"], ["partition_count_change"], ["partitions_initialized"], ["unknown"],
    ]  # fmt: skip


def test_what_else_happened_to_a_share_group_goes_before_states_that_are_initialized() -> None:
    script = Script()
    script.record(0, 10, {"client_id": "c", "subscribed_topic_names": ["t"]}, "m")
    share_states(script, t=[0])
    share_epoch(script, 1)
    share_states(script, t=[0, 1])
    share_epoch(script, 2, digest=2)
    share_states(script, t=[0, 1], u=[0])
    script.record(0, 10, {"client_id": "c", "subscribed_topic_names": ["t", "u"]}, "m")
    share_epoch(script, 3, digest=2)
    assert script.end().causes() == [["join"], ["partition_count_change"], ["subscription_change"]]


def test_partitions_whose_states_were_initialized_in_what_is_compacted_away_are_no_cause() -> None:
    script = Script()
    share_epoch(script, 7)
    share_states(script, t=[0, 1])
    share_epoch(script, 8)
    share_states(script, t=[0, 1, 2])
    share_epoch(script, 9)
    assert script.end().causes() == [["unknown"], ["unknown"], ["partitions_initialized"]]


def test_states_that_were_seen_before_such_an_epoch_are_known() -> None:
    script = Script()
    share_states(script, t=[0])
    share_epoch(script, 7)
    share_states(script, t=[0, 1])
    share_epoch(script, 8)
    share_states(script, t=[0, 1])
    share_epoch(script, 9)
    assert script.end().causes() == [["unknown"], ["partitions_initialized"], ["unknown"]]
