"""Damaged segments: nothing raises, no wrong row goes unflagged, every missing offset lies in a reported range."""

import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from pipeline.decode.headers import next_batch
from pipeline.decode.layout import log_dirs, segments, spans
from pipeline.decode.rows import Options, SpanDecoder
from pipeline.decode.transactions import read_commits
from pipeline.dump import dump
from pipeline.errors import CompactionRefusedError, LogDamagedError
from pipeline.jobs.compact import compact
from pipeline.jobs.verify import verify
from pipeline.synth import Plan, Writer, commit, write_logs
from protocol.record_batch import encode
from protocol.records import Record
from tests.pipeline.group_logs import fill, flip, read_rows

Row = dict[str, Any]


def read(directory: Path, on_error: str) -> tuple[dict[int, Row], list[Row]]:
    """(offset -> row, problems) of a log; reading it may not raise."""
    commits: dict[int, Row] = {}
    problems: list[Row] = []
    (log,) = log_dirs([str(directory)])
    for span in spans(log):
        for rows in SpanDecoder(span, Options(on_error=on_error)):
            for row in rows.batch.to_pylist() if rows.table in ("offset_commits", "log_problems") else ():
                if rows.table == "log_problems":
                    problems.append(row)
                else:
                    assert row["log_offset"] not in commits, "an offset appears once"
                    commits[row["log_offset"]] = row
    return commits, problems


@pytest.fixture
def strange_markers(tmp_path: Path) -> Path:
    """A log of two transactions: behind one a control record of another type, behind the other one without a type."""
    writer = Writer(tmp_path / "logs" / "__consumer_offsets-0")
    for producer, marker in enumerate(
        [Record(b"\0\0\0\2", bytes(6), timestamp=1), Record(b"\0\0", b"\0", timestamp=1)]
    ):
        writer.append([commit(("g", "t", producer), 5, 1000)], producer_id=producer, transactional=True)
        writer.append([marker], producer_id=producer, transactional=True, control=True)
    return tmp_path / "logs"


def test_control_records_that_end_no_transaction(strange_markers: Path) -> None:
    """All readers leave the transactions open, and tell of the marker that cannot be read."""
    found = verify([str(strange_markers)])
    assert (found.keys, found.equal, found.unexplained) == (0, True, 0)
    told = "malformed_record, offsets 3 to 3, a transaction's marker that cannot be read"
    assert [one.partition(": ")[2] for one in found.problems] == [told]
    with pytest.raises(CompactionRefusedError, match="malformed_record at offset 3"):
        list(compact(str(strange_markers), strange_markers.with_name("copy")))
    (file,) = strange_markers.rglob("*.log")
    lines = [line for line in dump(str(file), file.read_bytes()) if not line.startswith("baseOffset")]
    assert lines[3].endswith("controlType: UNKNOWN(2)")
    assert lines[5] == "Error in the batch at offset 3, skipping: a control record without a type"


def test_commits_behind_which_such_a_record_stands_are_open(strange_markers: Path) -> None:
    (log,) = log_dirs([str(strange_markers)])
    states = [state for batch in read_commits(spans(log), Options()) for state in batch["txn_state"].to_pylist()]
    assert states == ["open", "open"]


def reported(offset: int, problems: list[Row]) -> bool:
    return any(
        p["from_offset"] is not None
        and p["from_offset"] <= offset
        and (p["to_offset"] is None or offset <= p["to_offset"])
        for p in problems
    )


def mutate(dice: random.Random, data: bytearray) -> str:
    """One kind of damage; says which."""
    kind = dice.choice(["truncate", "flip", "flip", "header", "zero", "cut", "double"])
    at = dice.randrange(len(data))
    if kind == "truncate":
        del data[at:]
    elif kind == "flip":
        data[at] ^= 1 << dice.randrange(8)
    elif kind == "header":
        at = dice.choice(_starts(data)) + dice.randrange(21)
        data[at] ^= 1 << dice.randrange(8)
    elif kind == "zero":
        data[at : at + 4096] = bytes(len(data[at : at + 4096]))
    elif kind == "cut":
        del data[at : at + dice.randrange(1, 3000)]
    else:
        data[at:at] = data[at : at + dice.randrange(1, 3000)]
    return kind


def _starts(data: bytearray) -> list[int]:
    starts, pos = [], 0
    while pos < len(data):
        starts.append(pos)
        pos += 12 + int.from_bytes(data[pos + 8 : pos + 12], "big")
    return starts


@pytest.mark.parametrize(
    "seeds", [range(40), pytest.param(range(40, 1000), marks=pytest.mark.long)], ids=["some", "many"]
)
@pytest.mark.parametrize("on_error", ["record", "salvage"])
def test_mutated_segments(tmp_path: Path, on_error: str, seeds: range) -> None:
    whole = tmp_path / "whole"
    write_logs(whole, Plan(records=1500, partitions=1, segment_bytes=40_000, txn_share=0.1))
    truth, quiet = read(whole, on_error)
    assert quiet == []
    rescued = lost = 0
    for seed in seeds:
        dice = random.Random(seed)
        broken = tmp_path / "broken"
        shutil.copytree(whole, broken)
        (log,) = log_dirs([str(broken)])
        path = broken / dice.choice(segments(log)).path
        data = bytearray(path.read_bytes())
        kind = mutate(dice, data)
        path.write_bytes(data)
        commits, problems = read(broken, on_error)
        for offset in truth.keys() - commits.keys():
            assert reported(offset, problems), f"seed {seed} ({kind}): offset {offset} is missing without a word"
        for offset, row in commits.items():
            same = {**row, "leader_epoch_of_log": 0} == truth.get(offset)
            assert same or reported(offset, problems), f"seed {seed} ({kind}): a wrong row at {offset} without a word"
        rescued, lost = rescued + len(commits), lost + len(truth) - len(commits)
        shutil.rmtree(broken)
    share = lost / (rescued + lost)
    # Most of what salvage loses was truncated, cut or zeroed away: those bytes are gone.
    assert share < (0.06 if on_error == "salvage" else 0.2), f"{share:.1%} of all rows were lost"


def find_next(data: bytes, start: int, above: int) -> int | None:
    """The same as `next_batch`, place by place."""
    for at in range(start, len(data) - 60):
        end = at + 12 + int.from_bytes(data[at + 8 : at + 12], "big", signed=True)
        if data[at + 16] != 2 or not at + 61 <= end <= len(data):
            continue
        base_offset = int.from_bytes(data[at : at + 8], "big", signed=True)
        if base_offset > above and crc32c(data[at + 21 : end]) == int.from_bytes(data[at + 17 : at + 21], "big"):
            return at
    return None


@pytest.mark.parametrize("seed", range(30))
def test_behind_damage_the_next_whole_batch_is_found_wherever_it_begins_and_ends(seed: int) -> None:
    """Between other bytes, at the very beginning, up to the last byte, cut off, or of offsets that were read already."""
    dice = random.Random(seed)
    data, ends = b"", []
    for offset in range(dice.randrange(1, 4)):
        data += dice.choice([b"", dice.randbytes(dice.randrange(90)), b"\2" * dice.randrange(90)])
        data += encode([Record(b"k", dice.randbytes(dice.randrange(40)))], base_offset=10 * offset)
        ends.append(len(data))
    data += dice.choice([b"", b"", dice.randbytes(70)])
    for whole in (data, data[: ends[-1]], data[: ends[-1] - 1]):
        starts = {
            0,
            *ends,
            *(end - 61 for end in ends if end > 61),
            *(dice.randrange(len(whole) + 5) for _ in range(5)),
        }
        for start in starts:
            for above in (-1, 0, 10, 25):
                assert next_batch(whole, start, above) == find_next(whole, start, above), (start, above)


def problems_of(directory: Path, **options: Any) -> list[tuple[str, str, int | None, int | None]]:
    found = read_rows(directory, "log_problems", **options)
    return [(p["kind"], p["severity"], p["from_offset"], p["to_offset"]) for p in found]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Three batches of ten commits each in one segment."""
    writer = Writer(tmp_path / "__consumer_offsets-0")
    for start in (0, 10, 20):
        writer.append([commit(("g", "t", 0), start + i, 1000) for i in range(10)])
    return next((tmp_path / "__consumer_offsets-0").glob("*.log"))


def test_a_torn_tail_of_the_newest_segment_is_no_problem(log: Path) -> None:
    log.write_bytes(log.read_bytes()[:-5])
    assert problems_of(log.parent) == [("torn_tail", "info", 20, None)]


def test_a_torn_tail_of_an_older_segment_is_one(log: Path) -> None:
    log.write_bytes(log.read_bytes()[:-5])
    (log.parent / f"{30:020d}.log").touch()
    assert problems_of(log.parent) == [("torn_tail", "problem", 20, 29)]


def test_zeros_after_a_power_cut(log: Path) -> None:
    log.write_bytes(log.read_bytes() + bytes(5000))
    assert problems_of(log.parent) == [("zero_tail", "info", 30, None)]


def test_a_length_that_reaches_past_the_end_is_not_taken_for_a_torn_tail(log: Path) -> None:
    data = bytearray(log.read_bytes())
    data[9] = 1
    log.write_bytes(data)
    assert problems_of(log.parent) == [("bad_length", "problem", 0, None)]
    assert problems_of(log.parent, on_error="salvage") == [("bad_length", "problem", 0, 9)]


def test_an_offset_that_jumps_up_condemns_the_batch_that_jumped(log: Path) -> None:
    data = bytearray(log.read_bytes())
    second = len(data) // 3
    data[second + 6] = 1  # 10 becomes 266
    log.write_bytes(data)
    assert problems_of(log.parent) == [("gap", "problem", 10, 265), ("offset_order", "problem", 10, 19)]
    assert [row["log_offset"] for row in read_rows(log.parent, "offset_commits")] == [*range(10), *range(20, 30)]


def test_a_batch_that_stands_there_twice_counts_once(tmp_path: Path) -> None:
    writer = fill(Writer(tmp_path / "__consumer_offsets-0"), range(3))
    (path,) = writer.directory.glob("*.log")
    data = path.read_bytes()
    second = data[len(data) // 3 : 2 * len(data) // 3]
    path.write_bytes(data[: len(data) // 3] + second * 2 + data[2 * len(data) // 3 :])
    rows, problems = read(tmp_path, "record")  # which refuses an offset that appears twice
    assert sorted(rows) == [0, 1, 2]
    assert [problem["kind"] for problem in problems] == ["offset_order"]


def test_fail_mode_raises(log: Path) -> None:
    flip(log)
    with pytest.raises(LogDamagedError, match="bad_crc"):
        problems_of(log.parent, on_error="fail")


def test_files_of_a_cleaner_are_passed_over(log: Path) -> None:
    (log.parent / f"{0:020d}.log.cleaned").write_bytes(b"x" * 100)
    (log.parent / f"{40:020d}.log.deleted").write_bytes(b"x" * 100)
    assert problems_of(log.parent) == []
