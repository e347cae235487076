"""Why groups rebalanced: what the tables infer from the log alone, against the event log of the server's engine."""

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pipeline.decode.layout import TOPIC
from pipeline.tables.events import read_events, with_events
from tests.pipeline.engine import Crowd, Engine
from tests.pipeline.test_tables_groups import Tables

pytestmark = pytest.mark.xdist_group("spark")

CAUSES = ("join", "leave", "timeout", "static_rejoin", "subscription_change", "partition_count_change")
GROUPS, HAPPENINGS = 25, 24


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """Groups of the server's engine, one life after the other."""
    made = Engine(tmp_path_factory.mktemp("causes") / f"{TOPIC}-0")
    for number in range(GROUPS):
        Crowd(made, f"group-{number}", Random(number)).live(HAPPENINGS)
    return made


@pytest.fixture(scope="module")
def tables(spark: Any, engine: Engine) -> Tables:
    return Tables(spark, engine.directory.parent)


def by_record(rows: list[Any]) -> dict[int, set[str]]:
    return {row.log_offset: set(row.causes) for row in rows}


def score(told: dict[int, frozenset[str]], said: dict[int, set[str]]) -> dict[str, tuple[float, float, int]]:
    """(precision, recall, how often it happened) of each cause."""
    hits, claimed, happened = Counter[str](), Counter[str](), Counter[str]()
    for at, causes in told.items():
        got = said.get(at, set())
        happened.update(causes)
        claimed.update(got)
        hits.update(causes & got)
    return {cause: (hits[cause] / claimed[cause], hits[cause] / happened[cause], happened[cause]) for cause in CAUSES}


def test_inferred_causes_are_those_of_the_event_log(engine: Engine, tables: Tables) -> None:
    told = {one.at: one.causes for one in engine.truth}
    said = by_record(tables.classic.collect())
    assert said.keys() == told.keys(), "one row for each rebalance, and no other"
    for cause, (precision, recall, happened) in score(told, said).items():
        print(f"{cause:24} precision {precision:.3f} recall {recall:.3f} of {happened}")
        assert happened > 30
        assert precision >= 0.95
        assert recall >= 0.95


def test_the_event_log_is_believed_before_any_inference(
    spark: Any, engine: Engine, tables: Tables, tmp_path: Path
) -> None:
    events = read_events(spark, [engine.write_events(tmp_path / "events.jsonl")])
    rows = with_events(tables.classic, events).collect()
    assert {row.cause_source for row in rows} == {"event_log"}
    told = {at: causes - {"emptied"} for at, causes in by_record(rows).items()}  # emptied: what became of it, not why
    assert told == {one.at: set(one.causes) for one in engine.truth}
    timeouts = [row for row in rows if row.cause == "timeout"]
    assert timeouts
    assert all("last heartbeat 45.0 s before" in row.cause_detail for row in timeouts)
