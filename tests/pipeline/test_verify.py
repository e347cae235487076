"""`verify` reads copies of a log as one log, and never agrees about nothing."""

import shutil
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from pipeline.decode.files import Store
from pipeline.decode.latest import latest, latest_and_problems
from pipeline.decode.layout import TOPIC, log_dirs, spans
from pipeline.decode.plain import batches
from pipeline.decode.replay import merge_copies
from pipeline.decode.rows import Options
from pipeline.jobs.compact import compact
from pipeline.jobs.verify import verify
from pipeline.synth import Plan, Writer, commit, write_logs
from protocol.records import Record
from tests.commands import Shell, shell_fixture
from tests.pipeline.group_logs import fill, read_rows
from tests.pipeline.mishaps import diverged_copies, with_epoch, with_mishaps

muster = shell_fixture("pipeline")


def copies(root: Path) -> None:
    """Broker b has more records, so that the last directory by name is not the one that counts, nor is the first."""
    for broker, length in (("a", 3), ("b", 8), ("c", 5)):
        writer = Writer(root / broker / f"{TOPIC}-0")
        for n in range(length):
            writer.append([commit(("g", "t", n % 2), n, 1000)])


def test_copies_are_one_log(tmp_path: Path) -> None:
    copies(tmp_path)
    found = verify([str(tmp_path)])
    assert (found.logs, found.keys, found.equal) == (3, 2, True), found.differences


def test_of_a_record_the_highest_epoch_counts_then_the_first_name(tmp_path: Path) -> None:
    copies(tmp_path)
    with_epoch(next((tmp_path / "c").rglob("*.log")), 7)
    read = [(record.offset, batch.leader_epoch) for batch, record in merge_copies(log_dirs([str(tmp_path)]))]
    assert read == [(0, 7), *((n, 0) for n in range(1, 8))]


def test_the_tail_of_a_diverged_copy_does_not_count_and_is_reported(tmp_path: Path) -> None:
    diverged_copies(tmp_path)
    read = [(record.offset, batch.leader_epoch) for batch, record in merge_copies(log_dirs([str(tmp_path)]))]
    assert read == [(n, 7 if n >= 4 else 0) for n in range(10)]
    found = verify([str(tmp_path)])
    assert found.equal, found.differences
    assert [problem for problem in found.problems if "diverged_copy, offsets 4 to 11" in problem]
    (row,) = latest([span for log in log_dirs([str(tmp_path)]) for span in spans(log)], Options()).to_pylist()
    assert (row["log_offset"], row["committed_offset"]) == (9, 709)


def test_an_epoch_ends_where_the_next_one_begins_whatever_record_is_there(tmp_path: Path) -> None:
    """The record at 4 in copy a is no commit: the one that copy b has there does not take its place."""
    for broker, last in (("a", Record(b"\0\x63", b"?", timestamp=1000)), ("b", commit(("g", "t", 1), 7, 1000))):
        fill(Writer(tmp_path / broker / f"{TOPIC}-0", segment_bytes=100), range(4)).append([last])
    with_epoch(max((tmp_path / "a").rglob("*.log")), 7)
    rows = latest([span for log in log_dirs([str(tmp_path)]) for span in spans(log)], Options()).to_pylist()
    assert [(row["partition"], row["log_offset"]) for row in rows] == [(0, 3)]
    found = verify([str(tmp_path)])
    assert found.equal, found.differences


def test_copies_that_contradict_each_other_are_reported(tmp_path: Path) -> None:
    for broker, offset in (("a", 1), ("b", 2)):
        fill(Writer(tmp_path / broker / f"{TOPIC}-0"), [offset, offset])
    found = verify([str(tmp_path)])
    assert any("conflicting_copy, offsets 0 to 0" in problem for problem in found.problems)


def test_bytes_that_nobody_reads_are_not_passed_over(muster: Shell, tmp_path: Path) -> None:
    fill(Writer(tmp_path / f"{TOPIC}-0"), range(30))
    file = next(tmp_path.rglob("*.log"))
    data = bytearray(file.read_bytes())
    size = len(data) // 30
    data[5 * size + 8 : 5 * size + 12] = b"\xff" * 4
    file.write_bytes(data)
    found = verify([str(tmp_path)])
    assert (found.equal, found.unread_bytes) == (True, 25 * size)
    assert any("bad_length" in problem for problem in found.problems)
    muster(3, "verify", tmp_path)


def test_whole_rows_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer(tmp_path / f"{TOPIC}-0")
    for version in range(5):
        writer.append([commit(("g", "t", version), 7, 1000, version, "größer", b"i" * 16)])
    assert verify([str(tmp_path)]).equal
    for changed in ({"metadata": "other"}, {"commit_ts": 5}, {"leader_epoch": 9}, {"topic_id": "00"}):
        monkeypatch.setattr("pipeline.jobs.verify.latest_and_problems", changing(changed))
        found = verify([str(tmp_path)])
        assert found.unexplained == 5
        assert next(iter(changed)) in found.differences[0]


def changing(columns: dict[str, Any]) -> Any:
    """The reduction, with something else in some columns."""

    class Rows(list[dict[str, Any]]):
        def to_pylist(self) -> list[dict[str, Any]]:
            return self

    def read(cut: Any, options: Options) -> Any:
        rows, problems = latest_and_problems(cut, options)
        return Rows(row | columns for row in rows.to_pylist()), problems

    return read


def test_a_group_in_two_logs_is_reported(tmp_path: Path) -> None:
    for partition in (0, 1):
        fill(Writer(tmp_path / f"{TOPIC}-{partition}"), [partition])
    found = verify([str(tmp_path)])
    assert (found.keys, found.unexplained, found.problems) == (2, 0, ["group g is in several logs"])


def test_values_that_cannot_be_read_are_no_tombstones(tmp_path: Path) -> None:
    writer = Writer(tmp_path / f"{TOPIC}-0")
    good = commit(("g", "t", 0), 7, 1000)
    writer.append([good])
    size = next(tmp_path.rglob("*.log")).stat().st_size
    writer.append([msgspec.structs.replace(good, value=b"\0\3\0")])
    with_epoch(next(tmp_path.rglob("*.log")), 7)  # of the first batch: that of the other one is older now
    found = verify([str(tmp_path)])
    assert (found.keys, found.equal, len(found.problems)) == (1, True, 2), found.differences
    assert found.unread_bytes == next(tmp_path.rglob("*.log")).stat().st_size - size, (
        "of one batch that has two problems"
    )


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(n, marks=pytest.mark.long) for n in range(8, 25))])
def test_readers_agree_or_a_problem_says_why_not(tmp_path: Path, seed: int) -> None:
    with_mishaps(tmp_path, seed)
    found = verify([str(tmp_path)])
    assert found.unexplained == 0, found.differences
    assert found.equal or found.problems


def test_no_log_is_no_agreement(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no directory __consumer_offsets-<n>"):
        verify([str(tmp_path)])


def test_what_is_written_meanwhile_is_left_for_the_next_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of every log, each time that any of its bytes are read: nobody who reads later sees more."""
    writers = [fill(Writer(tmp_path / "logs" / f"{TOPIC}-{n}", segment_bytes=300), range(5)) for n in (0, 1)]
    read = Store.read

    def read_and_write(self: Store, *given: Any) -> bytes:
        data = read(self, *given)
        for number, writer in enumerate(writers if "logs" in self.uri else ()):
            writer.append([commit((f"g{number}", "t", writer.next_offset), writer.next_offset, 1000)])
        return data

    monkeypatch.setattr(Store, "read", read_and_write)
    found = verify([str(tmp_path / "logs")])
    assert (found.equal, found.unread_bytes) == (True, 0), found.differences
    for result in compact(str(tmp_path / "logs"), tmp_path / "copy"):
        assert result.equal
        assert result.bytes_after <= result.bytes_before
        assert result.records_after <= result.records_before


@pytest.mark.parametrize("seed", range(6))
def test_tables_of_a_log_that_has_grown_are_behind_and_not_wrong(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is cut off: open transactions that end later, rows that are superseded or removed."""
    dice = Random(seed)
    write_logs(tmp_path / "now", Plan(seed=seed, partitions=3, groups=6, topics=2, topic_partitions=3, records=300, batch=(1, 9), txn_share=0.3, tombstone_share=0.1))  # fmt: skip
    shutil.copytree(tmp_path / "now", tmp_path / "then")
    grown = []
    for file in sorted((tmp_path / "then").rglob("*.log")):
        data = file.read_bytes()
        cuts = [0, *(batch.pos for batch in batches(data)), len(data)]
        file.write_bytes(data[: (cut := dice.choice([len(data), *dice.choices(cuts, k=3)]))])
        grown += [file.parent.name] if cut < len(data) else []
    made: dict[str, list[dict[str, Any]]] = {"latest_offsets": [], "log_health": []}
    for log in log_dirs([str(tmp_path / "then")]):
        made["latest_offsets"] += latest(spans(log), Options()).to_pylist()
        read = [
            batch for part in read_rows(tmp_path / "then" / log.path, "batches") for batch in (part["last_offset"],)
        ]
        made["log_health"].append({"log_partition": log.partition, "last_offset": max(read, default=None)})
    monkeypatch.setattr("pipeline.jobs.verify.published", TablesOf(made))
    found = verify([str(tmp_path / "now")], tmp_path)
    assert (found.equal, found.unexplained) == (True, 0), found.differences
    assert [line.partition(":")[0] for line in found.behind] == grown
    latest_now = [row for log in log_dirs([str(tmp_path / "now")]) for row in latest(spans(log), Options()).to_pylist()]
    kept = {(row["log_partition"], row["log_offset"]) for row in latest_now}
    for row in made["latest_offsets"]:
        if (row["log_partition"], row["log_offset"]) in kept:
            row["committed_offset"] += 1
            assert not verify([str(tmp_path / "now")], tmp_path).equal, "a row that still counts is compared"
            row["committed_offset"] -= 1
            row["log_offset"] += 10_000
            assert not verify([str(tmp_path / "now")], tmp_path).equal, "nor may it be ahead of the log"
            return


class TablesOf:
    """Published tables with these rows."""

    def __init__(self, tables: dict[str, list[dict[str, Any]]]) -> None:
        self.tables = tables

    def load(self, _: Any) -> None:
        pass

    def dataset(self, _tables: Any, _snapshot: Any, name: str) -> Any:
        rows = [dict(row) for row in self.tables[name]]
        return SimpleNamespace(to_table=lambda: SimpleNamespace(to_pylist=lambda: rows))


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_difference_is_explained_by_damage_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_damaged: bool
) -> None:
    """A batch that is still being written is no reason for two ways of reading to differ."""
    writer = Writer(tmp_path / f"{TOPIC}-0")
    for n in range(8):
        writer.append([commit(("g", "t", n), n, 1000)])
    (file,) = tmp_path.rglob("*.log")
    data = bytearray(file.read_bytes())
    if is_damaged:
        data[len(data) // 2] ^= 1
    file.write_bytes(data[:-3])

    def leave_one_out(*given: Any) -> Any:
        rows, unread = latest_and_problems(*given)
        return rows.slice(1), unread

    monkeypatch.setattr("pipeline.jobs.verify.latest_and_problems", leave_one_out)
    found = verify([str(tmp_path)])
    assert found.unread_bytes
    assert (bool(found.problems), found.equal, found.unexplained) == (is_damaged, False, not is_damaged)
