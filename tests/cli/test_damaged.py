"""`muster consume` and `muster log dump` of a log that is damaged or may not be read: one line, not a traceback."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from coordinator.cli import main
from pipeline.synth import Writer
from protocol import record_batch
from protocol.records import Record
from tests.cli.command import Command, records
from tests.live import Muster


def test_a_damaged_partition_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Muster(tmp_path, "--topic", "orders:1", may_fail=True) as server:
        for _ in range(3):
            records(server.kafka, "orders", {0: 1})
        server.stop()
        (segment,) = (server.data_dir / "orders-0").glob("*.log")
        data = bytearray(segment.read_bytes())
        data[70] ^= 0xFF
        segment.write_bytes(bytes(data))
        server.start()
        code, lines, complaint = Command(server.kafka, capsys)("consume", "orders")
        assert (code, lines, complaint.count("\n")) == (1, [], 1)
        assert complaint.startswith("muster consume: cannot read orders:0: ")
        assert main(["log", "verify", str(server.data_dir)]) == 3


def test_a_batch_that_makes_no_sense_is_told_by_a_dump_that_goes_on_with_other_logs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its checksum is right: something else has written it."""
    Writer(tmp_path / "orders-1").append([Record(None, b"behind", timestamp=1)])
    writer = Writer(tmp_path / "orders-0")
    writer.append([Record(None, b"one", timestamp=1)])
    writer.append([Record(None, b"no type", timestamp=1)], producer_id=7, transactional=True, control=True)
    assert main(["log", "dump", str(tmp_path)]) == 3
    printed = capsys.readouterr()
    assert "value=one" in printed.out
    assert "value=behind" in printed.out
    (file,) = (tmp_path / "orders-0").glob("*.log")
    assert printed.err == f"muster log: {file}:71: offset 1: a control record without a type in records.key\n"


def test_a_batch_of_an_unknown_codec_is_told_by_a_dump(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    batch = record_batch.encode([Record(None, b"one", timestamp=1)])
    ((_, header),) = record_batch.batches(batch)
    sealed = record_batch.seal(replace(header, attributes=5), batch[record_batch.HEADER_BYTES :])
    file = tmp_path / "orders-0" / f"{0:020d}.log"
    file.parent.mkdir()
    file.write_bytes(sealed)
    assert main(["log", "dump", str(tmp_path)]) == 3
    printed = capsys.readouterr()
    assert 'compression="unknown (5)"' in printed.out
    assert printed.err == f"muster log: {file}:0: offset 0: compression 5 is none that Kafka has\n"


def test_a_file_that_the_disk_cannot_read_holds_up_no_other_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Writer(tmp_path / "orders-1").append([Record(None, b"behind", timestamp=1)])
    (tmp_path / "orders-0" / f"{0:020d}.log").mkdir(parents=True)
    for action, shown in (("dump", "value=behind"), ("verify", "orders-1: offsets 0 to 1")):
        assert main(["log", action, str(tmp_path)]) == 1
        printed = capsys.readouterr()
        assert shown in printed.out
        assert (printed.err.count("\n"), "orders-0" in printed.err) == (1, True)


def test_a_file_in_the_place_of_a_log_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A start cannot open it either. Where there is no log, such a file says nothing about a data directory."""
    (tmp_path / "orders-0").touch()
    assert main(["log", "verify", str(tmp_path)]) == 2
    Writer(tmp_path / "orders-1").append([Record(None, b"behind", timestamp=1)])
    capsys.readouterr()
    for action, shown in (("dump", "value=behind"), ("verify", "orders-1: offsets 0 to 1"), ("repair", "")):
        assert main(["log", action, str(tmp_path)]) == 1
        printed = capsys.readouterr()
        assert shown in printed.out
        assert printed.err == f"muster log: list {tmp_path}/orders-0: Not a directory (ENOTDIR)\n"


def test_a_directory_that_may_not_be_read_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: str) -> list[str]:
        raise PermissionError(13, "Permission denied", f"{path}/orders-0")

    monkeypatch.setattr("coordinator.cli.log.logs_of", fail)  # root may read everything
    assert main(["log", "verify", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"muster log: {tmp_path}/orders-0: Permission denied\n"
