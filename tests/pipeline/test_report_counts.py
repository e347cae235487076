"""What the report shows of many groups at once, counted again in plain Python from the rows of the tables."""

from collections import Counter, defaultdict
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from pipeline.report.data import (
    DRAWN_PARTITIONS,
    DRAWN_SESSIONS,
    GROUPS,
    LISTED,
    PARTITIONS,
    POINTS,
    RESTLESS_MIN,
    RESTLESS_MS,
    STORIES,
    ReportData,
    collect,
)
from tests.pipeline.report_tables import MadeUpTables, Row, publish

SEVERITY = {"OK": 0, "UNKNOWN": 0.5, "WARN": 1, "RESTLESS": 1}  # any other one: 2
Made = tuple[MadeUpTables, ReportData]


@pytest.fixture(scope="module", params=[1, 2, 3])
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    tables = MadeUpTables(Random(request.param))
    return tables, collect(publish(tmp_path_factory.mktemp("report") / "t", tables.tables))


def severity(status: str) -> float:
    return SEVERITY.get(status, 2)


def last(value: float | None) -> float:
    """A key that sorts what is missing behind everything, and large numbers first."""
    return 1.0 if value is None else -value


def busiest(tables: MadeUpTables) -> dict[str, int]:
    times = defaultdict[str, list[int]](list)
    for row in tables.tables["rebalances"]:
        times[row["group"]].append(row["at_ms"])
    return {
        group: max(sum(end - RESTLESS_MS <= at <= end for at in own) for end in own) for group, own in times.items()
    }


def groups_of(tables: MadeUpTables) -> list[Row]:
    states = {row["group"]: row for row in tables.tables["group_state"]}
    statuses = {row["group"]: row for row in tables.tables["group_status"]}
    often, found = busiest(tables), []
    for group in states.keys() | statuses.keys():
        state, status = states.get(group, {}), statuses.get(group, {})
        health = status.get("status", "OK")
        if severity(health) < 1 and often.get(group, 0) >= RESTLESS_MIN:
            health = "RESTLESS"
        found.append({
            "group": group, "status": health,
            **{name: state.get(name) for name in ("type", "generation", "protocol", "members", "empty_since")},
            **{name: status.get(name) for name in ("total_lag", "max_lag", "partitions")},
        })  # fmt: skip
    return sorted(found, key=lambda row: (-severity(row["status"]), last(row["total_lag"]), row["group"]))


def test_groups_the_worst_first(made: Made) -> None:
    tables, data = made
    expected = groups_of(tables)
    assert data.groups == expected[:GROUPS]
    assert data.groups_total == len(expected)
    assert data.statuses == Counter(row["status"] for row in expected)
    assert len(data.statuses) >= 7


def test_stories_of_groups_in_trouble_then_of_restless_then_of_late_ones(made: Made) -> None:
    tables, data = made
    moves = Counter(row["group"] for row in tables.tables["rebalances"])
    lags = dict[str, int]()
    for row in tables.tables["lag_history"]:
        lags[row["group"]] = max(lags.get(row["group"], 0), row["lag"])
    told = [row for row in groups_of(tables) if moves[row["group"]] > 1 or lags.get(row["group"], 0) > 0]
    told.sort(key=lambda row: (-severity(row["status"]), -moves[row["group"]], -lags.get(row["group"], 0)))
    assert [story.group for story in data.stories] == [row["group"] for row in told[:STORIES]]
    assert len(told) > STORIES


def expected_lag(tables: MadeUpTables, group: str) -> list[Row]:
    """The last lag of each span, of the partitions that lag most."""
    mine = [row for row in tables.tables["lag_history"] if row["group"] == group]
    first, last_ts = min(row["ts"] for row in mine), max(row["ts"] for row in mine)
    most, latest = dict[tuple[str, int], int](), dict[tuple[str, int, int], Row]()
    for row in sorted(mine, key=lambda row: row["ts"]):
        place = row["topic"], row["partition"]
        most[place] = max(most.get(place, -1), row["lag"])
        latest[*place, (row["ts"] - first) * (POINTS - 1) // max(last_ts - first, 1)] = row
    drawn = sorted(most, key=lambda place: (-most[place], place))[:DRAWN_PARTITIONS]
    kept = [row for row in latest.values() if (row["topic"], row["partition"]) in drawn]
    kept.sort(key=lambda row: (row["topic"], row["partition"], row["ts"]))
    return [{name: row[name] for name in ("topic", "partition", "ts", "lag")} for row in kept]


def expected_rate(tables: MadeUpTables, group: str, reached: list[tuple[tuple[str, int], int, int]]) -> list[Row]:
    """How far all partitions went from each span to the next, a second. `reached`: partition, time, position."""
    times = [row["record_ts"] for row in tables.tables["offset_commits"] if row["group"] == group and row["effective"]]
    first, width = min(times), max((max(times) - min(times)) // (POINTS // 4), 1000)
    furthest = defaultdict[tuple[str, int], dict[int, int]](dict)
    for place, ts, position in reached:
        if ts >= first:
            span = (ts - first) // width
            furthest[place][span] = max(furthest[place].get(span, position), position)
    advances = defaultdict[int, int](int)
    for spans in furthest.values():
        before = None
        for span, position in sorted(spans.items()):
            advances[span] += 0 if before is None else max(position - before, 0)
            before = position
    return [
        {"ts": first + span * width + width // 2, "per_s": pytest.approx(advance * 1000 / width)}
        for span, advance in sorted(advances.items())
    ]


def test_each_story_is_of_its_group_alone(made: Made) -> None:
    tables, data = made
    for story in data.stories:
        group = story.group

        def mine(table: str, *key: str, group: str = group) -> list[Row]:
            rows = [row for row in tables.tables[table] if row["group"] == group]
            return sorted(rows, key=lambda row: [row[name] for name in key])

        assert story.lag == expected_lag(tables, group)
        assert story.rebalances == mine("rebalances", "at_ms", "log_offset")
        assert story.sessions == mine("member_sessions", "from_ts")[-DRAWN_SESSIONS:]
        owners = {(row["topic"], row["partition"], row["from_ts"], row["to_ts"], row["owner"]) for row in story.owners}
        places = sorted({(topic, number) for topic, number, *_ in tables.drawn[group]})[:DRAWN_PARTITIONS]
        assert owners == {one for one in tables.drawn[group] if one[:2] in places}
        commits = [row for row in mine("offset_commits", "record_ts") if row["effective"] and not row["is_tombstone"]]
        committed = [((row["topic"], row["partition"]), row["record_ts"], row["committed_offset"]) for row in commits]
        assert story.consumed == expected_rate(tables, group, committed)
        lagging = {(row["topic"], row["partition"]) for row in mine("lag_history", "ts")}
        ends = [row for row in tables.tables["log_end_offsets"] if row["source"] == "log"]
        reached = [((row["topic"], row["partition"]), row["ts"], row["leo"]) for row in ends]
        assert story.produced == expected_rate(tables, group, [one for one in reached if one[0] in lagging])


def by_partition(row: Row) -> tuple[Any, ...]:
    return row["group"], row["topic"], row["partition"]


def test_partitions_with_their_owners_and_those_in_trouble(made: Made) -> None:
    tables, data = made
    rows = tables.tables["lag_status"]
    worst = sorted(rows, key=lambda row: (-severity(row["status"]), last(row["lag_at_least"]), by_partition(row)))
    nobody = (None, None, None)
    expected = [
        row
        | dict(
            zip(("member_id", "client_id", "client_host"), tables.owners.get(by_partition(row), nobody), strict=True)
        )
        for row in worst
    ]
    assert data.partitions == expected[:PARTITIONS]
    assert data.partitions_total == len(rows)
    assert {row["member_id"] is None for row in data.partitions} == {True, False}
    trouble = [
        row
        for row in rows
        if severity(row["status"]) >= 1
        or row["worst_rewind"]
        or row["beyond_end"]
        or (row["quiet_too_long"] and (row["lag_at_least"] or 0) > 0)
    ]
    trouble.sort(key=lambda row: (-severity(row["status"]), -row["worst_rewind"], by_partition(row)))
    assert data.trouble == trouble[:LISTED]
    assert any(row["beyond_end"] and severity(row["status"]) < 1 and not row["worst_rewind"] for row in trouble)


SYNC: dict[str, Callable[[int], bool]] = {
    "< 10 ms": lambda ms: ms < 10,
    "10-100 ms": lambda ms: 10 <= ms < 100,
    "0.1-1 s": lambda ms: 100 <= ms < 1000,
    "1-10 s": lambda ms: 1000 <= ms < 10_000,
    "> 10 s": lambda ms: ms >= 10_000,
}


def test_rebalances_of_all_groups(made: Made) -> None:
    tables, data = made
    rows = tables.tables["rebalances"]
    assert data.rebalances == sorted(rows, key=lambda row: (-row["at_ms"], row["group"], -row["log_offset"]))[:LISTED]
    assert data.rebalances_total == len(rows) > LISTED
    causes = Counter((row["cause"], row["cause_source"]) for row in rows)
    assert {(row["cause"], row["cause_source"]): row["count"] for row in data.causes} == causes
    counts = [(-row["count"], row["cause"]) for row in data.causes]
    assert counts == sorted(counts)
    waits = [row["sync_ms"] for row in rows if row["sync_ms"] is not None]
    assert {row["range"]: row["count"] for row in data.sync_ms} == {
        name: sum(map(fits, waits)) for name, fits in SYNC.items()
    }
    often, of_group = busiest(tables), Counter(row["group"] for row in rows)
    restless = sorted((-often[g], -of_group[g], g) for g in of_group if often[g] >= RESTLESS_MIN)
    assert [(-row["busiest"], -row["rebalances"], row["group"]) for row in data.restless] == restless[:LISTED]
    for row in data.restless:
        own = Counter(one["cause"] for one in rows if one["group"] == row["group"])
        assert own[row["cause"]] == max(own.values())
    sticky = [row for row in tables.tables["stickiness"] if row["common"]]
    assert data.stickiness == sorted(sticky, key=lambda row: (row["stickiness"], row["group"]))[: LISTED // 2]


def test_share_groups_logs_and_their_problems(made: Made) -> None:
    tables, data = made
    queues = {row["group"]: row for row in data.queues}
    states = {row["group"]: row["members"] for row in tables.tables["group_state"]}
    assert queues.keys() == {"queue", "queue-2", "quiet"}
    for group, row in queues.items():
        own = [one for one in tables.tables["share_partitions"] if one["group"] == group]
        given_up = [one["records"] for one in tables.tables["archived_ranges"] if one["group"] == group]
        assert row == {
            "group": group, "members": states[group], "partitions": len(own), "archived": sum(given_up) or None,
            "available": sum(one["available"] for one in own), "acknowledged": sum(one["acknowledged"] for one in own),
            "max_delivery_count": max(one["max_delivery_count"] for one in own),
            "last_ts": max(one["record_ts"] for one in own),
        }  # fmt: skip
    order = [(last(row["archived"]), -row["available"], row["group"]) for row in data.queues]
    assert order == sorted(order)
    ranges = sorted(
        tables.tables["archived_ranges"],
        key=lambda row: (-row["at_ms"], row["group"], row["topic_id"], row["partition"], row["first_offset"]),
    )
    assert data.given_up == ranges[:LISTED]
    logs = sorted(tables.tables["log_health"], key=lambda row: (last(row["bytes"]), row["log_dir"]))
    assert data.health == logs[:LISTED]
    problems = tables.tables["log_problems"]
    ordered = sorted(problems, key=lambda row: (row["severity"] == "info", row["log_dir"], row["pos"]))
    assert data.problems == ordered[:LISTED]
    assert data.problems_total == sum(row["severity"] == "problem" for row in problems)
    unknown = Counter((row["key_version"], row["reason"]) for row in tables.tables["unknown_records"])
    assert {(row["key_version"], row["reason"]): row["count"] for row in data.unknown} == unknown
    assert [row["key_version"] for row in data.unknown] == sorted(row["key_version"] for row in data.unknown)
    times = [row["record_ts"] for row in tables.tables["offset_commits"]]
    assert (data.first_ms, data.last_ms) == (min(times), max(times))
