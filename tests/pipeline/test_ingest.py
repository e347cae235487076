"""Ingest, follow and optimize: no loss, no doubles, few files. Without Spark, which runs the same code in its workers."""

import json
import threading
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline import locks, manifest, sink
from pipeline.decode.files import Store, without_secrets
from pipeline.decode.layout import TOPIC
from pipeline.decode.logs import LogDir
from pipeline.errors import TablesInUseError, UsageError
from pipeline.jobs import optimize as optimizing
from pipeline.jobs.ingest import Follower, bytes_to_read, follow, ingest
from pipeline.jobs.optimize import optimize
from pipeline.synth import Plan, Writer, commit, write_logs
from protocol.records import Record
from tests.pipeline.group_logs import fill
from tests.pipeline.ingested import ids, read

DAY_MS = 86_400_000


def drain(logs: Path, out: Path, max_bytes: int | None = None) -> manifest.Manifest:
    with Follower([str(logs)], out, max_bytes).lock_tables() as follower:
        follow(follower, once=True)
        return follower.known


def optimize_tables(_logs: Path, out: Path) -> None:
    optimize(out)


def test_ingest_reads_on_and_never_twice(tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    writer = Writer(logs / f"{TOPIC}-0", segment_bytes=2000)
    want = known_bytes = 0
    for round_ in range(3):
        for n in range(20):
            writer.append([commit(("g", "t", n % 3), n, round_) for _ in range(3)])
        want += 60
        size = sum(file.stat().st_size for file in logs.rglob("*.log"))
        assert bytes_to_read([str(logs)], out, {}) == size - known_bytes
        known_bytes = size
        after = read(logs, out)
        again = read(logs, out)
        assert again.read_ms >= after.read_ms, "the logs were read once more"
        assert msgspec.structs.replace(again, read_ms=after.read_ms) == after, "nothing new, nothing else changed"
        assert bytes_to_read([str(logs)], out, {}) == 0
        assert ids(out) == [(0, n) for n in range(want)]
    assert after.logs[f"{TOPIC}-0"].next_offset == want


def test_ingest_finds_its_place_in_a_segment_that_was_compacted(tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    writer = fill(Writer(logs / f"{TOPIC}-0", segment_bytes=1100), range(10))
    read(logs, out)
    (path,) = (logs / f"{TOPIC}-0").glob("*.log")
    fill(writer, range(10, 13))
    assert len(list((logs / f"{TOPIC}-0").glob("*.log"))) == 2, "the cleaner leaves the newest segment alone"
    data = path.read_bytes()
    path.write_bytes(data[len(data) // 2 :])  # as if a cleaner had taken the first five
    read(logs, out)
    assert ids(out) == [(0, n) for n in range(13)]


def test_follow_waits_for_torn_halves_and_sees_rolled_and_compacted_segments(tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    directory = logs / f"{TOPIC}-0"
    writer = fill(Writer(directory, segment_bytes=600), range(12))
    last = sorted(directory.glob("*.log"))[-1]
    whole = last.read_bytes()
    last.write_bytes(whole[:-20])
    drain(logs, out)
    assert ids(out) == [(0, n) for n in range(11)], "the torn batch is not there yet"
    last.write_bytes(whole)
    drain(logs, out)
    assert ids(out) == [(0, n) for n in range(12)]
    fill(writer, range(12, 40))
    first = sorted(directory.glob("*.log"))[0]
    first.write_bytes(first.read_bytes()[: len(first.read_bytes()) // 2])
    drain(logs, out, max_bytes=700)
    assert ids(out) == [(0, n) for n in range(40)]
    read(logs, out)
    assert ids(out) == [(0, n) for n in range(40)], "ingest and follow share their place"


def break_second_batch(file: Path) -> None:
    """Give the second batch of a segment a length that no batch has: no header begins there."""
    data = bytearray(file.read_bytes())
    second = 12 + int.from_bytes(data[8:12], "big")
    data[second + 8 : second + 12] = bytes(4)
    file.write_bytes(data)


@pytest.mark.parametrize("segment", [1, -1])
def test_follow_tells_of_damage_and_reads_what_lies_behind_it(tmp_path: Path, segment: int) -> None:
    logs = tmp_path / "logs"
    fill(Writer(logs / f"{TOPIC}-0", segment_bytes=1100), range(40))
    break_second_batch(sorted(logs.rglob("*.log"))[segment])
    want = read(logs, tmp_path / "ingest")
    for out, max_bytes in (tmp_path / "small", 400), (tmp_path / "large", None):
        after = drain(logs, out, max_bytes)
        assert (after.logs, after.rows) == (want.logs, want.rows)
        assert ids(out) == ids(tmp_path / "ingest")
    with Follower([str(logs)], tmp_path / "salvage", 400, on_error="salvage").lock_tables() as follower:
        follow(follower, once=True)
        follower.step()
    assert follower.known.rows == {"batches": 39, "offset_commits": 39, "log_problems": 1}


def test_a_step_counts_what_it_has_salvaged(tmp_path: Path) -> None:
    """Else `follow` would take it for one that has found nothing."""
    fill(Writer(tmp_path / "logs" / f"{TOPIC}-0"), range(40))
    break_second_batch(next((tmp_path / "logs").rglob("*.log")))
    with Follower([str(tmp_path / "logs")], tmp_path / "out", on_error="salvage").lock_tables() as follower:
        assert [follower.step() for _ in range(3)] == [1, 39, 0]


@pytest.mark.parametrize("times", [1, 2])
def test_a_segment_may_go_away_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """By a cleaner, say. A step that has failed has noted nothing, nor that damage was told; a second one ends it."""
    logs, out = tmp_path / "logs", tmp_path / "out"
    fill(Writer(logs / f"{TOPIC}-0"), range(5))
    (damaged,) = logs.rglob("*.log")
    break_second_batch(damaged)
    write, failures = sink.write, []

    def fail_at_first(*words: Any) -> Any:
        if len(failures) < times:
            failures.append(words)
            raise FileNotFoundError("00000000000000000000.log")
        return write(*words)

    with Follower([str(logs)], out).lock_tables() as follower:
        assert follower.step() == 1
        monkeypatch.setattr("pipeline.sink.write", fail_at_first)
        with nullcontext() if times == 1 else pytest.raises(FileNotFoundError):
            follow(follower, once=True)
        assert follower.known.rows.get("log_problems", 0) == (times == 1)
    assert len(failures) == times


def test_a_log_that_two_paths_lead_to_is_read_once(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    fill(Writer(logs / f"{TOPIC}-0"), range(5))
    (tmp_path / "link").symlink_to(logs)
    paths = [logs, f"{logs}/", tmp_path / "link", logs / f"{TOPIC}-0", logs]
    after = ingest(None, [str(path) for path in paths], tmp_path / "out")
    assert after.rows == {"batches": 5, "offset_commits": 5}
    assert list(after.logs) == [f"{TOPIC}-0"]


def test_follow_while_the_log_is_written(tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    writers = [Writer(logs / f"{TOPIC}-{n}", segment_bytes=3000) for n in range(2)]
    stopped, written = threading.Event(), [0]

    def write() -> None:
        while not stopped.is_set():
            for writer in writers:
                fill(writer, [written[0]])
            written[0] += 1
            stopped.wait(0.001)

    for writer in writers:
        fill(writer, [0])
    thread = threading.Thread(target=write)
    thread.start()
    try:
        with Follower([str(logs)], out).lock_tables() as follower:
            steps = sum(follower.step() > 0 for _ in range(20))
    finally:
        stopped.set()
        thread.join(60)
    assert steps > 1, "logs grew while they were followed"
    drain(logs, out)
    assert ids(out) == [(p, n) for p in range(2) for n in range(written[0] + 1)]


def test_follow_ends_in_time_while_commits_go_on(tmp_path: Path) -> None:
    """Every step finds more, and still it ends."""
    writer = fill(Writer(tmp_path / "logs" / f"{TOPIC}-0"), [0])
    steps = []

    class Busy(Follower):
        def step(self) -> int:
            fill(writer, [len(steps)])
            steps.append(super().step())
            return steps[-1]

    with Busy([str(tmp_path / "logs")], tmp_path / "out").lock_tables() as follower:
        follow(follower, every_ms=1, seconds=0.2)
    assert all(steps)
    assert len(ids(tmp_path / "out")) == len(steps) + 1


class Clock:
    """What `pipeline.jobs.ingest` takes for the module `time`."""

    def __init__(self, patched: pytest.MonkeyPatch) -> None:
        self.now = 1_000_000.0
        self.sleeps: list[float] = []
        patched.setattr("pipeline.jobs.ingest.time", self)

    def monotonic(self) -> float:
        return self.now

    time = monotonic

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(round(seconds, 6))
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_steps_begin_at_an_interval_and_none_begins_when_the_time_is_over(tmp_path: Path, clock: Clock) -> None:
    began = []

    class Slow(Follower):
        def step(self) -> int:
            began.append(clock.now - 1_000_000)
            clock.now += 0.75 if len(began) == 2 else 0.125
            return 0

    follow(Slow([str(tmp_path)], tmp_path / "out"), every_ms=500, seconds=2.0)
    assert began == [0, 0.5, 1.25, 1.75]
    assert clock.sleeps == [0.375, 0.0, 0.375]


def test_a_segment_may_go_away_again_and_again_but_not_in_two_steps_in_a_row(tmp_path: Path, clock: Clock) -> None:
    outcomes = iter([1, None, 1, None, 0, None, None])

    class Unlucky(Follower):
        def step(self) -> int:
            if (outcome := next(outcomes)) is None:
                raise FileNotFoundError("00000000000000000000.log")
            return outcome

    with pytest.raises(FileNotFoundError):
        follow(Unlucky([str(tmp_path)], tmp_path / "out"))
    assert list(outcomes) == []


def test_what_is_merged_stays_for_a_while_and_is_removed_now_and_then(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(optimizing, "SMALL_FILES_MAX", 2)
    out, writer = tmp_path / "out", Writer(tmp_path / "logs" / f"{TOPIC}-0")
    there = []
    with Follower([str(tmp_path / "logs")], out).lock_tables() as follower:
        for at_s in (0, 1, 70, 120, 121.5, 150, 190, 275):
            clock.now = 1_000_000.0 + at_s
            fill(writer, [1])
            follower.step()
            named = {file for files in follower.known.files.values() for file in files}
            left = {file.path for file in Store.of(out).tree("raw")}
            assert named <= left
            there.append(len(left - named) // 2)  # of two tables
    assert there == [0, 2, 4, 6, 6, 8, 4, 2]


def test_that_nothing_was_new_is_noted_every_ten_seconds(tmp_path: Path, clock: Clock) -> None:
    out = tmp_path / "out"
    fill(Writer(tmp_path / "logs" / f"{TOPIC}-0"), [1])
    noted = []
    with Follower([str(tmp_path / "logs")], out).lock_tables() as follower:
        for at_s in (0, 5, 9.5, 10, 12, 19.5, 21):
            clock.now = 1_000_000.0 + at_s
            follower.step()
            noted.append(manifest.load(out).read_ms / 1000 - 1_000_000)
    assert noted == [0, 0, 0, 10, 10, 10, 21]


def test_a_clock_that_goes_back_does_not_take_back_up_to_when_the_logs_were_read(tmp_path: Path, clock: Clock) -> None:
    """Log ends of between would look like lag."""
    out, writer = tmp_path / "out", Writer(tmp_path / "logs" / f"{TOPIC}-0")
    noted, latest = [], 0.0
    with Follower([str(tmp_path / "logs")], out).lock_tables() as follower:
        for number, at_s in enumerate((0, 20, 5, 6, 30, 29, 41)):
            clock.now = 1_000_000.0 + at_s
            if number % 3 != 2:
                fill(writer, [number])
            follower.step()
            latest = max(latest, at_s)
            noted.append((manifest.load(out).read_ms / 1000 - 1_000_000, latest))
    assert [read for read, _ in noted] == [latest for _, latest in noted]


def test_the_logs_share_what_is_read_at_a_time(tmp_path: Path) -> None:
    for number in range(3):
        fill(Writer(tmp_path / "logs" / f"{TOPIC}-{number}"), range(40))
    (size, *_) = {file.stat().st_size // 40 for file in (tmp_path / "logs").rglob("*.log")}
    with Follower([str(tmp_path / "logs")], tmp_path / "out", max_bytes=12 * size).lock_tables() as follower:
        assert follower.step() == 12
        assert {position.next_offset for position in follower.known.logs.values()} == {4}


def test_damage_that_comes_to_one_log_after_the_other_is_told_once_each(tmp_path: Path) -> None:
    writers = [fill(Writer(tmp_path / "logs" / f"{TOPIC}-{number}"), range(3)) for number in range(3)]
    with Follower([str(tmp_path / "logs")], tmp_path / "out").lock_tables() as follower:
        for number, writer in enumerate(writers):
            with next(writer.directory.glob("*.log")).open("ab") as file:
                file.write(b"\xff" * 100)
            for _ in range(3):
                follower.step()
            assert follower.known.rows["log_problems"] == number + 1


def test_only_a_topic_that_is_named_is_read(tmp_path: Path) -> None:
    for topic in (TOPIC, "copied_offsets"):
        fill(Writer(tmp_path / "logs" / f"{topic}-0"), range(3))
    after = ingest(None, [str(tmp_path / "logs")], tmp_path / "out", topic="copied_offsets")
    assert list(after.logs) == ["copied_offsets-0"]
    assert bytes_to_read([str(tmp_path / "logs")], tmp_path / "out", {"topic": "copied_offsets"}) == 0
    with Follower([str(tmp_path / "logs")], tmp_path / "f", topic="copied_offsets").lock_tables() as follower:
        follower.step()
        assert follower.known.logs == after.logs


def test_a_follower_keeps_other_readers_of_logs_out_and_lets_tables_be_built(tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    fill(Writer(logs / f"{TOPIC}-0"), [0])
    with Follower([str(logs)], out).lock_tables() as follower, locks.lock_tables(out, locks.BUILDER):
        assert follower.step() == 1
        with pytest.raises(TablesInUseError):
            read(logs, out)
        with pytest.raises(TablesInUseError), Follower([str(logs)], out).lock_tables():
            pass


def test_a_step_that_died_before_the_manifest_is_read_again(tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    write_logs(logs, Plan(records=300, partitions=1))
    drain(logs, out)
    want = ids(out)
    (out / manifest.NAME).unlink()
    drain(logs, out)
    assert ids(out) == want


def test_a_log_of_another_broker_is_not_taken_for_the_first_ones(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for broker, records in (("broker-1", 5), ("broker-2", 3)):
        writer = Writer(tmp_path / broker / f"{TOPIC}-0")
        writer.append([commit(("g", broker, 0), n, n) for n in range(records)])
    read(tmp_path / "broker-1", out)
    before = (out / manifest.NAME).read_bytes()
    with pytest.raises(UsageError, match=r"__consumer_offsets-0 was read from .*broker-1.* is now in .*broker-2"):
        read(tmp_path / "broker-2", out)
    with pytest.raises(UsageError):
        drain(tmp_path / "broker-2", out)
    with pytest.raises(UsageError, match="was read as __consumer_offsets-0 and would be broker-1/__consumer_offsets-0"):
        read(tmp_path, out)
    assert (out / manifest.NAME).read_bytes() == before
    read(tmp_path / "broker-1" / f"{TOPIC}-0", out)  # the same log, named more closely
    assert ids(out) == [(0, n) for n in range(5)]


def test_many_small_steps_leave_few_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimizing, "SMALL_FILES_MAX", 4)
    monkeypatch.setattr("pipeline.jobs.ingest.GRACE_S", 0.0)
    logs, out = tmp_path / "logs", tmp_path / "out"
    writer = Writer(logs / f"{TOPIC}-0")
    with Follower([str(logs)], out).lock_tables() as follower:
        for n in range(30):
            fill(writer, [n])
            follower.step()
            if n == 15:
                with locks.lock_tables(out, locks.BUILDER):
                    fill(writer, [n])
                    follower.step()  # a build is reading what may be merged now: it is removed later
        assert all(len(files) < 8 for files in follower.known.files.values())
        assert len(list((out / "raw").rglob("*.parquet"))) == sum(map(len, follower.known.files.values()))
    assert ids(out) == [(0, n) for n in range(31)]


def test_while_a_build_runs_its_lock_is_asked_for_once_in_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.jobs.ingest.GRACE_S", 3600.0)
    logs, out = tmp_path / "logs", tmp_path / "out"
    writer, asked = Writer(logs / f"{TOPIC}-0"), []
    lock = locks.lock_tables
    with Follower([str(logs)], out).lock_tables() as follower, locks.lock_tables(out, locks.BUILDER):
        follower._merged = [(float("-inf"), "raw/merged.parquet")]
        monkeypatch.setattr(locks, "lock_tables", lambda *words: asked.append(words) or lock(*words))
        for n in range(3):
            fill(writer, [n])
            follower.step()
    assert len(asked) == 1


def test_optimize_merges_by_date_and_removes_what_nobody_names(tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    writer = Writer(logs / f"{TOPIC}-0")
    with Follower([str(logs)], out).lock_tables() as follower:
        for n in range(12):
            fill(writer, [n], 1_760_000_000_000 + n * DAY_MS // 4)
            follower.step()
    before = ids(out)
    orphan = out / "raw" / "offset_commits" / "left-behind.parquet"
    orphan.write_bytes(b"")
    done = optimize(out)
    assert (done.files_before, done.orphans_removed) == (24, 0), "an orphan may be somebody's next file"
    files = manifest.load(out).files["offset_commits"]
    assert [file.split("/")[2] for file in files] == [f"date=2025-10-{day:02}" for day in (9, 10, 11, 12)]
    assert ids(out) == before
    with locks.lock_tables(out, locks.BUILDER):
        assert optimize(out, orphan_age_s=-1).orphans_removed == 0, "a build may be reading what was merged"
    again = optimize(out, orphan_age_s=-1)
    assert again.files_after == again.files_before == done.files_after
    assert again.orphans_removed == 25
    assert not orphan.exists()
    assert ids(out) == before
    assert read(logs, out).files["offset_commits"] == files, "reading on needs nothing of what was merged"


def rows_of(out: Path, table: str) -> dict[str, list[dict[str, Any]]]:
    """The rows that the manifest counts, in its order, by the directory that they are in."""
    found: dict[str, list[dict[str, Any]]] = {}
    for file in manifest.load(out).files[table]:
        rows = pq.ParquetFile(out / file).read().to_pylist()
        found.setdefault(file.rpartition("/")[0].rpartition("/")[2], []).extend(rows)
    return found


@pytest.mark.parametrize("file_bytes", [1, 20_000, 64 << 20])
def test_optimize_keeps_every_row_in_order_and_dates_it_by_its_newest_record(
    file_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a batch that began a day before, and of a file of an older release, which had fewer columns."""
    monkeypatch.setattr(optimizing, "FILE_BYTES", file_bytes)
    logs, out = tmp_path / "logs", tmp_path / "out"
    writer = Writer(logs / f"{TOPIC}-0")
    writer.append([Record(b"\0\x63", b"?", timestamp=1_760_000_000_000)])
    with Follower([str(logs)], out).lock_tables() as follower:
        for n in range(8):
            at_ms = 1_760_000_000_000 + n * DAY_MS // 3
            commits = [commit(("g", "t", 0), n, at_ms + at * DAY_MS // 2, 4, topic_id=b"i" * 16) for at in range(3)]
            writer.append(commits)
            follower.step()
    old = out / follower.known.files["offset_commits"][0]
    pq.write_table(pq.read_table(old).drop_columns(["topic_id"]), old)
    before = {table: rows_of(out, table)[table] for table in follower.known.files}
    for row in before["offset_commits"]:
        row.setdefault("topic_id", None)
    sizes = {path: path.stat().st_size for path in out.rglob("*.parquet")}
    (out / "raw" / "offset_commits" / "left-behind.parquet").write_bytes(b"x" * 99)

    done = optimize(out)
    after = manifest.load(out)
    for table, column in (("batches", "max_ts"), ("offset_commits", "record_ts"), ("unknown_records", "record_ts")):
        days: dict[str, list[dict[str, Any]]] = {}
        for row in before[table]:
            days.setdefault(f"date={datetime.fromtimestamp(row[column] / 1000, UTC):%Y-%m-%d}", []).append(row)
        assert rows_of(out, table) == days
        named = [after_file.rpartition("/")[0] for after_file in after.files[table]]
        assert len(set(named)) == len(named) or file_bytes < 64 << 20, "one file a day"
    assert len(before["unknown_records"]) == 1
    left = [out / file for files in after.files.values() for file in files]
    assert (done.files_before, done.bytes_before) == (len(sizes), sum(sizes.values()))
    assert (done.files_after, done.bytes_after) == (len(left), sum(file.stat().st_size for file in left))
    assert after.rows == follower.known.rows


@given(st.lists(st.integers(0, 30), max_size=30))
def test_files_are_merged_with_their_neighbours_up_to_a_size(sizes: list[int]) -> None:
    store = SimpleNamespace(size=lambda file: sizes[int(file)])
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(optimizing, "FILE_BYTES", 40)
        groups = list(optimizing._group_files(store, tuple(map(str, range(len(sizes))))))
    assert [file for group in groups for file in group] == [str(n) for n in range(len(sizes))]
    totals = [sum(sizes[int(file)] for file in group) for group in groups]
    assert all(groups)
    assert all(total <= 40 for total in totals)
    assert all(total + sizes[int(later[0])] > 40 for total, later in zip(totals, groups[1:], strict=False))


@pytest.mark.parametrize(("large", "merged"), [(0, True), (1, False)])
def test_files_are_merged_once_there_are_many_small_ones(
    large: int, merged: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four of at most a size; of files of which one is larger three are too few."""
    logs, out = tmp_path / "logs", tmp_path / "out"
    writer = Writer(logs / f"{TOPIC}-0")
    with Follower([str(logs)], out).lock_tables() as follower:
        for n in range(4):
            fill(writer, range(1 + 400 * large * (n == 2)))
            follower.step()
        sizes = sorted((out / file).stat().st_size for file in follower.known.files["offset_commits"])
        monkeypatch.setattr(optimizing, "SMALL_FILES_MAX", 4)
        monkeypatch.setattr(optimizing, "SMALL_BYTES", (sizes[-1 - large],))
        known = optimizing.merge_small_files(out, follower.known)
    assert (len(known.files["offset_commits"]) == 1) == merged
    assert known.files["offset_commits"] != follower.known.files["offset_commits"] or not merged


def test_files_that_hold_the_same_rows_stand_where_the_first_of_the_others_stood() -> None:
    """So rows stay in order, whichever files are merged."""
    files = tuple("abcdef")
    for number in range(1, 2 ** len(files)):
        old = tuple(file for at, file in enumerate(files) if number >> at & 1)
        known = manifest.Manifest(files={"batches": files, "offset_commits": files})
        after = known.replace_files("batches", old, ("new", "newer"))
        first = files.index(old[0])
        kept = [tuple(file for file in some if file not in old) for some in (files[:first], files[first:])]
        assert after.files == {"batches": (*kept[0], "new", "newer", *kept[1]), "offset_commits": files}


def test_optimize_puts_any_time_into_a_directory(tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    writer = Writer(logs / f"{TOPIC}-0")
    for number, ts in enumerate((-1, 0, DAY_MS, 1 << 62)):
        fill(writer, [number], ts)
    read(logs, out)
    optimize(out)
    dates = {path.parent.name for path in (out / "raw" / "offset_commits").rglob("*.parquet")}
    assert dates >= {"date=1969-12-31", "date=1970-01-01", "date=1970-01-02"}
    assert ids(out) == [(0, n) for n in range(4)]


def test_optimize_leaves_the_files_of_the_manifest_before_to_its_readers(tmp_path: Path) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    fill(Writer(logs / f"{TOPIC}-0"), [0])
    before = read(logs, out).files
    assert optimize(out, orphan_age_s=-1).orphans_removed == 0
    assert manifest.load(out).files != before
    assert all((out / file).exists() for files in before.values() for file in files)


@pytest.mark.parametrize(("write", "grows"), [(read, True), (drain, True), (drain, False), (optimize_tables, True)])
def test_a_writer_that_has_lost_its_lock_saves_nothing(
    write: Callable[[Path, Path], object], grows: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the logs have not grown, and all that is to be saved is when they were read."""
    logs, out = tmp_path / "logs", tmp_path / "out"
    writer = fill(Writer(logs / f"{TOPIC}-0"), [0])
    read(logs, out)
    before = (out / manifest.NAME).read_bytes()
    if grows:
        fill(writer, [1])

    def fail() -> None:
        raise TablesInUseError("taken over")

    monkeypatch.setattr("pipeline.jobs.ingest.IDLE_MS", 0)
    monkeypatch.setattr(locks, "lock_tables", lambda *_words, **_named: nullcontext(fail))
    with pytest.raises(TablesInUseError, match="taken over"):
        write(logs, out)
    assert (out / manifest.NAME).read_bytes() == before


def empty(_logs: Path, out: Path) -> None:
    manifest.save(out, manifest.Manifest())


def step(logs: Path, out: Path) -> None:
    """Follow the logs; a step that finds nothing new says so in the manifest, as if a minute had passed."""
    with Follower([str(logs)], out).lock_tables() as follower:
        follower.step()


@pytest.mark.parametrize("write", [read, step, optimize_tables])
@pytest.mark.parametrize(
    ("other", "grows"),
    [(empty, True), (read, True), (optimize_tables, True), (empty, False), (optimize_tables, False)],
)
def test_where_no_lock_reaches_a_second_writer_is_found_before_anything_is_saved(
    write: Callable[[Path, Path], object],
    other: Callable[[Path, Path], object],
    grows: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logs, out = tmp_path / "logs", tmp_path / "out"
    writer = fill(Writer(logs / f"{TOPIC}-0"), [0])
    read(logs, out)
    load = manifest.load
    loaded: list[manifest.Manifest] = []

    def load_and_leave_the_tables_to_another(place: Path) -> manifest.Manifest:
        found = load(place)
        if not loaded:
            loaded.append(found)
            fill(writer, range(1, 1 + grows))
            with monkeypatch.context() as patched:
                patched.setattr(manifest, "load", load)
                other(logs, out)
            loaded.append(load(place))
        return found

    monkeypatch.setattr("pipeline.jobs.ingest.IDLE_MS", 0)
    monkeypatch.setattr(locks, "lock_tables", lambda *_words, **_named: nullcontext(lambda: None))
    monkeypatch.setattr(manifest, "load", load_and_leave_the_tables_to_another)
    with pytest.raises(TablesInUseError, match="nothing more is saved"):
        write(logs, out)
    known, now = loaded
    assert now != known
    assert load(out) == now


SECRET = "s3://AKIAKEY:verysecret@bucket/logs?endpoint_override=127.0.0.1:9&scheme=http"


@pytest.mark.parametrize("path", [SECRET, "s3a://key@bucket/x", "abfss://c@a.dfs.net/x?client_secret=verysecret"])
def test_credentials_in_a_path_are_refused_and_not_repeated(path: str) -> None:
    with pytest.raises(UsageError, match="expected credentials in the environment") as error:
        Store.of(path)
    assert "verysecret" not in str(error.value)
    assert "AKIA" not in str(error.value)


def test_paths_are_shown_without_credentials_and_queries() -> None:
    assert without_secrets(f"cannot list {SECRET}: denied") == "cannot list s3://bucket/logs: denied"
    assert without_secrets("abfss://container@account.dfs.core.windows.net/x") == (
        "abfss://container@account.dfs.core.windows.net/x"
    )
    assert without_secrets("/a/b?c@d: no such file") == "/a/b?c@d: no such file"
    log = LogDir(Store("s3://key:secret@bucket/logs/?region=x"), f"{TOPIC}-0", f"{TOPIC}-0", 0)
    assert log.place == f"s3://bucket/logs/{TOPIC}-0"
    assert Store.of("s3a://bucket/logs?region=x").uri == "s3://bucket/logs?region=x"
    assert Store.of("s3://bucket/a%20b/%C3%A4?region=x").spark_uri("c%d") == "s3a://bucket/a b/ä/c%d"
    assert Store.of("/a%20b").spark_uri() == "/a%20b"
    assert Store.of("s3a://bucket/t?region=x").under("raw").spark_uri("a.parquet") == "s3a://bucket/t/raw/a.parquet"


def test_what_an_older_release_stored_is_shown_without_credentials(tmp_path: Path) -> None:
    old = {"version": 1, "paths": [SECRET, "/logs"], "logs": {"a-0": {"next_offset": 3}}}
    (tmp_path / manifest.NAME).write_text(json.dumps(old))
    known = manifest.load(tmp_path)
    assert (known.version, known.paths) == (manifest.VERSION, ("s3://bucket/logs", "/logs"))
    (tmp_path / manifest.NAME).write_text(json.dumps({"version": manifest.VERSION + 1}))
    with pytest.raises(UsageError, match="is of a later release"):
        manifest.load(tmp_path)
    (tmp_path / manifest.NAME).write_text("[]")
    with pytest.raises(UsageError, match="is no manifest"):
        manifest.load(tmp_path)


def test_a_question_mark_begins_a_query_in_a_uri_alone(tmp_path: Path) -> None:
    logs, out = tmp_path / "logs?old", tmp_path / "out?new"
    fill(Writer(logs / f"{TOPIC}-0"), [0])
    read(logs, out)
    assert ids(out) == [(0, 0)]
    assert Store.of(out).under("raw").spark_uri() == f"{out}/raw"


@pytest.mark.parametrize("name", ["a\nb", "a\udcff"])
def test_a_path_that_no_reader_could_be_told_is_refused(tmp_path: Path, name: str) -> None:
    """Lines separate the paths of the source, and Arrow takes names in UTF-8."""
    with pytest.raises(UsageError, match=r"invalid path .*: expected text in UTF-8 without line breaks"):
        Store.of(tmp_path / name)


def test_a_file_that_is_written_appears_as_a_whole(tmp_path: Path) -> None:
    store = Store.of(tmp_path)
    store.replace("a.json", b"1")
    store.replace("a.json", b"22")
    assert [(file.path, file.size) for file in store.tree()] == [("a.json", 2)]


@pytest.mark.parametrize("gone", [1, 3, 5])
def test_nothing_is_passed_over_where_a_cleaner_has_moved_batches_of_one_size(gone: int, tmp_path: Path) -> None:
    """A later batch begins at the byte where reading stopped, as the segment was closed and cleaned since."""
    logs, out = tmp_path / "logs", tmp_path / "out"
    writer = fill(Writer(logs / f"{TOPIC}-0"), range(20))
    (file,) = writer.directory.glob("*.log")
    data = file.read_bytes()
    size = len(data) // 20
    file.write_bytes(data[: 5 * size])
    read(logs, out)
    file.write_bytes(data[gone * size :])
    fill(Writer(writer.directory, first_offset=20), range(2))
    read(logs, out)
    assert ids(out) == [(0, offset) for offset in range(22)]
