"""What a damaged log is told to be, what can be saved of it, and the commands that do it."""

from __future__ import annotations

import errno
import io
import json
import random
import shutil
import struct
from contextlib import suppress
from pathlib import Path

import pytest
from crc32c import crc32c
from msgspec.structs import astuple

from coordinator.cli import main
from coordinator.cli.log import DAMAGED
from coordinator.core.catalog import records as catalog_records
from coordinator.core.catalog.records import CatalogRecord, TopicKey, TopicValue
from protocol.record_batch import HEADER_BYTES, encode, header_at
from protocol.records import Record
from storage import layout, recovery, repair
from storage.checkpoint import Checkpoint
from storage.files import DirectoryLocked, Files, StorageError
from storage.layout import DamagedLog, Layout
from storage.log import Log, scan
from storage.real_files import RealFiles
from storage.repair import Survey
from storage.segment import walk
from tests.commands import Shell, shell_fixture
from tests.storage import kafka_tools
from tests.storage.crashing_disk import CrashingDisk
from tests.storage.repairing import CONFIG, DIRECTORY, lost, repaired, values


def a_log(files: CrashingDisk | RealFiles, directory: str = DIRECTORY, batches: int = 20) -> Log:
    log = Log.open(files, directory, CONFIG)
    for number in range(batches):
        log.append(
            encode([Record(b"key", b"value %d" % number, (), 0, 1000 + number), Record(b"k", b"x" * 20, (), 0, 1)])
        )
    log.close()
    return log


def flipped(disk: CrashingDisk, path: str, byte: int, bit: int = 1) -> None:
    data = bytearray(disk.contents()[path])
    data[byte] ^= bit
    disk.put(path, bytes(data))


def disk_with_log(batches: int = 20) -> tuple[CrashingDisk, Log, list[tuple[int, bytes | None]]]:
    """A disk, the log on it that was closed, and the values in that."""
    disk = CrashingDisk()
    log = a_log(disk, batches=batches)
    return disk, log, values(log)


def test_a_damaged_batch_is_lost_and_everything_behind_it_is_kept() -> None:
    disk, log, everything = disk_with_log()
    segment = log.segments[1]
    flipped(disk, segment.path, 80, 0b1101)
    with pytest.raises(DamagedLog) as damage:
        Log.open(disk, DIRECTORY, CONFIG)
    assert (damage.value.path, damage.value.position, damage.value.offset) == (segment.path, 0, segment.base_offset)
    size = header_at(disk.contents()[segment.path]).size
    plan, mended = repaired(disk)
    first, end = segment.base_offset, segment.base_offset + 2
    assert plan.losses == [repair.Loss(segment.path, 0, size, first, end)]
    assert values(mended) == [pair for pair in everything if not first <= pair[0] < end]
    assert mended.end_offset == log.end_offset


def test_lost_offsets_are_spanned_by_batches_of_nobody() -> None:
    end = 2**31 + 7  # one batch cannot span more than 2**31
    first, second = map(header_at, repair.empty_batches(5, end, 3))
    assert (first.base_offset, first.last_offset, second.base_offset, second.last_offset) == (
        5,
        end - 3,
        end - 2,
        end - 1,
    )
    for header in (first, second):
        assert header.leader_epoch == 3
        assert (header.attributes, header.count) == (0, 0)
        assert {header.base_timestamp, header.max_timestamp} == {-1}
        assert {header.producer_id, header.producer_epoch, header.base_sequence} == {-1}


@pytest.mark.parametrize("byte", [*range(8), 8, 11, *range(12, 22), 30, 56, 60, 61, 70, 106])
def test_a_damaged_header_or_a_flipped_bit_is_put_right_without_loss(byte: int) -> None:
    disk, log, everything = disk_with_log()
    flipped(disk, log.segments[2].path, byte, 4)
    plan, mended = repaired(disk)
    assert plan.losses == []
    assert len(plan.mended) == 1
    assert values(mended) == everything


@pytest.mark.parametrize("gone", [slice(0, 1), slice(2, 3), slice(-1, None), slice(None)])
def test_missing_segments_are_lost_alone_and_their_offsets_are_not_used_again(gone: slice) -> None:
    """The first one, one in the middle, the last one, and all of them."""
    disk, log, everything = disk_with_log()
    segments = log.segments[gone]
    for segment in segments:
        disk.remove(segment.path)
    first, end = segments[0].base_offset, segments[-1].end_offset
    plan, mended = repaired(disk)
    assert lost(plan) == [(first, end)]
    assert values(mended) == [pair for pair in everything if not first <= pair[0] < end]
    assert mended.start_offset == (0 if first else end)
    assert mended.append(encode([Record(None, b"new")])) == log.end_offset == 40


@pytest.mark.parametrize("start", [0, 1, 5, 10, 39])
def test_records_that_were_deleted_do_not_come_back_by_a_repair(start: int) -> None:
    disk, _, everything = disk_with_log()
    log = Log.open(disk, DIRECTORY, CONFIG)
    log.delete_before(start)
    log.close()
    flipped(disk, log.segments[-1].path, HEADER_BYTES + 3)
    plan, mended = repaired(disk)
    assert plan.is_needed and mended.start_offset == start
    assert [one for one in values(mended) if one[0] >= start] == everything[start:]


def test_an_unreadable_checkpoint_is_written_anew() -> None:
    disk, *_ = disk_with_log()
    Log.open(disk, DIRECTORY, CONFIG).delete_before(5)
    flipped(disk, f"{DIRECTORY}/muster.checkpoint", 3)
    plan, mended = repaired(disk)
    assert plan.forgets_checkpoint
    assert (mended.start_offset, mended.end_offset) == (mended.segments[0].base_offset, 40)


def test_a_repair_that_is_cut_off_anywhere_is_finished_by_another() -> None:
    """By a power cut as well: what it has written in place of the damage is on the disk before it counts."""
    disk, log, everything = disk_with_log()
    first = log.segments[1].base_offset
    flipped(disk, log.segments[1].path, 80, 0b1101)
    flipped(disk, log.segments[2].path, 5)
    kept = [pair for pair in everything if not first <= pair[0] < first + 2]
    found = layout.look(disk, DIRECTORY, is_repair=True)
    left: list[tuple[str, CrashingDisk]] = []

    def crash(operation: str, path: str) -> None:
        left.extend((f"{operation} {path}, {how}", state) for how, state in disk.crashes())

    disk.after_call = crash
    repair.carry_out(disk, DIRECTORY, found, repair.survey(disk, DIRECTORY, found))
    assert len(left) > 50
    for where, state in left:
        _, mended = repaired(state)
        assert (values(mended), mended.end_offset) == (kept, log.end_offset), where


@pytest.mark.parametrize("reason", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_a_repair_that_fails_at_any_call_is_finished_by_another(reason: int) -> None:
    """The disk is full, breaks, or is mounted for reading only. A directory that stays so is read as it was."""
    disk, log, everything = disk_with_log()
    first = log.segments[1].base_offset
    flipped(disk, log.segments[1].path, 80, 0b1101)
    flipped(disk, log.segments[2].path, 5)
    kept = [pair for pair in everything if not first <= pair[0] < first + 2]
    found = layout.look(disk, DIRECTORY, is_repair=True)
    plan = repair.survey(disk, DIRECTORY, found)
    whole = disk.copy()
    repair.carry_out(whole, DIRECTORY, found, plan)
    for number in range(1, whole.calls + 1):
        left = disk.copy()
        left.fail[number] = reason
        with suppress(StorageError):  # to remove what nobody needs may fail
            repair.carry_out(left, DIRECTORY, found, plan)
        left.fail.clear()
        _, mended = repaired(left)
        assert (values(mended), mended.end_offset) == (kept, log.end_offset), number
    before = disk.contents()
    readonly = disk.copy()
    reads = ("open", "list", "read", "close")
    readonly.refuse = lambda operation, path: 0 if operation in reads and path in before else errno.EROFS
    with pytest.raises(StorageError):
        repair.carry_out(readonly, DIRECTORY, found, plan)
    assert readonly.contents() == before


@pytest.mark.parametrize("later", [0, 2])
def test_a_torn_tail_is_no_loss(later: int) -> None:
    """Also behind batches that are not known to be on the disk."""
    disk, _, everything = disk_with_log(batches=18)
    log = Log.open(disk, DIRECTORY, CONFIG)
    for _ in range(later):
        log.append(encode([Record(None, b"later")]))
    path, end = log.segments[-1].path, 36 + later
    assert log.checkpoint.recovery_point == 36
    torn = len(disk.contents()[path])
    disk.put(path, disk.contents()[path] + b"\0" * 33)
    plan, mended = repaired(disk)
    assert plan.losses == [repair.Loss(path, torn, 33, end, end)]
    assert values(mended) == [*everything, *[(36 + at, b"later") for at in range(later)]]
    assert mended.end_offset == end


@pytest.mark.parametrize("seed", range(60))
def test_whatever_was_done_to_it_a_repaired_log_opens_and_makes_nothing_up(seed: int) -> None:
    dice = random.Random(seed)
    disk, _, everything = disk_with_log()
    for _ in range(dice.randint(1, 5)):
        path = dice.choice([path for path in disk.contents() if path.endswith(".log")])
        data = bytearray(disk.contents()[path])
        at = dice.randrange(len(data))
        data[at : at + dice.choice((1, 1, 30))] = dice.randbytes(dice.choice((0, 1, 1, 5, 200)))
        disk.put(path, bytes(data))
        if dice.random() < 0.1:
            disk.remove(path)
    _, log = repaired(disk)
    assert set(values(log)) <= set(everything)
    assert log.end_offset == 40


# -- the command -------------------------------------------------------------------------------------------------------


muster_log = shell_fixture("log")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with two logs."""
    shutil.copytree(kafka_tools.RECORDING / "__consumer_offsets-0", tmp_path / "data" / "__consumer_offsets-0")
    a_log(RealFiles(), str(tmp_path / "data" / "orders-0"))
    (tmp_path / "data" / "muster.lock").write_text("")
    return tmp_path / "data"


def test_dump_prints_every_record_decoded(data: Path, muster_log: Shell) -> None:
    text = muster_log(0, "dump", data)
    assert 'type=OffsetCommit key={"group": "payments", "topic": "orders", "partition": 0}' in text
    assert '"metadata": "noted"' in text
    assert "key=commit" in text
    assert "key=abort" in text
    assert "producer_id=1000" in text
    assert "delete_horizon_ms=1700000061000" in text
    assert 'value="value 19"' in text


def test_dump_for_programs_is_an_object_a_line(data: Path, muster_log: Shell) -> None:
    segment = data / "__consumer_offsets-0" / "00000000000000000024.log"
    lines = [json.loads(line) for line in muster_log(0, "dump", segment, "--json").splitlines()]
    assert [line["base_offset"] for line in lines if "base_offset" in line] == [24, 37]
    assert lines[1]["key"] == {"group": "payments", "topic": "orders", "partition": 0}
    assert lines[-1] == {
        "log": "__consumer_offsets-0",
        "offset": 38,
        "timestamp": 1700000000021,
        "type": "GroupMetadata",
        "key": {"group": "gone"},
        "value": None,
    }


def test_dump_shows_what_it_cannot_decode(tmp_path: Path, muster_log: Shell) -> None:
    directory = tmp_path / "__consumer_offsets-1"
    log = Log.open(RealFiles(), str(directory))
    facts = [
        Record(b"\x00\x01\x00", b"\xff"),
        Record(None, b"\xff", (("h", b"1"), ("h", None))),
        Record(b"\x00\x63type 99", b"?"),
    ]
    log.append(encode(facts))
    log.close()
    lines = [json.loads(line) for line in muster_log(0, "dump", directory, "--json").splitlines()]
    assert lines[1]["key"] == "000100"
    assert "unreadable" in lines[1]
    assert (lines[2]["key"], lines[2]["value"], lines[2]["headers"]) == (None, "ff", [["h", "1"], ["h", None]])
    assert lines[3]["type"] == "Unknown"


def test_verify_says_what_is_there(data: Path, muster_log: Shell) -> None:
    assert "orders-0: offsets 0 to 40, 20 batches" in muster_log(0, "verify", data)


def test_verify_tells_every_damaged_file_with_its_byte(data: Path, muster_log: Shell) -> None:
    path = sorted((data / "orders-0").glob("*.log"))[1]
    damaged = bytearray(path.read_bytes())
    damaged[200] ^= 0b1101
    path.write_bytes(damaged)
    before = {p: p.read_bytes() for p in data.rglob("*.*") if p.is_file() and p.suffix != ".lock"}
    said = muster_log(DAMAGED, "verify", data)
    assert f"{path}:" in said
    assert "__consumer_offsets-0: offsets 0 to 58" in said
    muster_log(3, "dump", path)
    assert "LOSES offsets" in muster_log(3, "repair", data)
    assert {p: p.read_bytes() for p in before} == before, "nothing was touched"
    muster_log(0, "repair", data, "--accept-loss")
    muster_log(0, "verify", data)
    assert "nothing to repair" in muster_log(0, "repair", data)


def test_verify_erases_its_progress_before_it_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    log = Log.open(RealFiles(), str(tmp_path / "orders-0"))
    log.append([encode([Record(b"k", b"v")])] * 4096)
    log.close()
    screen = Terminal()
    monkeypatch.setattr("sys.stdout", screen)
    monkeypatch.setattr("sys.stderr", screen)
    assert main(["log", "verify", str(tmp_path)]) == 0
    progress, report = screen.getvalue().split("\x1b[K")
    assert progress == "\r100 %\r"
    assert report == f"{tmp_path}/orders-0: offsets 0 to 4096, 4096 batches\n"


def test_verify_calls_a_torn_tail_by_its_name(data: Path, muster_log: Shell) -> None:
    path = sorted((data / "orders-0").glob("*.log"))[-1]
    path.write_bytes(path.read_bytes() + bytes(10))
    assert "a torn write of 10 bytes at its end" in muster_log(0, "verify", data / "orders-0")
    assert "10 bytes of a torn write are cut off" in muster_log(0, "repair", data / "orders-0", "--accept-loss")


def test_a_segment_that_is_missing_before_anything_was_written_to_it_is_made_anew(
    tmp_path: Path, muster_log: Shell
) -> None:
    directory = str(tmp_path / "orders-0")
    log = Log.open(RealFiles(), directory)
    log.append(encode([Record(b"key", b"value")]))
    log.roll()
    log.close()
    path = Path(log.segments[-1].path)
    path.unlink()
    assert "the segment that was appended to last is missing" in muster_log(DAMAGED, "verify", directory)
    assert f"{path}: is missing; nothing is known to have been in it" in muster_log(
        0, "repair", directory, "--accept-loss"
    )
    muster_log(0, "verify", directory)
    assert Log.open(RealFiles(), directory).end_offset == 1


def test_repair_shows_what_it_mends_and_what_it_forgets(data: Path, muster_log: Shell) -> None:
    path = sorted((data / "orders-0").glob("*.log"))[0]
    path.write_bytes(b"\1" + path.read_bytes()[1:])
    (data / "__consumer_offsets-0" / "muster.checkpoint").write_text("nonsense")
    said = muster_log(3, "repair", data)
    assert f"{path}:0: can be mended without loss" in said
    assert "muster.checkpoint: unreadable" in said


def test_a_repair_goes_on_while_records_contradict_what_is_left(
    data: Path, muster_log: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record at 4 rests on the one at 2, and that at 6 on the one at 4."""
    rounds = iter([{2: "of nobody"}, {4: "of nobody"}, {6: "of nobody"}])

    def check_of(log: str) -> repair.Check:
        refused = next(rounds, {})
        return lambda header, records: {at: why for at, why in refused.items() if at == header.base_offset}

    monkeypatch.setattr("coordinator.cli.log._check_of", check_of)
    directory = data / "orders-0"
    assert "repaired" in muster_log(0, "repair", directory, "--accept-loss")
    left = [offset for offset, _ in values(Log.open(RealFiles(), str(directory), CONFIG))]
    assert left == [offset for offset in range(40) if offset not in (2, 4, 6)]
    assert next(rounds, None) is None


def test_compact_says_what_it_has_done(data: Path, muster_log: Shell) -> None:
    records = muster_log(0, "dump", data / "orders-0")
    said = muster_log(0, "compact", data)
    assert "__consumer_offsets-0: " in said
    assert " bytes up to offset 58" in said
    assert "orders-0: left as it is" in said
    assert muster_log(0, "dump", data / "orders-0") == records, "a topic keeps every record, whatever its key"
    Log.open(RealFiles(), str(data / "empty-0"))
    muster_log(0, "verify", data)


def test_a_damaged_log_is_not_compacted(data: Path, muster_log: Shell) -> None:
    path = next(path for path in sorted((data / "__consumer_offsets-0").glob("*.log")) if path.stat().st_size > 70)
    damaged = bytearray(path.read_bytes())
    damaged[70] ^= 1
    path.write_bytes(damaged)
    assert f"{path}:" in muster_log(3, "compact", data)


def test_dump_decodes_the_catalog(tmp_path: Path, muster_log: Shell) -> None:
    directory = tmp_path / "__muster_catalog-0"
    log = Log.open(RealFiles(), str(directory))
    fact = CatalogRecord(TopicKey("orders"), TopicValue(bytes(16), 4, 1, 1_700_000_000_000))
    log.append(encode([Record(*catalog_records.encode(fact))]))
    log.close()
    line = json.loads(muster_log(0, "dump", directory, "--json").splitlines()[1])
    assert (line["type"], line["key"], line["value"]["partitions"]) == ("Topic", {"name": "orders"}, 4)


def test_a_repair_looks_while_nobody_else_can_write(
    data: Path, muster_log: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan that was made before the lock was taken would undo what a server has written since."""
    path = sorted((data / "orders-0").glob("*.log"))[-1]
    path.write_bytes(path.read_bytes() + bytes(10))
    survey, held = repair.survey, []

    def surveyed(files: Files, directory: str, found: Layout, check: repair.Check | None = None) -> Survey:
        try:
            RealFiles().lock(str(data / "muster.lock")).release()
            held.append(False)
        except DirectoryLocked:
            held.append(True)
        return survey(files, directory, found, check)

    monkeypatch.setattr(repair, "survey", surveyed)
    muster_log(3, "repair", data / "orders-0")
    muster_log(0, "repair", data / "orders-0", "--accept-loss")
    assert held == [False, True, True], "without the lock to tell, under it to repair and to look again"
    lock = RealFiles().lock(str(data / "muster.lock"))
    assert "held by process" in muster_log(1, "repair", data, "--accept-loss")
    lock.release()


@pytest.mark.parametrize(("options", "left"), [((), [b"key"]), (("--set", "log.cleaner.delete.retention.ms=0"), [])])
def test_compact_goes_by_the_settings_of_the_server(
    tmp_path: Path, muster_log: Shell, options: tuple[str, ...], left: list[bytes]
) -> None:
    directory = tmp_path / "__consumer_offsets-0"
    log = Log.open(RealFiles(), str(directory))
    log.append(encode([Record(b"key", b"value")]))
    log.append(encode([Record(b"key", None)]))
    log.close()
    for _ in range(2):  # the first that sees a tombstone says until when it stays
        muster_log(0, "compact", tmp_path, *options)
    log = Log.open(RealFiles(), str(directory))
    assert [record.key for _, records in scan(log) for record in records] == left
    log.release()
    wrong = ("--set", "log.cleaner.delete.retention.ms=soon")
    assert "log.cleaner.delete.retention.ms" in muster_log(2, "compact", tmp_path, *wrong)


def test_a_path_that_is_not_there_is_wrong_use(tmp_path: Path, muster_log: Shell) -> None:
    muster_log(2, "verify", tmp_path / "none")


def test_records_that_a_check_refuses_are_left_out_and_keep_their_offsets() -> None:
    disk, log, everything = disk_with_log(batches=3)
    positions = [found.position for found in walk(disk.open(log.segments[0].path))]
    found = layout.look(disk, DIRECTORY)
    plan = repair.survey(
        disk, DIRECTORY, found, lambda header, records: {2: "not ours"} if header.base_offset == 2 else {}
    )
    assert plan.unreadable == [repair.Unreadable(log.segments[0].path, positions[1], 2, 3, "not ours")]
    repair.carry_out(disk, DIRECTORY, found, plan)
    mended = Log.open(disk, DIRECTORY, CONFIG)
    assert values(mended) == [one for one in everything if one[0] != 2]
    assert mended.end_offset == 6


def test_a_whole_batch_whose_records_nobody_can_read_is_left_empty() -> None:
    """Its checksum fits, so that it is no damage of the disk: a record's length says more than the batch holds."""
    disk, log, _ = disk_with_log(batches=2)
    ((first, last), *_) = [
        (one.position, one.position + one.header.size) for one in walk(disk.open(log.segments[0].path))
    ]
    data = bytearray(disk.contents()[log.segments[0].path])
    data[HEADER_BYTES] = 0x7E
    data[17:21] = struct.pack(">I", crc32c(bytes(data[21:last])))
    disk.put(log.segments[0].path, bytes(data))
    found = layout.look(disk, DIRECTORY)
    assert not repair.survey(disk, DIRECTORY, found).is_needed
    plan = repair.survey(disk, DIRECTORY, found, lambda header, records: {})
    ((path, position, *offsets, reason),) = map(astuple, plan.unreadable)
    assert (path, position, offsets) == (log.segments[0].path, first, [0, 2])
    assert reason
    repair.carry_out(disk, DIRECTORY, found, plan)
    assert [offset for offset, _ in values(Log.open(disk, DIRECTORY, CONFIG))] == [2, 3]


def test_a_checkpoint_that_says_more_than_the_files_is_damage() -> None:
    disk, *_ = disk_with_log()
    found = layout.look(disk, DIRECTORY)
    findings = recovery.examine(disk, DIRECTORY, found, 4096)
    assert findings.checkpoint == Checkpoint(
        recovery_point=40, segment_base=layout.look(disk, DIRECTORY).segments[-1][0]
    )
    assert findings.end_offset == 40


@pytest.mark.parametrize("named", ["data", "link", "target"])
def test_a_log_behind_a_link_is_in_use_under_either_of_its_names(
    data: Path, tmp_path: Path, muster_log: Shell, named: str
) -> None:
    link, target = data / "__consumer_offsets-0", tmp_path / "other disk" / "__consumer_offsets-0"
    target.parent.mkdir()
    link.rename(target)
    link.symlink_to(target)
    lock = RealFiles().lock(str(data / "muster.lock"))
    paths = {"data": data, "link": link, "target": target}
    assert "held by process" in muster_log(1, "compact", paths[named])
    lock.release()
    muster_log(0, "compact", paths[named])
