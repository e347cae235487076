"""Compaction: the input is untouched, replay of the copy equals replay of the log."""

import random
from pathlib import Path

import pytest

from pipeline.decode import replay
from pipeline.decode.layout import TOPIC, log_dirs
from pipeline.errors import CompactionRefusedError
from pipeline.jobs.compact import compact, same, settle
from pipeline.synth import Plan, Writer, commit, write_logs
from pipeline.synth_groups import write_lives
from tests.pipeline.group_logs import fill, flip, read_rows
from tests.pipeline.real_kafka import DATA, STATES


def measure(directory: Path) -> tuple[int, int]:
    """How many bytes and records a log has, without markers of transactions."""
    (log,) = log_dirs([str(directory)])
    records = [record for batch, record in replay.read(log) if not batch.is_control]
    return sum(file.stat().st_size for file in directory.glob("*.log")), len(records)


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(n, marks=pytest.mark.long) for n in range(8, 30))])
def test_random_logs_say_the_same_afterwards(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    write_logs(tmp_path / "a", Plan(seed=seed, partitions=2, groups=6, topics=2, topic_partitions=3, records=700, batch=(1, 9), segment_bytes=6000, txn_share=dice.choice([0, 0.3, 1.0]), tombstone_share=0.1))  # fmt: skip
    before = {file: file.read_bytes() for file in (tmp_path / "a").rglob("*.log")}
    results = list(compact(str(tmp_path / "a"), tmp_path / "b"))
    assert all(result.equal for result in results)
    for log, result in zip(log_dirs([str(tmp_path / "a")]), results, strict=True):
        assert (result.log, result.bytes_before, result.records_before) == (
            log.name,
            *measure(tmp_path / "a" / log.path),
        )
        assert (result.bytes_after, result.records_after) == measure(tmp_path / "b" / log.path)
    assert sum(r.records_after for r in results) < sum(r.records_before for r in results) / 2
    assert tmp_path.joinpath("b").stat().st_mode & 0o777 == 0o755, "others may read the copies as they do the logs"
    assert {file: file.read_bytes() for file in (tmp_path / "a").rglob("*.log")} == before
    assert {p["severity"] for p in read_rows(tmp_path / "b", "log_problems")} <= {"info"}
    twice = list(compact(str(tmp_path / "b"), tmp_path / "c"))
    assert [r.records_after for r in twice] == [r.records_after for r in results], "nothing is left to remove"


def test_group_records_are_compacted_too(tmp_path: Path) -> None:
    write_lives(tmp_path / "a", groups=5)
    log = tmp_path / "a" / f"{TOPIC}-0"
    (log / f"{10**9:020d}.log").touch()  # all that was written is in closed segments now
    (result,) = compact(str(tmp_path / "a"), tmp_path / "b")
    assert result.equal
    assert result.records_after < result.records_before / 5


@pytest.mark.parametrize("state", STATES)
def test_a_real_brokers_log(tmp_path: Path, state: str) -> None:
    assert all(result.equal for result in compact(str(DATA / state), tmp_path / "b"))


def test_old_tombstones_can_go(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "a" / f"{TOPIC}-0", segment_bytes=100)
    for at, offset in ((1, 5), (2, None), (3, 7), (4, None), (5, 9)):
        writer.append([commit(("g", "t", at // 3), offset, at * 1000)])
    (kept,) = compact(str(tmp_path / "a"), tmp_path / "b")
    (young,) = compact(str(tmp_path / "a"), tmp_path / "c", drop_tombstones_before_ms=2000)
    (dropped,) = compact(str(tmp_path / "a"), tmp_path / "d", drop_tombstones_before_ms=2001)
    assert (kept.records_after, young.records_after, dropped.records_after) == (2, 2, 1)
    assert all(result.equal for result in (kept, young, dropped))


def test_an_open_transaction_stops_it(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "a" / f"{TOPIC}-0", segment_bytes=100)
    fill(writer, range(3))
    writer.append([commit(("g", "t", 1), 1, 1)], producer_id=7, transactional=True)
    fill(writer, range(3, 6))
    writer.append([commit(("g", "t", 1), 2, 1)], producer_id=7, transactional=True)
    fill(writer, range(6, 8))
    (result,) = compact(str(tmp_path / "a"), tmp_path / "b")
    (log,) = log_dirs([str(tmp_path / "b")])
    assert result.equal
    assert settle(log).pending[7]
    kept = [row["log_offset"] for row in read_rows(tmp_path / "b", "offset_commits")]
    assert kept == list(range(3, 10)), "from the first record of the transaction on"


def test_what_replay_tells_apart_is_no_copy(tmp_path: Path) -> None:
    """A copy that lacks the last record of a key, or has an older one in its place, or one of another key."""
    for name, offsets in (("a", [1, 2]), ("same", [1, 2]), ("older", [2, 1]), ("less", [1]), ("more", [1, 2])):
        writer = fill(Writer(tmp_path / name / f"{TOPIC}-0"), offsets)
        if name == "more":
            writer.append([commit(("g", "t", 1), 1, 1)])
    (log,) = log_dirs([str(tmp_path / "a")])
    assert [name for name in ("same", "older", "less", "more") if same(log, tmp_path / name / f"{TOPIC}-0")] == ["same"]


def test_a_marker_stays_only_for_records_that_stay(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "a" / f"{TOPIC}-0", segment_bytes=100)
    for producer, partition in ((7, 0), (8, 1)):
        writer.append([commit(("g", "t", partition), 1, 1)], producer_id=producer, transactional=True)
        writer.end(producer, commits=True, at_ms=1)
    writer.end(8, commits=False, at_ms=1)  # ends nothing
    writer.append([commit(("g", "t", 0), 2, 1)])  # of producer 7 nothing is left
    writer.append([commit(("g", "t", 2), 3, 1)])
    (result,) = compact(str(tmp_path / "a"), tmp_path / "b")
    assert result.equal
    batches = read_rows(tmp_path / "b", "batches")
    assert [(one["base_offset"], one["producer_id"]) for one in batches if one["is_control"]] == [(3, 8)]


def test_damage_is_not_compacted_away(tmp_path: Path) -> None:
    fill(Writer(tmp_path / "a" / f"{TOPIC}-0", segment_bytes=100), range(5))
    file = min((tmp_path / "a").rglob("*.log"))
    flip(file)
    with pytest.raises(CompactionRefusedError, match="bad_crc"):
        list(compact(str(tmp_path / "a"), tmp_path / "b"))
    flip(file)
    (result,) = compact(str(tmp_path / "a"), tmp_path / "b")
    assert result.equal, "a refusal leaves nothing that is in the way of the log once it is whole"


def test_a_copy_that_was_cut_short_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_logs(tmp_path / "a", Plan(partitions=1, records=100, segment_bytes=2000))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("pipeline.jobs.compact._put", full)
        with pytest.raises(OSError, match="No space"):
            list(compact(str(tmp_path / "a"), tmp_path / "b"))
    (result,) = compact(str(tmp_path / "a"), tmp_path / "b")
    assert result.equal
    with pytest.raises(FileExistsError, match="is there already"):
        list(compact(str(tmp_path / "a"), tmp_path / "b"))


def test_nothing_to_compact_is_not_a_success(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(FileNotFoundError, match="no directory __consumer_offsets-<n>"):
        list(compact(str(tmp_path / "a"), tmp_path / "b"))
