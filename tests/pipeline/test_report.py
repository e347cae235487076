"""The report: readable with nothing and with very much, names never become markup, a browser shows it."""

import json
import re
import subprocess
from collections import Counter
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import msgspec
import pytest

from pipeline import published
from pipeline.report.data import (
    DRAWN_REBALANCES,
    GROUPS,
    GROUPS_SQL,
    POINTS,
    QUERIES,
    SEVERITIES,
    STORIES,
    ReportData,
    Story,
    collect,
    consumer_ownership,
    ownership,
)
from pipeline.report.names import short_names, shorten
from pipeline.report.page import page, table
from pipeline.report.svg import Line, Lines, clock, find_ticks, number, safe, timeline
from tests.admin.browser import need_browser
from tests.pipeline.report_tables import published_tables, rows_of

HOSTILE = "<script>alert(1)</script>\"'&\u202egnp.exe\x00\n</title><img src=x onerror=alert(2)>"


def report_data(groups: int, name: str = "group {}") -> ReportData:
    """What a day of so many groups would show, bounded as the collector bounds it."""
    start = 1_760_000_000_000
    names = [name.replace("{}", str(i)) for i in range(min(groups, GROUPS))]
    few = names[:20]
    return ReportData(
        paths=[name], logs={name: 7}, first_ms=start, last_ms=start + 3_600_000, groups_total=groups,
        partitions_total=groups * 3, rebalances_total=groups, problems_total=1, statuses={"OK": groups},
        groups=[{"group": g, "type": "classic", "generation": 3, "protocol": g, "members": 2, "empty_since": None, "status": "ERR", "total_lag": 10**9, "max_lag": 5, "partitions": 3} for g in names],
        stories=[_story(g, start) for g in names[:STORIES]],
        partitions=[{"group": g, "topic": g, "partition": 0, "current_offset": 5, "log_end_offset": 9, "lag": 4, "lag_at_least": 4, "lag_seconds": 1.5, "beyond_end": 0, "member_id": g, "client_host": g, "client_id": g, "status": "STOP", "leo_source": "checkpoint"} for g in names],
        causes=[{"cause": "join", "cause_source": "inferred", "count": groups}],
        sync_ms=[{"range": "< 10 ms", "count": groups}],
        rebalances=[_rebalance(g, start + i * 90_000) for i, g in enumerate(few)],
        stickiness=[{"group": g, "stickiness": 0.5, "common": 10, "kept": 5, "rebalances": 2} for g in few],
        trouble=[{"group": g, "topic": g, "partition": 1, "status": "REWIND", "worst_rewind": 9, "lag": None, "lag_at_least": 3, "quiet_s": 2.5, "quiet_too_long": True, "lag_trend": 1.5} for g in few],
        restless=[{"group": g, "busiest": 11, "rebalances": 40, "cause": g} for g in few],
        health=[{"log_dir": g, "bytes": 10**8, "segments": 2, "commits": 100, "live_commits": 3, "tombstones": 1, "aborted_commits": 0, "open_txns": 1, "oldest_open_txn_ts": start, "replay_s": 2.0, "dead_ratio": 0.97} for g in few],
        problems=[{"severity": "problem", "kind": "bad_crc", "log_dir": name, "segment_base": 0, "pos": 5, "from_offset": 1, "to_offset": None, "detail": name}],
        unknown=[{"key_version": 17, "reason": name, "count": 3}],
    ) if groups else ReportData()  # fmt: skip


def _story(group: str, start: int) -> Story:
    minutes = [start + i * 60_000 for i in range(30)]
    return Story(
        group,
        lag=[{"topic": group, "partition": p, "ts": ts, "lag": i} for p in range(3) for i, ts in enumerate(minutes)],
        produced=[{"ts": ts, "per_s": 2.5} for ts in minutes],
        consumed=[{"ts": ts, "per_s": 2.0} for ts in minutes],
        rebalances=[_rebalance(group, start + 90_000)],
        sessions=[{"member_id": f"{group}-{n}", "instance_id": None, "client_id": group, "host": group, "from_ts": start + n, "to_ts": None if n else start + 10**6, "end_reason": None if n else "timeout"} for n in range(2)],
        owners=[{"topic": group, "partition": 0, "from_ts": start, "to_ts": None, "owner": f"{group}-1"}],
    )  # fmt: skip


def _rebalance(group: str, at_ms: int) -> dict[str, Any]:
    return {
        "group": group, "at_ms": at_ms, "generation": 2, "cause": "join", "causes": ["join"], "cause_source": "event_log",
        "cause_detail": f"joined: {group}", "members_before": 1, "members_after": 2, "sync_ms": 12, "commit_gap_ms": None,
        "commit_gap_partitions": None, "commit_interval_ms": None,
        "partitions_moved": 3, "joined": [f"{group}-1"], "left": [],
    }  # fmt: skip


class Tags(HTMLParser):
    """The tags of a page, and their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_a_hostile_name_stays_text() -> None:
    text = page(report_data(5, HOSTILE), HOSTILE)
    plain = Tags(page(report_data(5, "plain"), "plain"))
    found = Tags(text)
    assert found.tags == plain.tags
    assert found.attributes == plain.attributes
    assert not found.tags & {"script", "img", "link", "iframe", "object"}
    assert "\u202e" not in text
    assert "\x00" not in text


def test_nothing_is_fetched() -> None:
    text = page(report_data(300), "t")
    assert not re.search(r"( src=|href=\"[^#]|url\(|@import|https?:)", text)
    assert "default-src 'none'" in text


@pytest.mark.parametrize("groups", [0, 1, 10_000])
def test_it_is_readable_with_few_and_many(groups: int) -> None:
    text = page(report_data(groups), "t")
    assert len(text) < 600_000
    assert f"{groups:,}</b>groups" in text
    assert ("worst of 10,000" in text) == (groups == 10_000)
    assert text.count('<li><a href="#s') == text.count('<section id="s')
    assert "None" not in re.sub(r"None\.", "", text)


def test_each_picture_is_there_for_wide_and_for_narrow_screens() -> None:
    text = page(report_data(5), "t")
    widths = Counter(re.findall(r'<div class="picture (\w+)"><svg viewBox="0 0 (\d+) ', text))
    wide, narrow = widths["wide", "960"], widths["narrow", "400"]
    assert wide == narrow > 5
    assert len(widths) == 2
    for name in ("wide", "narrow"):
        assert f".{name}{{display:" in text


@pytest.mark.parametrize(
    ("first", "last", "shown"),
    [
        ("12:59:52", "13:00:26", ["12:59:55", "13:00:00", "13:00:05", "13:00:10", "13:00:15", "13:00:20", "13:00:25"]),
        ("09:10:00", "11:50:00", ["09:30:00", "10:00:00", "10:30:00", "11:00:00", "11:30:00"]),
        ("09:10:01", "09:10:01", ["09:10:01"]),
    ],
)
def test_times_below_a_picture_are_round(first: str, last: str, shown: list[str]) -> None:
    day = 1_760_054_400_000
    span = tuple(
        day + sum(int(n) * s * 1000 for n, s in zip(one.split(":"), (3600, 60, 1), strict=True))
        for one in (first, last)
    )
    assert [clock(at, False) for at in find_ticks((span[0], span[1]), 8)] == shown


@pytest.mark.parametrize("days", [1, 3, 20, 400])
def test_there_are_few_times_however_long_it_took(days: int) -> None:
    for most in (3, 8):
        ticks = find_ticks((1_760_000_000_000, 1_760_000_000_000 + days * 86_400_000), most)
        assert 1 <= len(ticks) <= most
        assert len({b - a for a, b in pairwise(ticks)}) <= 1


@pytest.mark.parametrize(
    ("days", "labels", "foot"),
    [
        (20, "10-12 10-15 10-18 10-21 10-24 10-27", "2025-10-09 to 2025-10-29, times in UTC"),
        (0.25, "00:00:00 01:00:00 02:00:00 03:00:00 04:00:00 05:00:00 06:00:00", "2025-10-10, times in UTC"),
        (0, "00:00:00", "2025-10-10, times in UTC"),
    ],
)
def test_days_are_named_where_a_picture_has_many_of_them(days: float, labels: str, foot: str) -> None:
    first = 1_760_054_400_000 - (43_200_000 if days > 1 else 0)
    span = first, first + int(days * 86_400_000)
    shown = timeline([], [], span).partition("narrow")[0]
    times = re.findall(r'text-anchor="(\w+)" class="time">([^<]*)<', shown)
    assert " ".join(label for _, label in times) == labels
    assert times[-1][0] == ("end" if days == 0.25 else "middle")
    assert foot in shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"), (1.25, "1.2"), (99.96, "100"), (100.4, "100"), (1_200, "1,200"), (99_999, "99,999"), (100_000, "100 k"),
        (999_000, "999 k"), (1_000_000, "1 M"), (3_400_000, "3.4 M"), (1e9, "1 G"), (-2e6, "-2 M"), (-100_000, "-100 k"),
    ],
)  # fmt: skip
def test_numbers_have_few_digits(value: float, shown: str) -> None:
    assert number(value) == shown


@pytest.mark.parametrize("length", [23, 24, 25])
def test_a_name_is_cut_behind_so_many_characters(length: int) -> None:
    assert short_names([("m", "x" * length, None)]) == {"m": "x" * length if length <= 24 else "x" * 23 + "…"}


@pytest.mark.parametrize(("most", "top"), [(0, 1), (1, 1), (1.5, 2), (3, 4), (5, 5), (7, 8), (8, 8), (9, 10), (10, 10), (11, 20), (401, 500), (0.3, 1)])  # fmt: skip
def test_an_axis_ends_at_the_next_round_number(most: float, top: float) -> None:
    lines = Lines("t", "u", [Line("a", [(0, most), (9, 0)], "red"), Line("b", [(0, most / 2)], "red")])
    shown = timeline([lines], [], (0, 9)).partition("narrow")[0]
    labels = re.findall(r'class="name">([^<]*)<', shown)
    assert labels == ["0", number(top / 2), number(top)]


def test_headings_stand_over_their_numbers() -> None:
    text = table({"Name": lambda r: r["name"], "Lag": lambda r: r["lag"]}, [{"name": "a", "lag": 5}], "")
    assert '<th class="">Name</th><th class="n">Lag</th>' in text


def test_long_names_are_cut() -> None:
    assert safe("x" * 300) == "x" * 200 + "…"
    assert safe("größer 😀") == "größer 😀"


@pytest.mark.long  # starts a browser several times
@pytest.mark.parametrize("width", [400, 1200])
@pytest.mark.parametrize("groups", [0, 1, 10_000])
def test_a_browser_draws_it(tmp_path: Path, groups: int, width: int) -> None:
    source, picture = tmp_path / "r.html", tmp_path / "r.png"
    source.write_text(page(report_data(groups, HOSTILE if groups == 1 else "group {}"), "Report"), encoding="utf-8")
    common = [
        need_browser(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
        f"--user-data-dir={tmp_path}/profile", f"--window-size={width},3000",
    ]  # fmt: skip
    drawn = subprocess.run(
        [*common, f"--screenshot={picture}", "--hide-scrollbars", source.as_uri()], capture_output=True, timeout=90
    )
    assert picture.read_bytes().startswith(b"\x89PNG"), drawn.stderr.decode()[-500:]
    dom = subprocess.run([*common, "--dump-dom", source.as_uri()], capture_output=True, timeout=90, text=True).stdout
    assert dom.count("<section") == {0: 5, 1: 9}.get(groups, 8 + STORIES)
    assert "<script" not in dom
    assert not groups or dom.count("<svg") >= 4


def test_a_groups_lag_and_rates_are_drawn_with_few_points(tmp_path: Path) -> None:
    second, end = 1000, 2_000_000
    moments = range(0, end + 1, second)
    lag = [("g", "t", 0, ts, ts // second) for ts in moments]
    ends = [("t", 0, ts, 3 * ts // second, "log") for ts in moments]
    commits = [("g", "t", 0, ts, 2 * ts // second, True, False, "0a") for ts in moments]
    owned = json.dumps({"assigned_partitions": [{"topic_id": "0a", "partitions": [0]}]})
    assignment = ("g", "ConsumerGroupCurrentMemberAssignment", "m", 1, 5, False, owned)
    tables = published_tables(
        tmp_path / "t", lag_history=rows_of("lag_history", *lag), log_end_offsets=rows_of("log_end_offsets", *ends),
        offset_commits=rows_of("offset_commits", *commits), group_status=rows_of("group_status", ("g", "OK", 5, 5, 1)),
        new_group_records=rows_of("new_group_records", assignment),
    )  # fmt: skip
    (story,) = collect(tables).stories
    assert len(story.lag) <= POINTS
    assert story.lag[-1]["lag"] == 2000
    assert story.owners == [{"topic": "t", "partition": 0, "from_ts": 5, "to_ts": None, "owner": "m"}]
    steady = slice(1, -1)
    assert all(2.9 < row["per_s"] < 3.1 for row in story.produced[steady])
    assert all(1.9 < row["per_s"] < 2.1 for row in story.consumed[steady])


def test_a_group_that_committed_any_number_has_a_page(tmp_path: Path) -> None:
    offsets = (-(1 << 63), (1 << 63) - 1, 5)
    commits = [("g", "t", 0, 5000 * n, offset, True, False, "0a") for n, offset in enumerate(offsets)]
    lag = ("g", "t", 0, 0, 1 << 61)
    tables = published_tables(
        tmp_path / "t", lag_history=rows_of("lag_history", lag), offset_commits=rows_of("offset_commits", *commits),
        group_status=rows_of("group_status", ("g", "OK", None, 1 << 61, 1)),
    )  # fmt: skip
    data = collect(tables)
    assert max(row["per_s"] for row in data.stories[0].consumed) == pytest.approx(2**64, rel=1e-6)
    assert "group g" in page(data, "Large").lower()


def test_share_groups_with_what_was_archived(tmp_path: Path) -> None:
    tables = published_tables(
        tmp_path / "t",
        group_state=rows_of("group_state", ("queue", "share", 3, None, 2, None)),
        share_partitions=rows_of(
            "share_partitions", ("queue", "orders", 0, 7, 5, 3, 1000), ("queue", "orders", 1, 1, 0, 1, 2000)
        ),
        archived_ranges=rows_of(
            "archived_ranges",
            ("queue", "orders", 0, "0a", 11, 12, 2, 5, 900),
            ("queue", None, 1, "0b0c", 4, 4, 1, 1, 950),
        ),
    )
    data = collect(tables)
    (queue,) = data.queues
    assert (queue["partitions"], queue["available"], queue["acknowledged"], queue["archived"]) == (2, 8, 5, 3)
    assert [(one["first_offset"], one["delivery_count"]) for one in data.given_up] == [(4, 1), (11, 5)]
    shown = page(data, "Queues")
    assert "<h2>Share groups</h2>" in shown
    assert "11 to 12" in shown


def test_tables_of_a_release_without_share_groups_are_a_page(tmp_path: Path) -> None:
    tables = published_tables(tmp_path / "t")
    known = published.load(tables)
    older = {name: table for name, table in known.tables.items() if name not in ("share_partitions", "archived_ranges")}
    published.publish(tables, msgspec.structs.replace(known, tables=older), "")
    assert "Share groups" not in page(collect(tables), "Nothing")


def test_nothing_that_was_built_is_a_page_too(tmp_path: Path) -> None:
    assert "no commits" in page(collect(published_tables(tmp_path / "t")), "Nothing")


def test_owners_of_partitions_over_time() -> None:
    def record(ts: int, **assignments: list[int]) -> dict[str, Any]:
        members = [{"member_id": member, "assignment": {"t": numbers}} for member, numbers in assignments.items()]
        return {"record_ts": ts, "is_tombstone": False, "members": members}

    history = [record(1, a=[0, 1]), record(2, a=[0], b=[1]), record(3, b=[1]), record(4)]
    spans = [(row["partition"], row["owner"], row["from_ts"], row["to_ts"]) for row in ownership(history)]
    assert sorted(spans) == [(0, "a", 1, 3), (1, "a", 1, 2), (1, "b", 2, 4)]


def test_owners_of_a_consumer_group_s_partitions_over_time() -> None:
    """A partition that is being revoked is still its member's; a topic that the log does not name goes by its id."""

    def record(ts: int, member: str, owned: list[int] | None, revoking: tuple[int, ...] = ()) -> dict[str, Any]:
        value = {"assigned_partitions": [{"topic_id": "0a", "partitions": owned}]} if owned else {}
        value["partitions_pending_revocation"] = [{"topic_id": "0a", "partitions": list(revoking)}]
        payload = json.dumps(value)
        return {"record_ts": ts, "member_id": member, "is_tombstone": owned is None, "payload": payload}

    history = [
        record(1, "a", [0, 1]),
        record(2, "a", [0], (1,)),
        record(3, "a", [0]),
        record(4, "b", [1]),
        record(5, "a", None),
    ]
    spans = [
        (row["topic"], row["partition"], row["owner"], row["from_ts"], row["to_ts"])
        for row in consumer_ownership(history, {"0a": "orders"})
    ]
    assert sorted(spans) == [("orders", 0, "a", 1, 5), ("orders", 1, "a", 1, 3), ("orders", 1, "b", 4, None)]
    assert {row["topic"] for row in consumer_ownership(history, {})} == {"0a"}


def test_partitions_name_the_members_that_have_them_now_in_groups_of_both_protocols(tmp_path: Path) -> None:
    """A member that is gone has nothing any more, and one that was assigned its partitions long ago still has them."""

    def assigned(*numbers: int, revoking: tuple[int, ...] = ()) -> str:
        kinds = {"assigned_partitions": numbers, "partitions_pending_revocation": revoking}
        return json.dumps({name: [{"topic_id": "0a", "partitions": part}] for name, part in kinds.items() if part})

    kind = "ConsumerGroupCurrentMemberAssignment"
    history = [
        ("steady", 1, False, assigned(0)),
        ("dead", 2, False, assigned(1)),
        ("other", 3, False, assigned(2, revoking=(3,))),
        ("dead", 4, True, "{}"),
        *(("other", at, False, assigned(2, revoking=(3,))) for at in range(5, 5 + DRAWN_REBALANCES)),
    ]
    tables = published_tables(
        tmp_path / "t",
        offset_commits=rows_of("offset_commits", *(("g", "t", n, 1, 5, True, False, "0a") for n in range(4))),
        lag_status=rows_of("lag_status", *(("g", "t", n, "OK", 0, 0, 0, False) for n in range(4))),
        lag_history=rows_of("lag_history", ("g", "t", 0, 1, 7)),
        group_status=rows_of("group_status", ("g", "OK", 7, 7, 4)),
        member_sessions=rows_of("member_sessions", ("g", "steady", "till", "10.0.0.1", 1, None)),
        new_group_records=rows_of(
            "new_group_records", *(("g", kind, who, at, at, is_gone, said) for who, at, is_gone, said in history)
        ),
    )
    data = collect(tables)
    owners = {row["partition"]: (row["member_id"], row["client_id"]) for row in data.partitions}
    assert owners == {0: ("steady", "till"), 1: (None, None), 2: ("other", None), 3: ("other", None)}
    (story,) = data.stories
    drawn = [(row["partition"], row["owner"], row["from_ts"], row["to_ts"]) for row in story.owners]
    assert [one for one in drawn if one[3] is None and one[1] == "steady"] == [(0, "steady", 1, None)]


def test_a_group_ahead_of_its_topic_is_said_to_be(tmp_path: Path) -> None:
    data = report_data(1)
    data.partitions[0] |= {"current_offset": 9, "log_end_offset": 4, "lag": 0, "lag_at_least": 0, "beyond_end": 5}
    assert "0, 5 beyond the end" in page(data, "Ahead")


def test_members_have_short_names() -> None:
    uuid = "3f0c5b0e-1111-4222-8333-444455556666"
    members = [
        (f"till-1-{uuid}", None, "till-1"),
        (f"till-1-{uuid[::-1]}", "till", None),
        (uuid, None, "app"),
        ("b", None, "b"),
    ]
    names = short_names([*members, (f"till-1-{uuid}".replace("3f", "4f"), None, None)])
    assert list(names.values()) == ["till-1", "till", "app 3f0c", "b", "till-1 (2)"]
    assert shorten(f"gone: till-1-{uuid}", names) == "gone: till-1"


def test_a_group_that_rebalances_all_the_time_is_not_healthy() -> None:
    """11 rebalances in 35 s, and 4 in the minute of a deployment; a group that falls behind keeps that health."""
    with duckdb.connect() as db:
        db.execute(SEVERITIES)
        db.execute('CREATE TABLE rebalances ("group" TEXT, at_ms BIGINT, cause TEXT)')
        for group, count, step_ms in (
            ("busy", 11, 3_500),
            ("deployed", 4, 1_000),
            ("late", 9, 1_000),
            ("slow", 40, 20_000),
        ):
            rows = [(group, 1_000_000 + number * step_ms, "leave" if number else "join") for number in range(count)]
            db.executemany("INSERT INTO rebalances VALUES (?, ?, ?)", rows)
        db.execute(
            'CREATE TABLE group_state ("group" TEXT, type TEXT, generation INT, protocol TEXT, members INT, empty_since BIGINT)'
        )
        db.execute("INSERT INTO group_state SELECT DISTINCT \"group\", 'classic', 1, 'range', 1, NULL FROM rebalances")
        db.execute(
            "CREATE TABLE group_status AS SELECT 'late' AS \"group\", 'WARN' AS status, 1 AS total_lag, 1 AS max_lag, 1 AS partitions"
        )
        found = dict(db.execute(f'SELECT "group", status FROM ({GROUPS_SQL})').fetchall())
        assert found == {"busy": "RESTLESS", "deployed": "OK", "late": "WARN", "slow": "OK"}
        listed = db.execute(QUERIES["restless"]).fetchall()
    assert listed == [("busy", 11, 11, "leave"), ("late", 9, 9, "leave")]
