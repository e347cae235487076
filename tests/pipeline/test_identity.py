"""A log that was made anew in the same place is not read on, one that was cleaned is."""

from pathlib import Path

import msgspec
import pytest

from pipeline import manifest, sink
from pipeline.decode.identity import find_replacement, identify
from pipeline.decode.layout import TOPIC, log_dirs
from pipeline.decode.logs import LogDir, Position
from pipeline.decode.positions import newest
from pipeline.errors import UsageError
from pipeline.jobs.ingest import Follower, ingest
from pipeline.synth import Writer, commit
from protocol.record_batch import header_at, rewrite
from tests.pipeline.group_logs import fill


def write(directory: Path, records: int, at_ms: int, segment_bytes: int = 1 << 20, first: int = 0) -> LogDir:
    fill(Writer(directory, segment_bytes, first), range(records), at_ms)
    return log_dirs([str(directory)])[0]


def clear(directory: Path) -> None:
    for file in directory.iterdir():
        file.unlink()


def reading(log: LogDir) -> tuple[Position, manifest.Identity]:
    position = newest(log)
    identity = identify(log, position)
    assert identity is not None
    return position, identity


def test_a_log_that_only_grew_is_the_same(tmp_path: Path) -> None:
    directory = tmp_path / f"{TOPIC}-0"
    position, identity = reading(write(directory, 50, 1000))
    (file,) = directory.glob("*.log")
    with file.open("ab") as appending:
        appending.write(b"half a batch")
    assert find_replacement(log_dirs([str(directory)])[0], identity, position) is None
    log = write(directory, 10, 2000, first=50)
    assert find_replacement(log, identity, position) is None


def test_a_log_that_goes_on_below_what_was_read_is_told(tmp_path: Path) -> None:
    """As by tables of a release that has believed an offset that was too high; one batch alone may be off itself."""
    directory = tmp_path / f"{TOPIC}-0"
    position, identity = reading(write(directory, 50, 1000))
    position = msgspec.structs.replace(position, next_offset=1_000)
    (file,) = directory.glob("*.log")
    writer = Writer(directory, first_offset=50)
    for is_told in (False, True):
        writer.append([commit(("g", "t", 0), 1, 1000)])
        after = writer.directory / f"{50:020d}.log"
        both = file.read_bytes() + after.read_bytes()
        whole = tmp_path / f"whole-{is_told}" / f"{TOPIC}-0"
        whole.mkdir(parents=True)
        (whole / file.name).write_bytes(both)
        found = find_replacement(log_dirs([str(whole)])[0], identity, position)
        assert found == ("what follows has offsets below 1000, up to which it was read" if is_told else None)


@pytest.mark.parametrize("segment_bytes", [1 << 20, 1000])
@pytest.mark.parametrize("records", [10, 50, 60])
def test_a_log_that_was_made_anew_is_another(tmp_path: Path, records: int, segment_bytes: int) -> None:
    """Also where the segment in which reading stopped is there again, and is not the last one any more."""
    directory = tmp_path / f"{TOPIC}-0"
    position, identity = reading(write(directory, 50, 1000))
    clear(directory)
    assert find_replacement(write(directory, records, 5000, segment_bytes), identity, position)


@pytest.mark.parametrize("more", [0, 30])
def test_a_log_that_lost_its_last_records_and_took_in_others_is_another(tmp_path: Path, more: int) -> None:
    """As after a power cut, or where a broker has followed another leader: the first batches are the same."""
    directory = tmp_path / f"{TOPIC}-0"
    log = write(directory, 50, 1000)
    position, identity = reading(log)
    (file,) = directory.glob("*.log")
    data = file.read_bytes()
    file.write_bytes(data[: len(data) * 40 // 50])
    write(directory, 10 + more, 5000, first=40)
    (tail,) = (file for file in directory.glob("*.log") if file.stem.endswith("40"))
    file.write_bytes(file.read_bytes() + tail.read_bytes())
    tail.unlink()
    assert newest(log).next_offset == 50 + more
    assert find_replacement(log, identity, position) == "other records stand before offset 50, up to which it was read"


def test_what_an_older_release_remembered_is_believed(tmp_path: Path) -> None:
    position, identity = reading(log := write(tmp_path / f"{TOPIC}-0", 50, 1000))
    assert find_replacement(log, msgspec.structs.replace(identity, tail=None), position) is None


def test_also_where_its_segments_end_elsewhere(tmp_path: Path) -> None:
    directory = tmp_path / f"{TOPIC}-0"
    position, identity = reading(write(directory, 50, 1000, segment_bytes=900))
    clear(directory)
    anew = write(directory, 300, 5000, segment_bytes=1150)
    assert identity.segment not in [int(file.stem) for file in directory.glob("*.log")]
    assert find_replacement(anew, identity, position) == "its first batch is younger than what was read"
    clear(directory)
    assert "ends before" in (find_replacement(write(directory, 5, 5000), identity, position) or "")


def test_a_log_whose_older_segments_were_cleaned_is_the_same(tmp_path: Path) -> None:
    directory = tmp_path / f"{TOPIC}-0"
    position, identity = reading(write(directory, 50, 1000, segment_bytes=900))
    log = write(directory, 50, 2000, segment_bytes=900, first=position.next_offset)
    file = directory / f"{identity.segment:020d}.log"
    data = file.read_bytes()
    file.write_bytes(data[12 + int.from_bytes(data[8:12], "big") :])  # its first batch was superseded
    assert find_replacement(log, identity, position) is None
    file.unlink()  # and now the segment has been merged into the one before
    assert find_replacement(log, identity, position) is None


def test_a_log_that_has_lost_a_segment_of_which_nothing_was_there_is_the_same(tmp_path: Path) -> None:
    """It was begun, and a power cut has taken it: it is begun again with the next records."""
    directory = tmp_path / f"{TOPIC}-0"
    write(directory, 50, 1000)
    begun = directory / f"{50:020d}.log"
    begun.touch()
    position, identity = reading(log := log_dirs([str(directory)])[0])
    assert (position.segment, identity.segment) == (50, 0)
    assert find_replacement(log, identity, position) is None
    begun.unlink()
    assert find_replacement(log, identity, position) is None


def test_a_first_batch_that_a_cleaner_has_rewritten_is_no_sign_of_another_log(tmp_path: Path) -> None:
    """Some of its records were superseded, so its checksum is another one; its newest record, and time, stayed."""
    directory = tmp_path / f"{TOPIC}-0"
    commits = [commit(("g", "t", n), n, 1000 + n) for n in range(3)]
    Writer(directory, 100).append(commits)
    position, identity = reading(log_dirs([str(directory)])[0])
    log = write(directory, 5, 5000, segment_bytes=100, first=3)
    (file,) = (file for file in directory.glob("*.log") if int(file.stem) == 0)
    header = header_at(file.read_bytes())
    kept = [msgspec.structs.replace(commits[2], offset=2)]
    file.write_bytes(rewrite(msgspec.structs.replace(header, count=1), kept))
    now = identify(log, position)
    assert now is not None
    assert (now.max_ts, now.checksum != identity.checksum) == (identity.max_ts, True)
    assert find_replacement(log, identity, position) is None


@pytest.mark.parametrize("records", [10, 60])
def test_follow_ends_when_a_log_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, records: int) -> None:
    """Also where the new one is shorter, so that nothing seems to be written to it."""
    monkeypatch.setattr("pipeline.jobs.ingest.IDLE_MS", 0)
    directory = tmp_path / f"{TOPIC}-0"
    write(directory, 50, 1000)
    with Follower([str(tmp_path)], tmp_path / "out").lock_tables() as follower:
        assert follower.step() == 50
        before = manifest.load(tmp_path / "out")
        clear(directory)
        write(directory, records, 5000)
        with pytest.raises(UsageError, match="is not the log that was read before"):
            follower.step()
        assert manifest.load(tmp_path / "out") == before


def test_what_topics_took_in_is_cut_off_when_the_logs_were_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clock runs on while they are read; what counts is when they were listed."""
    clock = iter(range(1_000, 100_000, 1_000))
    monkeypatch.setattr("pipeline.jobs.ingest._now_ms", lambda: next(clock))
    write(tmp_path / f"{TOPIC}-0", 5, 1000)
    assert ingest(None, [str(tmp_path)], tmp_path / "out").read_ms == 1_000
    assert ingest(None, [str(tmp_path)], tmp_path / "out").read_ms == 2_000


def test_ingest_refuses_to_read_on(tmp_path: Path) -> None:
    directory, out = tmp_path / f"{TOPIC}-0", tmp_path / "out"
    log = write(directory, 50, 1000)
    position, identity = reading(log)
    out.mkdir()
    known = manifest.Manifest(logs={log.name: position}, places={log.name: log.place}, identities={log.name: identity})
    manifest.save(out, known)
    clear(directory)
    write(directory, 60, 5000)
    with pytest.raises(UsageError, match="is not the log that was read before: another batch stands"):
        ingest(None, [str(tmp_path)], out)
    assert manifest.load(out) == known


def test_a_log_that_did_not_grow_is_known_too(tmp_path: Path) -> None:
    """While another one was read on, and in the next run."""
    for number in range(2):
        write(tmp_path / f"{TOPIC}-{number}", 5, 1000)
    ingest(None, [str(tmp_path)], tmp_path / "out")
    write(tmp_path / f"{TOPIC}-1", 5, 2000, first=5)
    with Follower([str(tmp_path)], tmp_path / "out").lock_tables() as follower:
        assert follower.step() == 5
        assert follower.known.identities.keys() == {f"{TOPIC}-0", f"{TOPIC}-1"}
    clear(tmp_path / f"{TOPIC}-0")
    write(tmp_path / f"{TOPIC}-0", 9, 5000)
    with pytest.raises(UsageError, match=f"{TOPIC}-0 is not the log that was read before"):
        ingest(None, [str(tmp_path)], tmp_path / "out")


def test_a_log_that_is_made_anew_while_it_is_read_is_not_read_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, out = tmp_path / f"{TOPIC}-0", tmp_path / "out"
    write(directory, 5, 1000)
    known = ingest(None, [str(tmp_path)], out)
    write(directory, 5, 2000, first=5)

    def write_late(*words: object) -> object:
        written = sink_write(*words)
        clear(directory)
        write(directory, 20, 5000)
        return written

    sink_write = sink.write
    monkeypatch.setattr("pipeline.sink.write", write_late)
    with pytest.raises(UsageError, match="is not the log that was read before"):
        ingest(None, [str(tmp_path)], out)
    assert manifest.load(out) == known
