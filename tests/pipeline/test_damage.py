"""Damaged segments: nothing raises, no wrong row goes unflagged, every missing offset lies in a reported range."""

import random
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from crc32c import crc32c

from pipeline.decode import positions
from pipeline.decode.headers import next_batch
from pipeline.decode.layout import log_dirs, segments, spans
from pipeline.decode.logs import START
from pipeline.decode.plain import batches
from pipeline.decode.rows import Options, SpanDecoder
from pipeline.decode.spans import CHUNK_BYTES
from pipeline.decode.transactions import read_commits
from pipeline.dump import dump
from pipeline.errors import CompactionRefusedError, LogDamagedError
from pipeline.jobs.compact import compact
from pipeline.jobs.ingest import Follower, ingest
from pipeline.jobs.verify import verify
from pipeline.synth import Plan, Writer, commit, write_logs
from protocol.record_batch import HEADER_BYTES, encode, header_at, seal
from protocol.records import Record
from tests.pipeline import ingested
from tests.pipeline.group_logs import fill, flip, read_rows
from tests.pipeline.ingested import ids

Row = dict[str, Any]


def read(
    directory: Path, on_error: str, split_bytes: int = 32 << 20, chunk_bytes: int = CHUNK_BYTES
) -> tuple[dict[int, Row], list[Row]]:
    """(offset -> row, problems) of a log; reading it may not raise."""
    commits: dict[int, Row] = {}
    problems: list[Row] = []
    (log,) = log_dirs([str(directory)])
    for span in spans(log, split_bytes):
        for rows in SpanDecoder(span, Options(on_error=on_error, chunk_bytes=chunk_bytes)):
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


def clean(dice: random.Random, directory: Path) -> None:
    """Remove some batches of the closed segments, as a cleaner does."""
    for file in sorted(directory.rglob("*.log"))[:-1]:
        data = file.read_bytes()
        kept = [batch for batch in batches(data) if dice.random() < 0.7]
        file.write_bytes(b"".join(data[batch.pos : batch.pos + 12 + batch.length] for batch in kept))


@pytest.mark.parametrize(
    "seeds", [range(40), pytest.param(range(40, 1000), marks=pytest.mark.long)], ids=["some", "many"]
)
@pytest.mark.parametrize("on_error", ["record", "salvage"])
def test_mutated_segments(tmp_path: Path, on_error: str, seeds: range) -> None:
    """Of a log without gaps, and of one that a cleaner has left gaps in, read in pieces of any size."""
    logs = tmp_path / "whole", tmp_path / "cleaned"
    for directory in logs:
        write_logs(directory, Plan(records=1500, partitions=1, segment_bytes=40_000, txn_share=0.1))
    clean(random.Random(1), logs[1])
    truths = []
    for directory in logs:
        rows, quiet = read(directory, on_error)
        assert {p["severity"] for p in quiet} <= {"info"}
        truths.append(rows)
    rescued = lost = 0
    for seed in seeds:
        dice = random.Random(seed)
        broken, truth = tmp_path / "broken", truths[seed % 2]
        shutil.copytree(logs[seed % 2], broken)
        (log,) = log_dirs([str(broken)])
        path = broken / dice.choice(segments(log)).path
        data = bytearray(path.read_bytes())
        kind = mutate(dice, data)
        path.write_bytes(data)
        sizes = dice.choice([32 << 20, 8_000]), dice.choice([CHUNK_BYTES, 3_000])
        commits, found = read(broken, on_error, *sizes)
        # Where whole batches are taken away, nothing tells the gap from one that a cleaner leaves.
        problems = [
            p for p in found if kind in ("truncate", "cut", "double") or (p["kind"], p["severity"]) != ("gap", "info")
        ]
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


@pytest.mark.parametrize("seed", range(10, 90))
def test_an_offset_that_no_checksum_protects_is_believed_only_between_its_neighbours(seed: int, tmp_path: Path) -> None:
    """Of a segment that is written to, or of one in which a cleaner has left gaps; one bit of an offset is wrong."""
    dice = random.Random(seed)
    writer = Writer(tmp_path / "__consumer_offsets-0", segment_bytes=1 << 20)
    for _ in range(8):
        writer.append([commit(("g", "t", 0), n, 1000) for n in range(dice.randrange(1, 12))])
    (file,) = writer.directory.glob("*.log")
    is_closed, end = dice.random() < 0.7, writer.next_offset + dice.choice([0, 5])
    if is_closed:
        fill(Writer(writer.directory, first_offset=end), range(3))
        clean(dice, writer.directory)
    truth, _ = read(tmp_path, "record")
    data = bytearray(file.read_bytes())
    if not data:
        return
    bit = dice.randrange(10)
    data[dice.choice(_starts(data)) + 7 - bit // 8] ^= 1 << bit % 8
    file.write_bytes(data)
    ranges = [(batch.base_offset, batch.base_offset + batch.last_delta) for batch in batches(data)]
    if is_closed and all(one[1] < later[0] for one, later in pairwise([(-1, -1), *ranges, (end, 0)])):
        return  # between two gaps no offset is more likely than another
    commits, found = read(tmp_path, "record")
    for chunk_bytes in (300, 700, 1500):
        assert read(tmp_path, "record", chunk_bytes=chunk_bytes) == (commits, found), (
            "wherever reading stops in between"
        )
    problems = [p for p in found if p["severity"] == "problem"]
    assert problems, "in a segment of many gaps, too"
    for offset in truth.keys() - commits.keys():
        assert reported(offset, problems), f"offset {offset} is missing without a word"
    for offset, row in commits.items():
        assert row == truth.get(offset) or reported(offset, problems), f"a wrong row at {offset} without a word"


@pytest.mark.parametrize("seed", range(14))
def test_reading_on_misses_only_the_batch_whose_offset_is_off(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be the last one when a step ends, or when its limit is reached. The walk is in pieces of any size."""
    dice = random.Random(seed)
    monkeypatch.setattr(positions, "WALK_BYTES", dice.choice([100, 500, 16 << 20]))
    name, damaged = "__consumer_offsets-0", dice.randrange(3, 12)
    logs, out = tmp_path / "logs" / name, tmp_path / "out"
    fill(Writer(logs, segment_bytes=dice.choice([1 << 20, 500])), range(12))
    files = {file: bytearray(file.read_bytes()) for file in sorted(logs.iterdir())}
    starts = [(file, at) for file, data in files.items() for at in _starts(data)]
    file, at = starts[damaged]
    is_low = dice.random() < 0.4
    files[file][at + 7] = (
        dice.randrange(damaged) if is_low else dice.choice([damaged + 1, 99, *[11] * 2 * (damaged < 11)])
    )
    ends = {damaged + 1, 12, *(dice.randrange(1, 13) for _ in range(2))}
    with Follower([str(tmp_path / "logs")], out, dice.choice([None, 1, 150, 400])).lock_tables() as follower:
        position = START
        for end in sorted(ends):
            file, at = starts[end] if end < 12 else (next(reversed(files)), None)
            for each, data in files.items():
                each.write_bytes(data if each < file else data[: at if each == file else 0])
                if each > file:
                    each.unlink()
            while follower.step():
                before, position = position, follower.known.logs[name]
                assert position.next_offset >= before.next_offset
    ingest(None, [str(tmp_path / "logs")], tmp_path / "at_once")
    assert ids(out) == ids(tmp_path / "at_once") == [(0, offset) for offset in range(12) if offset != damaged]
    reached, size = follower.known.logs[name], len(files[file])
    # the last one until the next one shows that it is off
    assert (reached.next_offset, reached.pos) == ((11, starts[11][1]) if damaged == 11 else (12, size))
    assert reported(damaged, [one for one in ingested.rows(out, "log_problems") if one["severity"] == "problem"])


@pytest.mark.parametrize("seed", range(5))
def test_what_stands_behind_a_gap_is_read_once_the_next_batch_confirms_it(seed: int, tmp_path: Path) -> None:
    """By each way to read on, in a segment with any gaps. What is read at once is as what is read in steps."""
    dice = random.Random(seed)
    offsets = sorted(dice.sample(range(40), 12))
    writer = Writer(tmp_path / "logs" / "__consumer_offsets-0")
    out, by_steps = tmp_path / "out", tmp_path / "by_steps"
    with Follower([str(tmp_path / "logs")], by_steps).lock_tables() as follower:
        for at, offset in enumerate(offsets):
            writer.next_offset = offset
            writer.append([commit(("g", "t", 0), offset, 1000)])
            follower.step()
            ingest(None, [str(tmp_path / "logs")], out)
            is_left = offset > (offsets[at - 1] + 1 if at else 0)
            read = offsets[: at + 1 - is_left]
            assert ids(by_steps) == ids(out) == [(0, one) for one in read]
            (log,) = log_dirs([str(writer.directory)])
            assert positions.newest(log).next_offset == (read[-1] + 1 if read else 0)
            told = [one["to_offset"] for one in ingested.rows(out, "log_problems") if one["kind"] == "gap"]
            assert not is_left or offset - 1 not in told, "the gap is told once it is one"


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


def test_fail_mode_goes_on_where_nothing_was_lost(log: Path) -> None:
    data = log.read_bytes()
    log.write_bytes(data[len(data) // 3 :])  # a cleaner has removed the first batch
    (log.parent / f"{30:020d}.log").write_bytes(data[:-5][: len(data) // 5])  # and the newest one is being written
    found = problems_of(log.parent, on_error="fail")
    assert found == [("gap", "info", 0, 9), ("torn_tail", "info", 30, None)]


def test_gaps_of_a_segment_that_was_cleaned_are_one_row(log: Path) -> None:
    data = log.read_bytes()
    size = len(data) // 3
    (log.parent / f"{40:020d}.log").touch()
    log.write_bytes(data[size : 2 * size])
    assert problems_of(log.parent) == [("gap", "info", 0, 39)]
    (row,) = read_rows(log.parent, "log_problems")
    assert row["detail"] == "2 gaps, as compaction leaves them"
    log.write_bytes(data[:size] + data[2 * size :])
    assert problems_of(log.parent) == [("gap", "info", 10, 39)]


def test_each_gap_of_the_newest_segment_is_told_with_its_place(tmp_path: Path) -> None:
    """`log_problems` and the count of a command take two rows of one place for one problem that was met twice."""
    writer = fill(Writer(tmp_path / "__consumer_offsets-0"), range(6))
    (path,) = writer.directory.glob("*.log")
    data = path.read_bytes()
    size = len(data) // 6
    path.write_bytes(b"".join(data[n * size : (n + 1) * size] for n in (0, 2, 4, 5)))
    for options in ({}, {"chunk_bytes": 300}):
        found = read_rows(tmp_path, "log_problems", **options)
        assert [(p["kind"], p["pos"], p["from_offset"], p["to_offset"]) for p in found] == [
            ("gap", size, 1, 1), ("gap", 2 * size, 3, 3),
        ]  # fmt: skip


def test_an_offset_of_the_next_segment_is_not_read_twice(log: Path) -> None:
    """The last batch of a segment says 21, so that its last record is that with which the next segment begins."""
    data = bytearray(log.read_bytes())
    size = len(data) // 3
    data[2 * size + 7] += 1
    log.write_bytes(data)
    fill(Writer(log.parent, first_offset=30), range(3))
    commits, problems = read(log.parent, "record")  # which refuses an offset that appears twice
    assert sorted(commits) == [*range(20), *range(30, 33)]
    assert [(p["kind"], p["from_offset"], p["to_offset"]) for p in problems] == [("offset_order", 20, 29)]


@pytest.mark.parametrize("chunk_bytes", [200, CHUNK_BYTES])
def test_an_epoch_that_goes_back_is_told_wherever_reading_stopped_in_between(tmp_path: Path, chunk_bytes: int) -> None:
    writer, sizes = Writer(tmp_path / "__consumer_offsets-0"), [0]
    for epoch in (0, 3, 3, 2, 2, 4, 0):
        fill(writer, [epoch])
        (path,) = writer.directory.glob("*.log")
        data = bytearray(path.read_bytes())
        data[sizes[-1] + 12 : sizes[-1] + 16] = epoch.to_bytes(4, "big")
        path.write_bytes(data)
        sizes.append(len(data))
    found = read_rows(tmp_path, "log_problems", chunk_bytes=chunk_bytes)
    assert [(p["kind"], p["from_offset"], p["to_offset"], p["pos"], p["detail"]) for p in found] == [
        ("epoch_order", 3, 3, sizes[3], "leader epoch 2 after 3"),
        ("epoch_order", 6, 6, sizes[6], "leader epoch 0 after 4"),
    ]


def test_a_batch_that_ends_before_it_begins_is_left_out(log: Path) -> None:
    data = log.read_bytes()
    size = len(data) // 3
    header = header_at(data, size)
    wrong = seal(msgspec.structs.replace(header, last_offset_delta=-1), data[size + HEADER_BYTES : 2 * size])
    log.write_bytes(data[:size] + wrong + data[2 * size :])
    assert [row["log_offset"] for row in read_rows(log.parent, "offset_commits")] == [*range(10), *range(20, 30)]
    assert problems_of(log.parent) == [("bad_crc", "problem", 10, 19)]


@pytest.mark.parametrize("junk", [b"\xff", b"\1", b"\0", b"\x7f"], ids=["no end", "below 0", "empty", "below -60"])
def test_records_before_one_that_makes_no_sense_are_read(junk: bytes, tmp_path: Path) -> None:
    """In a batch with a right checksum, between two others, which is told with its offsets."""
    records = [commit(("g", "t", 0), n, 1000) for n in range(4)]
    for wrong in range(4):
        file = tmp_path / str(wrong) / "__consumer_offsets-0" / f"{0:020d}.log"
        file.parent.mkdir(parents=True)
        data = encode(records, base_offset=4)
        at = len(encode(records[:wrong], base_offset=4)) if wrong else HEADER_BYTES
        damaged = seal(header_at(data), data[HEADER_BYTES:at] + junk + data[at + 1 :])
        file.write_bytes(encode(records, base_offset=0) + damaged + encode(records, base_offset=8))
        commits, problems = read(file.parent, "record")
        assert sorted(commits) == [*range(4 + wrong), *range(8, 12)]
        assert [one["kind"] for one in problems] == ["malformed_record"]
        assert [offset for offset in range(12) if reported(offset, problems)] == [*range(4, 8)]


def test_files_of_a_cleaner_are_passed_over(log: Path) -> None:
    (log.parent / f"{0:020d}.log.cleaned").write_bytes(b"x" * 100)
    (log.parent / f"{40:020d}.log.deleted").write_bytes(b"x" * 100)
    assert problems_of(log.parent) == []
