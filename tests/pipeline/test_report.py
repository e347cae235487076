"""The report: readable with nothing and with very much, names never become markup, a browser shows it."""

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from pipeline.report.page import page
from pipeline.report.svg import safe
from pipeline.report.told import GROUPS, POINTS, Told, progress, total_lag

HOSTILE = "<script>alert(1)</script>\"'&\u202egnp.exe\x00\n</title><img src=x onerror=alert(2)>"


def told(groups: int, name: str = "group {}") -> Told:
    """What a day of so many groups would tell, bounded as the collector bounds it."""
    start = 1_760_000_000_000
    shown = range(min(groups, GROUPS))
    names = [name.replace("{}", str(i)) for i in shown]
    few = names[:20]
    return Told(
        paths=[name], logs={name: 7}, first_ms=start, last_ms=start + 3_600_000, groups_total=groups,
        partitions_total=groups * 3, rebalances_total=groups, problems_total=1, statuses={"OK": groups},
        groups=[{"group": g, "type": "classic", "generation": 3, "protocol": g, "members": 2, "empty_since": None, "status": "ERR", "total_lag": 10**9, "max_lag": 5, "partitions": 3} for g in names],
        partitions=[{"group": g, "topic": g, "partition": 0, "current_offset": 5, "log_end_offset": 9, "lag": 4, "member_id": g, "client_host": g, "client_id": g, "status": "STOP", "leo_source": "checkpoint"} for g in names],
        lag_history=[{"group": g, "ts": start + i * 60_000, "lag": i} for g in few for i in range(30)],
        progress=[{"group": g, "window_start": start + i * 60_000, "advance": i * i, "commits": 3} for g in few for i in range(30)],
        causes=[{"cause": "join", "cause_source": "inferred", "count": groups}],
        sync_ms=[{"range": "< 10 ms", "count": groups}],
        rebalances=[_rebalance(g, start + i * 90_000) for i, g in enumerate(few)],
        sessions=[{"group": g, "member_id": g, "instance_id": None, "client_id": g, "host": g, "from_ts": start + i, "to_ts": None if i % 2 else start + 10**6, "end_reason": None if i % 2 else "timeout"} for i, g in enumerate(few)],
        stickiness=[{"group": g, "stickiness": 0.5, "common": 10, "kept": 5, "rebalances": 2} for g in few],
        trouble=[{"group": g, "topic": g, "partition": 1, "status": "REWIND", "worst_rewind": 9, "lag_at_least": 3, "quiet_s": 2.5, "quiet_too_long": True, "lag_trend": 1.5} for g in few],
        health=[{"log_dir": g, "bytes": 10**8, "segments": 2, "commits": 100, "live_commits": 3, "tombstones": 1, "aborted_commits": 0, "open_txns": 1, "oldest_open_txn_ts": start, "replay_s": 2.0, "dead_ratio": 0.97} for g in few],
        problems=[{"severity": "problem", "kind": "bad_crc", "log_dir": name, "segment_base": 0, "pos": 5, "from_offset": 1, "to_offset": None, "detail": name}],
        unknown=[{"key_version": 17, "reason": name, "count": 3}],
    ) if groups else Told()  # fmt: skip


def _rebalance(group: str, at_ms: int) -> dict[str, Any]:
    return {
        "group": group, "at_ms": at_ms, "generation": 2, "cause": "join", "causes": ["join"], "cause_source": "event_log",
        "cause_detail": f"joined: {group}", "members_before": 1, "members_after": 2, "sync_ms": 12, "commit_gap_ms": None,
        "partitions_moved": 3,
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
    text = page(told(5, HOSTILE), HOSTILE)
    plain = Tags(page(told(5, "plain"), "plain"))
    found = Tags(text)
    assert found.tags == plain.tags
    assert found.attributes == plain.attributes
    assert not found.tags & {"script", "img", "link", "iframe", "object", "a"}
    assert "\u202e" not in text
    assert "\x00" not in text


def test_nothing_is_fetched() -> None:
    text = page(told(300), "t")
    assert not re.search(r"( src=|href|url\(|@import|https?:)", text)
    assert "default-src 'none'" in text


@pytest.mark.parametrize("groups", [0, 1, 10_000])
def test_it_is_readable_with_few_and_many(groups: int) -> None:
    text = page(told(groups), "t")
    assert len(text) < 600_000
    assert f"{groups:,}</b>groups" in text
    assert ("worst of 10,000" in text) == (groups == 10_000)
    assert "None" not in re.sub(r"None\.", "", text)


def test_long_names_are_cut() -> None:
    assert safe("x" * 300) == "x" * 200 + "…"
    assert safe("größer 😀") == "größer 😀"


BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)


@pytest.mark.skipif(BROWSER is None, reason="no Chromium on this machine")
@pytest.mark.parametrize("groups", [0, 1, 10_000])
def test_a_browser_draws_it(tmp_path: Path, groups: int) -> None:
    assert BROWSER is not None
    source, picture = tmp_path / "r.html", tmp_path / "r.png"
    source.write_text(page(told(groups, HOSTILE if groups == 1 else "group {}"), "Report"), encoding="utf-8")
    common = [
        BROWSER,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path}/profile",
        "--window-size=1200,3000",
    ]
    drawn = subprocess.run(
        [*common, f"--screenshot={picture}", "--hide-scrollbars", source.as_uri()], capture_output=True, timeout=90
    )
    assert picture.read_bytes().startswith(b"\x89PNG"), drawn.stderr.decode()[-500:]
    dom = subprocess.run([*common, "--dump-dom", source.as_uri()], capture_output=True, timeout=90, text=True).stdout
    assert dom.count("<section>") == (9 if groups else 7)
    assert "<script" not in dom
    assert not groups or dom.count("<svg") >= 4


@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize(("minutes", "points", "of_each"), [(3, 3, 1), (1000, 200, 5)])
def test_progress_is_drawn_with_few_points(spark: Any, minutes: int, points: int, of_each: int) -> None:
    rows = [(name, n * 60_000, n, 2) for n in range(minutes) for name in ("g", "h")]
    velocity = spark.createDataFrame(rows, "group string, window_start bigint, advance bigint, commits bigint")
    found = [row for row in progress(velocity).collect() if row.group == "g"]
    assert len(found) == points <= POINTS
    assert {row.window_start for row in found} == {n * of_each * 60_000 for n in range(points)}
    assert {row.commits for row in found} == {2}, "a minute"
    assert sum(row.advance for row in found) * of_each == sum(range(minutes))


@pytest.mark.xdist_group("spark")
def test_a_groups_lag_is_that_of_all_its_partitions(spark: Any) -> None:
    """Though each partition is looked at at moments of its own."""
    rows = [("g", "t", 0, 1000, 5), ("g", "t", 1, 2000, 7), ("g", "t", 0, 3000, 1), ("g", "t", 1, 4000, 0)]
    history = spark.createDataFrame(rows, "group string, topic string, partition int, ts bigint, lag bigint")
    total = sorted((row.ts, row.lag) for row in total_lag(history).collect())
    assert total == [(1000, 5), (2000, 12), (3000, 8), (4000, 1)]
