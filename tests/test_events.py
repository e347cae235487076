"""What happened: the latest in memory, all in files that stay small, and a disk that fails stops nobody."""

import errno
import json
import os
from pathlib import Path
from sys import getsizeof
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator import event_files
from coordinator.core.events import Cause, Event
from coordinator.event_files import has_events, read_all_events, read_latest_events
from coordinator.events import ENTRY_BYTES, EventLog, Events, Ring
from storage.real_files import RealFiles
from tests.storage.crashing_disk import CrashingDisk


def event(number: int, group: str = "g") -> Event:
    return Event(
        at_ms=number,
        group=group,
        cause=Cause.SESSION_EXPIRED,
        before="Stable",
        after="PreparingRebalance",
        generation=7,
        member=f"m-{number}",
        by="timer session",
        last_beat_ms=number - 10,
        deadline_ms=number,
    )


def encoded(number: int) -> bytes:
    return msgspec.json.encode(event(number))


def lines(files: CrashingDisk, name: str = "events.jsonl") -> list[dict[str, Any]]:
    file = files.open(f"data/{name}", readonly=True)
    return [json.loads(line) for line in file.pread(0, file.size()).splitlines() if line.endswith(b"}")]


def made(bytes_max: int = 10_000) -> tuple[CrashingDisk, EventLog]:
    files = CrashingDisk()
    files.make_directory("data")
    return files, EventLog(files, "data", bytes_max=bytes_max, files_max=3)


def open_files(folder: Path) -> int:
    """Return how many descriptors of this process are files of a folder."""
    links = Path("/proc/self/fd").iterdir()
    return sum(os.path.realpath(link).startswith(f"{folder}/") for link in links)


def test_the_ring_keeps_the_latest_and_their_numbers() -> None:
    ring = Ring(events_max=3)
    for number in range(1, 6):
        ring.add("g" if number % 2 else "h", b"{}")
    assert [number for number, _ in ring.after(0)] == [3, 4, 5]
    assert [number for number, _ in ring.after(4)] == [5]
    assert [number for number, _ in ring.after(0, "h")] == [4]
    assert ring.latest == 5


def test_the_ring_is_bounded_by_its_bytes() -> None:
    ring = Ring(bytes_max=10_000)
    for _ in range(100):
        ring.add("g" * 100, bytes(900))
    assert 8 <= len(list(ring.after(0))) <= 10
    assert ring.bytes <= 10_000
    ring.add("g", bytes(20_000))
    assert (list(ring.after(0)), ring.bytes) == ([], 0), "it is larger than all that may be kept"


@given(
    earlier=st.lists(st.tuples(st.sampled_from("gh"), st.integers(0, 300)), max_size=4),
    added=st.lists(st.tuples(st.sampled_from("ghi"), st.integers(0, 300)), max_size=12),
    events_max=st.integers(1, 6),
    bytes_max=st.sampled_from([0, 150, 500, 900, 10_000]),
)
@settings(max_examples=150)
def test_the_ring_has_the_latest_that_fit(
    earlier: list[tuple[str, int]], added: list[tuple[str, int]], events_max: int, bytes_max: int
) -> None:
    """Those of earlier runs, or as many of this one as may be kept; whoever asks, from wherever, of whichever group."""
    ring = Ring(events_max, bytes_max)
    ring.restore([(group, bytes(size)) for group, size in earlier])
    kept = [(number, group, bytes(size)) for number, (group, size) in enumerate(earlier, 1 - len(earlier))]

    def size_of(some: list[tuple[int, str, bytes]]) -> int:
        return sum(getsizeof(group) + getsizeof(event) + ENTRY_BYTES for _, group, event in some)

    for number, (group, size) in enumerate(added, 1):
        ring.add(group, bytes(size))
        kept.append((number, group, bytes(size)))
        if size_of(kept) > bytes_max:
            kept = [one for one in kept if one[0] > 0]
        while len([one for one in kept if one[0] > 0]) > events_max or size_of(kept) > bytes_max:
            kept.remove(next(one for one in kept if one[0] > 0))
        assert ring.bytes == size_of(kept)
        assert (ring.latest, ring.dropped) == (number, number - len([one for one in kept if one[0] > 0]))
    for after in (None, *range(-len(earlier) - 1, len(added) + 1)):
        for asked in (None, "g", "h", "i"):
            found = [
                (at, event) for at, group, event in kept if asked in (None, group) and (after is None or at > after)
            ]
            assert list(ring.after(after, asked)) == found


@pytest.mark.parametrize("room", [-1, 0, 1])
def test_a_file_is_put_aside_once_it_is_full(room: int) -> None:
    lines = [b"x" * 9, b"y" * 9]
    files, log = made(bytes_max=20 + room)
    for line in lines:
        log.add(line)
        log.flush()
    assert files.exists("data/events.1.jsonl") == (room <= 0)


def test_a_file_is_full_however_often_it_was_opened() -> None:
    files, _ = made()
    for _ in range(11):
        log = EventLog(files, "data", bytes_max=100, files_max=3)
        log.add(b"x" * 29)
        log.close()
    assert all(
        len(lines) <= 4
        for lines in (files.open(f"data/{one}").pread(0, 1_000).splitlines() for one in files.list("data"))
    )
    assert files.list("data") == ["events.1.jsonl", "events.2.jsonl", "events.jsonl"]


def test_events_of_earlier_runs_have_numbers_up_to_zero() -> None:
    ring = Ring(bytes_max=2_000)
    ring.restore([("g", b"1"), ("h", b"2"), ("g", b"3")])
    ring.add("g", b"4")
    assert list(ring.after(None)) == [(-2, b"1"), (-1, b"2"), (0, b"3"), (1, b"4")]
    assert [number for number, _ in ring.after(None, "h")] == [-1]
    assert [number for number, _ in ring.after(-1)] == [0, 1]
    assert [number for number, _ in ring.after(0)] == [1], "who follows has seen them"
    assert (ring.latest, ring.dropped) == (1, 0)
    ring.add("g", bytes(1_600))
    assert [number for number, _ in ring.after(None)] == [1, 2], "they are the first to go"


def test_a_start_reads_the_latest_events_and_no_torn_line() -> None:
    files, log = made()
    event = msgspec.json.encode(Event(5, "g", Cause.MEMBER_JOINED, "Empty", "Stable", 1))
    log.add(event)
    log.add(b'{"lost":3}')
    log.add(b'{"at_ms":6,"group":"h","cause":"of another version"}')
    log.add(event)
    log.close()
    file = files.open("data/events.jsonl")
    file.append(event[:-9])
    file.close()
    assert [group for group, _ in read_latest_events(files, "data")] == ["g", "h", "g"]
    assert [one.at_ms for one in read_all_events(files, "data")] == [5, 5]
    assert list(read_all_events(files, "data", "h")) == []
    assert list(read_latest_events(files, "elsewhere")) == []
    assert not has_events(files, "elsewhere")


@pytest.mark.parametrize("bytes_max", [1, 60, 400, 900, 100_000])
def test_a_start_reads_on_in_the_file_that_was_put_aside(bytes_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The latest events, as many as the bytes have room for, and none between them is left out."""
    monkeypatch.setattr(event_files, "LATEST_BYTES", bytes_max)
    files, log = made(bytes_max=1_000)
    for number in range(100, 140):
        log.add(encoded(number))
        log.flush()
    log.close()
    kept = [one.at_ms for one in read_all_events(files, "data")]
    found = [data for _, data in read_latest_events(files, "data")]
    assert found == [encoded(number) for number in kept[len(kept) - len(found) :]]
    size = len(encoded(100)) + 1
    assert len(found) == len(kept) or bytes_max // size - 3 <= len(found) <= bytes_max // size


def test_a_line_says_all_and_leaves_out_what_was_not_said() -> None:
    files, log = made()
    events = Events(Ring(), log)
    events.tell(event(1))
    assert not files.exists("data/events.jsonl")  # a turn is not made to wait for it
    events.flush()
    assert lines(files) == [
        {
            "at_ms": 1,
            "group": "g",
            "cause": "session_expired",
            "before": "Stable",
            "after": "PreparingRebalance",
            "generation": 7,
            "member": "m-1",
            "by": "timer session",
            "last_beat_ms": -9,
            "deadline_ms": 1,
        }
    ]


def test_files_are_put_aside_and_the_oldest_goes() -> None:
    files, log = made(bytes_max=400)
    for number in range(20):
        log.add(encoded(number))
        log.flush()
    assert files.list("data") == ["events.1.jsonl", "events.2.jsonl", "events.jsonl"]
    numbers = [line["at_ms"] for age in ("2.", "1.", "") for line in lines(files, f"events.{age}jsonl")]
    assert numbers == list(range(numbers[0], 20))
    assert 5 < len(numbers) < 20


def test_a_disk_that_fails_loses_events_and_says_how_many() -> None:
    files, log = made()
    log.add(encoded(1))
    log.flush()
    for number in (2, 3):
        log.add(encoded(number))
    files.fail[files.calls + 1] = errno.ENOSPC
    log.flush()
    assert log.lost == 2
    log.add(encoded(4))
    log.flush()
    assert log.lost == 0
    told = lines(files)
    assert {"lost": 2} in told
    assert [line["at_ms"] for line in told if "at_ms" in line][-1] == 4


def test_the_last_words_are_written_at_the_end() -> None:
    files, log = made()
    log.add(encoded(1))
    log.close()
    assert len(lines(files)) == 1


def test_a_line_that_was_torn_tears_no_other() -> None:
    files, log = made()
    files.put("data/events.jsonl", b'{"at_ms":1,"gro')
    log.add(encoded(2))
    log.flush()
    assert [line["at_ms"] for line in lines(files)] == [2]


@pytest.mark.parametrize("there", [b"", b'{"at_ms":1}\n', b'{"at_ms":1,"gro'])
def test_a_full_disk_costs_no_descriptors(there: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "no room")

    (tmp_path / "events.jsonl").write_bytes(there)
    log = EventLog(RealFiles(), str(tmp_path))
    with monkeypatch.context() as disk:
        disk.setattr(os, "write", full)
        for number in range(10):
            log.add(encoded(number))
            log.flush()
            assert open_files(tmp_path) == 0
    assert log.lost == 10
    log.add(encoded(11))
    log.close()
    assert b'\n{"lost":10}\n' in b"\n" + (tmp_path / "events.jsonl").read_bytes()


def test_too_many_at_once_are_counted_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.events.WAITING_BYTES_MAX", 20 * len(encoded(10)))
    files, log = made()
    for number in range(10, 30 + 5):
        log.add(encoded(number))
    assert log.lost == 5
    log.flush()
    assert lines(files)[0] == {"lost": 5}


def test_a_disk_that_cannot_rotate_lets_the_file_grow() -> None:
    files, log = made(bytes_max=1)
    log.add(encoded(1))
    files.fail = dict.fromkeys(range(files.calls + 3, files.calls + 12), errno.EIO)
    log.flush()
    files.fail = {}
    log.add(encoded(2))
    log.flush()
    assert log.lost == 0
    assert sum(len(lines(files, name)) for name in files.list("data")) == 2


def test_without_a_directory_there_is_only_the_ring() -> None:
    events = Events(Ring())
    events.tell(event(1))
    events.flush()
    events.close()
    assert events.ring.latest == 1
