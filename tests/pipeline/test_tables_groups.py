"""Groups by Spark: the same history that plain Python tells, the event log before any inference, states at the end."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from pipeline.decode.layout import TOPIC
from pipeline.decode.schema import GROUP_RECORDS
from pipeline.history.activity import read_histories
from pipeline.history.records import OF_EPOCHS, Move, Rebalance, Row, Session
from pipeline.tables import groups, history
from pipeline.tables.commits import latest_offsets, offset_commits
from pipeline.tables.events import EVENT, generations, read_events, with_events
from tests.pipeline.commit_rows import frame
from tests.pipeline.engine import Engine
from tests.pipeline.read_histories import read
from tests.pipeline.simulated_groups import SimulatedGroup, live
from tests.pipeline.sources import load

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """Groups of the server's engine, one life after the other."""
    made = Engine(tmp_path_factory.mktemp("groups") / f"{TOPIC}-0")
    for number in range(4):
        SimulatedGroup(made, f"group-{number}", Random(number)).live(12)
    for number in (1, 5, 10, 13):  # a consumer group, and cooperative ones
        live(made, f"habits-{number}", Random(number), 4)
    return made


@cache
def read_tables(spark: Any, directory: Path) -> dict[str, Any]:
    records = load(spark, directory, table="group_records").cache()
    commits = offset_commits(load(spark, directory), load(spark, directory, table="batches")).cache()
    return {"records": records, "commits": commits, "history": history.histories(records, commits).cache()}


@pytest.fixture
def tables(spark: Any, engine: Engine) -> dict[str, Any]:
    return read_tables(spark, engine.directory.parent)


def as_rows(rows: list[Row], kind: type) -> list[dict[str, Any]]:
    return sorted((msgspec.structs.asdict(row) for row in rows if type(row) is kind), key=str)


def test_spark_tells_what_plain_python_tells(engine: Engine, tables: dict[str, Any]) -> None:
    rows = read(engine.directory)
    found = tables["history"].collect()
    for column, kind in (("rebalance", Rebalance), ("move", Move), ("session", Session)):
        want = as_rows(rows, kind)
        got = [row[column].asDict() for row in found if row[column] is not None]
        for one in got:
            if column == "rebalance":
                assert one.pop("cause") == one["causes"][0]
        names = list(want[0])
        assert sorted(({name: one[name] for name in names} for one in got), key=str) == want


def test_a_group_is_told_alike_wherever_its_rows_are_cut(
    tables: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here in this process, in batches of few rows; Spark cuts them elsewhere."""
    monkeypatch.setattr(history, "BATCH_ROWS", 5)
    facts = history.order_facts(tables["records"], tables["commits"]).toArrow()
    batches = list(history._histories(facts.to_batches(7)))
    assert {len(batch) for batch in batches[:-1]} == {5}
    told = [row for batch in batches for row in batch.to_pylist()]
    assert sorted(told, key=str) == sorted((row.asDict(recursive=True) for row in tables["history"].collect()), key=str)
    assert list(history._histories([])) == []


def test_no_commit_is_looked_at_for_each_other_one(spark: Any, tables: dict[str, Any]) -> None:
    rows = history.step_activity(tables["records"], tables["commits"])
    frames = re.findall(r"specifiedwindowframe\([^)]*\)", str(rows._jdf.queryExecution()).lower())
    assert frames
    # A frame that reaches from each row to the end is summed up anew for each row.
    assert not [frame for frame in frames if "unboundedfollowing" in frame]


def test_the_event_log_is_believed_before_any_inference(
    spark: Any, engine: Engine, tables: dict[str, Any], tmp_path: Path
) -> None:
    events = read_events(spark, [engine.write_events(tmp_path / "events.jsonl")])
    rows = with_events(history.rebalances(tables["history"]), events).where("type = 'classic'").collect()
    assert {row.cause_source for row in rows if row.group.startswith("group-")} == {"event_log"}
    causes = {row.log_offset: set(row.causes) - {"emptied"} for row in rows}  # what became of it, not why
    truth = {one.at: set(one.causes) for one in engine.truth}
    assert causes.keys() == truth.keys()
    lives = {row.log_offset for row in rows if row.group.startswith("group-")}
    assert {at: causes[at] for at in lives} == {at: truth[at] for at in lives}
    assert [at for at in causes if not causes[at] <= truth[at]] == [], "also where members miss a generation"
    assert sum(row.causes == ["cooperative_handover"] for row in rows) > 3
    timeouts = [row for row in rows if row.cause == "timeout"]
    assert timeouts
    assert all("last heartbeat 45.0 s before" in row.cause_detail for row in timeouts)


def test_an_event_without_a_member_leads_to_a_generation_unless_it_ends_a_join_phase(spark: Any) -> None:
    causes = ("rebalance_timed_out", "topics_changed", "partitions_initialized")
    told = [*((cause, None) for cause in causes), ("rebalance_timed_out", "late")]
    events = spark.createDataFrame([{"cause": cause, "member": member} for cause, member in told], EVENT)
    assert generations(events).select("event_cause", "member").collect() == [
        ("partition_count_change", None),
        ("partitions_initialized", None),
        ("timeout", "late"),
    ]


class Generations:
    """The records of classic groups, in turns, of which a compaction has left those of the end; what each must become."""

    def __init__(self, dice: Random) -> None:
        self.rows: list[dict[str, Any]] = []
        self.expected: dict[int, tuple[int, int | None]] = {}  # members and sync_ms, by the record's offset
        lives = {f"g{number}": self._live(dice) for number in range(60)}
        begun: set[str] = set()
        while lives:
            group = dice.choice(sorted(lives))
            if (told := next(lives[group], None)) is None:
                del lives[group]
            elif group in begun or dice.random() < 0.3:
                self._put(group, told, is_known=group in begun or told["generation"] == 1)
                begun.add(group)

    @staticmethod
    def _live(dice: Random) -> Iterator[dict[str, Any]]:
        """Generations one after the other, with and without members; within one, a static member may return."""
        for _ in range(dice.randrange(1, 4)):
            for generation in range(1, dice.randrange(2, 6)):
                members, formed = dice.randrange(3), dice.choice([-1, 0, 1000, 1000, 1000])
                common = {"generation": generation, "members": members, "formed": formed}
                waited = dice.choice([0, 7, 300, -1])
                yield common | {"is_sync": members > 0, "waited": waited}
                while generation > 1 and members and dice.random() < 0.4:
                    yield common | {"is_sync": False, "waited": 7_200_000}
            yield {"generation": None, "members": 0, "formed": 0, "is_sync": False, "waited": 9}

    def _put(self, group: str, told: dict[str, Any], *, is_known: bool) -> None:
        generation, members, formed, waited = (told[name] for name in ("generation", "members", "formed", "waited"))
        value = {"generation": generation, "current_state_timestamp": formed}
        value["members"] = [
            {"member_id": f"m{n}", "session_timeout": 1, "rebalance_timeout": 1} for n in range(members)
        ]
        self.rows.append({
            "key_version": 2, "group": group, "log_offset": len(self.rows), "record_ts": 1000 + waited, "epoch": generation,
            "member_id": None, "is_tombstone": generation is None, "payload": "{}" if generation is None else json.dumps(value),
        })  # fmt: skip
        has_waited = told["is_sync"] and is_known and formed > 0 and waited >= 0
        self.expected[len(self.rows) - 1] = (members, waited if has_waited else None)


def test_members_and_their_wait_are_those_of_each_generation(spark: Any) -> None:
    """Where compaction has taken what was before, nobody knows whether a record is the first of its generation."""
    made = Generations(Random(3))
    found = groups.group_metadata(frame(spark, made.rows, GROUP_RECORDS)).collect()
    assert {row.log_offset: (len(row.members), row.sync_ms) for row in found} == made.expected
    told = {row.log_offset: row.sync_ms for row in read_histories(made.rows, []) if isinstance(row, Rebalance)}
    assert len(told) > 100
    assert told == {at: made.expected[at][1] for at in told}, "as plain Python tells it"


def test_groups_have_the_state_of_their_last_record(engine: Engine, tables: dict[str, Any]) -> None:
    records = tables["records"]
    metadata, modern = groups.group_metadata(records), groups.new_group_records(records)
    state = groups.group_state(metadata, modern, latest_offsets(tables["commits"], 0)).collect()
    members = {name: len(group.members) for name, group in engine.shard.groups.items()}
    assert {row.group: row.members for row in state} == members


@pytest.mark.parametrize("kind", sorted({kind for kind, _ in OF_EPOCHS.values()}))
def test_groups_of_every_kind_with_epochs_have_a_state(spark: Any, kind: str) -> None:
    name = f"{kind.capitalize()}Group"
    common = {"group": "g", "record_ts": 1_000, "is_tombstone": False, "key_version": 3, "payload": "{}"}
    told = [
        {"type": f"{name}Metadata", "epoch": 4}, {"type": f"{name}MemberMetadata", "member_id": "a"},
        {"type": f"{name}MemberMetadata", "member_id": "b"},
        {"type": f"{name}MemberMetadata", "member_id": "b", "is_tombstone": True},
    ]  # fmt: skip
    records = frame(spark, [{**common, "log_offset": at, **one} for at, one in enumerate(told)], GROUP_RECORDS)
    commits = spark.createDataFrame([], "group string, record_ts bigint, log_offset bigint")
    (row,) = groups.group_state(groups.group_metadata(records), groups.new_group_records(records), commits).collect()
    assert (row.group, row.type, row.generation, row.members, row.empty_since) == ("g", kind, 4, 1, None)


def test_stickiness_is_the_share_of_partitions_that_stayed(spark: Any) -> None:
    rows = [
        ("g", n, "t", kind)
        for n, kinds in ((1, ("kept", "kept", "moved")), (2, ("kept", "gained", "revoked")))
        for kind in kinds
    ]
    schema = "group string, log_offset bigint, topic string, kind string"
    (row,) = history.stickiness(spark.createDataFrame(rows, schema)).collect()
    assert (row.rebalances, row.kept, row.common, row.stickiness) == (2, 3, 4, 0.75)
