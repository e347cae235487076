"""Every derived table of one small story, row by row, as it was read once: `tests/pipeline/golden/tables.jsonl`.

`MUSTER_GOLDEN=write python -m pytest -n 0 tests/pipeline/test_tables.py` writes it again; review the difference.
"""

import json
import os
from functools import reduce
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - PySpark's own custom

from pipeline import published
from pipeline.decode.layout import TOPIC
from pipeline.jobs.build import DERIVED, Tables
from pipeline.synth import Writer, commit
from protocol.records import Record
from tests.commands import Shell, shell_fixture
from tests.pipeline.engine import START_MS, Engine
from tests.pipeline.share_logs import write_shares
from tests.pipeline.simulated_groups import SimulatedGroup, live

pytestmark = pytest.mark.xdist_group("spark")

GOLDEN = Path(__file__).parent / "golden" / "tables.jsonl"
HOUR_MS = 3_600_000

muster = shell_fixture("pipeline")


def write_commits(logs: Path, broker: str) -> None:
    """Commits of every kind. Broker b goes on where the log of broker a is damaged."""
    log = Writer(logs / broker / f"{TOPIC}-1", segment_bytes=600)

    def put(offset: int | None, *, group: str = "plain", at_s: int = 0, producer: int = -1, **told: Any) -> None:
        record = commit((group, "t", 0), offset, START_MS + 1000 * at_s, **told)
        log.append([record], producer_id=producer, transactional=producer >= 0)

    for at_s, offset in enumerate((10, 40, 30, 30, 90)):
        put(offset, at_s=20 * at_s, metadata="m" * at_s)
    for producer, commits in ((1, True), (2, False)):
        put(100 + producer, group="txn", at_s=producer, producer=producer)
        log.end(producer, commits=commits, at_ms=START_MS + 5000)
    put(7, group="open", at_s=6, producer=3, version=4, topic_id=b"o" * 16)
    put(8, group="open", at_s=7)
    put(5, group="old", version=1)
    put(6, group="new", version=4, topic_id=b"i" * 16)
    put(6, group="not new", version=4, topic_id=b"i" * 16)
    put(7, group="not new")
    for at_s, offset in enumerate((500, None, 5, 9)):
        put(offset, group="gone", at_s=at_s)
    put(1, group="moved")
    if broker == "b":
        put(99, group="diverged")
    log.append([Record(b"\x00\x63", b"?", timestamp=START_MS)])
    if broker == "a":
        file = max(log.directory.glob("*.log"))
        file.write_bytes(file.read_bytes() + b"\xff" * 100)


def write_story(root: Path) -> dict[str, Path]:
    """Groups of both protocols with the server's events, commits beside them, and log ends of the topics."""
    logs = root / "logs"
    for broker in "ab":
        write_commits(logs, broker)
    write_shares(logs)
    moved = Writer(logs / "a" / f"{TOPIC}-2")
    moved.append([commit(("moved", "t", 0), 2, START_MS + 1000)])
    engine = Engine(logs / "a" / f"{TOPIC}-0")
    SimulatedGroup(engine, "classic", Random(1)).live(4)
    live(engine, "modern", Random(1), 2)
    ends = [
        {"topic": topic, "partition": 0, "ts": START_MS + at_ms, "leo": leo}
        for topic in ("t", "orders")
        for at_ms, leo in ((0, 20), (30_000, 60), (90_000, 200))
    ]
    (root / "ends.jsonl").write_text("".join(json.dumps(end) + "\n" for end in ends))
    return {"logs": logs, "ends": root / "ends.jsonl", "events": engine.write_events(root / "events.jsonl")}


def test_a_story_from_logs_to_a_report(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, muster: Shell
) -> None:
    """By the commands, with each table as it was. The story's logs have problems, which the exit codes tell."""
    odd = tmp_path / "[a] {b,c} *?\\`%20"  # to Spark a pattern, the end of a name, a coded space: here a plain name
    odd.mkdir()
    story, out, page = write_story(odd), odd / "t", tmp_path / "r.html"
    story["events"].write_bytes(b'{"lost":3}\n' + story["events"].read_bytes())
    assert muster.json(3, "ingest", story["logs"], "--out", out)["rows"]["offset_commits"] > 20
    muster(0, "optimize", "--out", out, "--json")
    with monkeypatch.context() as patched:
        patched.setattr("pipeline.session.session", lambda *_args, **_options: spark)
        patched.setattr(spark, "stop", lambda: None)  # others have it as well
        given = ("--ends", story["ends"], "--events", story["events"], "--now", START_MS + HOUR_MS)
        built = muster.json(3, "build", "--out", out, *given)
    assert built["problems"] > 0
    compare_tables(spark, out, built["rows"])
    published.create_views(spark, out)
    assert spark.table("latest_offsets").count() == built["rows"]["latest_offsets"]
    assert spark.table("effective_commits").count() > 0
    muster(3, "verify", story["logs"], "--tables", out)
    monkeypatch.setattr("pipeline.session.session", lambda *_args, **_options: pytest.fail("Spark was started"))
    muster(0, "report", "--tables", out, "--out", page, "--title", "<Groups>")
    text = page.read_text()
    assert "<title>&lt;Groups&gt;</title>" in text
    assert " over time</a>" in text
    assert "Lag of each partition" in text


def compare_tables(spark: Any, out: Path, made: dict[str, int]) -> None:
    """Compare all rows with those that were read once."""
    assert made.keys() == set(DERIVED)
    tables, found = Tables(spark, out), []
    for name in sorted(made):
        rows = tables.read_table(name)
        if name == "offset_commits":
            rows = rows.where("group <> 'classic'")  # of which there are many
        found.append(rows.select(F.lit(name), F.to_json(F.struct("*"))))
    rows = reduce(DataFrame.union, found).collect()  # one plan, not one for each table
    lines = [f'["{name}",{row}]' for name, row in sorted(map(tuple, rows))]
    if os.environ.get("MUSTER_GOLDEN") == "write":
        GOLDEN.write_text("\n".join(lines) + "\n")
    assert lines == GOLDEN.read_text().splitlines()
