"""The ends that a topic's own log tells, whatever times its producers wrote."""

import os
import struct
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from pipeline.decode.ends import End, log_ends
from pipeline.synth import Writer
from protocol.records import Record
from tests.pipeline.group_logs import fill

READ_MS = 1_760_000_000_000  # when the groups' logs were read


def ends(directory: Path) -> list[tuple[int, int]]:
    return [(end.ts, end.leo) for end in log_ends(str(directory), READ_MS)]


def set_write_time(directory: Path, at_ms: int) -> None:
    for file in directory.rglob("*.log"):
        os.utime(file, (at_ms / 1000, at_ms / 1000))


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    return tmp_path / "orders-0"


@pytest.mark.parametrize("first_offset", [0, 500])
def test_an_empty_log_ends_where_its_next_record_will_be(orders: Path, first_offset: int) -> None:
    """Of a topic that was never written to, or of which retention has taken every record."""
    Writer(orders, first_offset=first_offset)
    set_write_time(orders, READ_MS)
    assert ends(orders.parent) == [(0, first_offset)]


def test_a_log_without_times_ends_at_its_last_record(orders: Path) -> None:
    fill(Writer(orders), range(3), at_ms=-3)
    set_write_time(orders, READ_MS)
    assert ends(orders.parent) == [(0, 3)]
    set_write_time(orders, READ_MS + 1)
    assert ends(orders.parent) == [], "some of it may have come after the groups' logs were read"


def test_records_of_later_than_the_groups_logs_are_left_out(orders: Path) -> None:
    writer = fill(Writer(orders), range(2), at_ms=READ_MS - 1)
    fill(writer, [2], at_ms=READ_MS + 1)
    set_write_time(orders, READ_MS + 1000)
    assert ends(orders.parent) == [(READ_MS - 1, 1), (READ_MS, 2)]


@pytest.mark.parametrize("written_ms", [READ_MS - 2000, READ_MS + 2000])
def test_a_time_to_come_does_not_hide_the_records_behind_it(orders: Path, written_ms: int) -> None:
    """Of a producer whose clock is ahead, or that counts in microseconds."""
    writer = fill(Writer(orders), [0], at_ms=READ_MS - 5000)
    fill(writer, [1], at_ms=READ_MS * 1000)
    fill(writer, [2], at_ms=READ_MS - 4000)
    set_write_time(orders, written_ms)
    assert ends(orders.parent) == [(READ_MS - 5000, 1), (READ_MS - 5000, 2), (READ_MS - 4000, 3)]


def test_files_that_an_archive_has_made_older_than_their_records(orders: Path) -> None:
    fill(Writer(orders), [0], at_ms=READ_MS - 5000)
    set_write_time(orders, 0)
    assert ends(orders.parent) == [(READ_MS - 5000, 1)]


def test_a_directory_of_a_topics_name_without_segments_tells_no_end(orders: Path) -> None:
    orders.mkdir()
    assert ends(orders.parent) == []


def test_each_partition_has_its_own_ends_and_what_is_no_log_of_a_topic_has_none(tmp_path: Path) -> None:
    """Names may have hyphens and digits; Kafka renames the directory of a partition that is deleted or moved."""
    logs = {"orders-0": 1, "orders-12": 2, "eu-1-orders-3": 4}
    others = ("__consumer_offsets-0", "orders", "orders-x", "orders-1.0123-delete", "orders-2.0123-future")
    for name in (*logs, *others):
        fill(Writer(tmp_path / name), range(logs.get(name, 9)), at_ms=READ_MS - 9)
    (tmp_path / "goods-0").touch()
    found: dict[tuple[str, int], int] = {}
    for end in log_ends(str(tmp_path), READ_MS):
        found[end.topic, end.partition] = end.leo
    assert found == {("orders", 0): 1, ("orders", 12): 2, ("eu-1-orders", 3): 4}


@pytest.mark.parametrize("seed", range(20))
def test_a_closed_segment_is_known_by_its_index_and_every_other_one_by_its_batches(seed: int, orders: Path) -> None:
    """An index may be missing, empty, cut off within an entry, or have zeros behind its entries. That of the segment
    that is written to knows nothing of what came since the server was started. Producers' clocks differ, and an end
    that was reached stays reached."""
    dice = Random(seed)
    writer = Writer(orders, segment_bytes=400)
    batches: dict[str, list[tuple[int, int]]] = {}  # by segment: (newest time, log end offset)
    at_ms = latest = READ_MS - dice.choice([300, 900])
    for _ in range(dice.randrange(1, 15)):
        count = dice.randrange(1, 4)
        writer.append([Record(None, b"x" * 40, timestamp=at_ms + n) for n in range(count)])
        batches.setdefault(max(orders.glob("*.log")).stem, []).append((at_ms + count - 1, writer.next_offset))
        latest = max(latest, at_ms + count - 1)
        at_ms += dice.randrange(-20, 50)
    if is_rolled := dice.random() < 0.5:  # a compaction has begun a segment, to which nothing was written yet
        (orders / f"{writer.next_offset:020d}.log").touch()
    want = []
    for segment, ends_there in batches.items():
        known = dice.sample(ends_there, dice.randrange(len(ends_there) + 1))
        known.sort(key=lambda end: end[1])
        kind = dice.choice(["none", "whole", "zeros", "cut"])
        if kind != "none":
            entries = b"".join(struct.pack(">qi", ts, leo - 1 - int(segment)) for ts, leo in known)
            rest = {"whole": b"", "zeros": bytes(24), "cut": bytes(dice.randrange(12))}[kind]
            (orders / f"{segment}.timeindex").write_bytes(entries + rest)
        want += known if known and kind != "none" and (is_rolled or segment != max(batches)) else ends_there
    if want[-1][1] < writer.next_offset:  # whatever an index says, the log ends where its last segment begins
        want.append((0, writer.next_offset))
    set_write_time(orders, max(READ_MS, latest))
    reached = [(max(ts for ts, _ in want[: n + 1]), leo) for n, (_, leo) in enumerate(want)]
    assert ends(orders.parent) == [(ts, leo) for ts, leo in reached if ts <= READ_MS]


@pytest.mark.parametrize("batches", [9, 10, 11, 12, 25, 199])
def test_of_many_ends_some_are_taken_the_first_and_the_last_among_them(
    batches: int, orders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipeline.decode.ends.SAMPLES", 10)
    fill(Writer(orders), range(batches), at_ms=READ_MS - 500)
    set_write_time(orders, READ_MS)
    found = log_ends(str(orders.parent), READ_MS)
    assert found == [End("orders", 0, READ_MS - 500 + end.leo - 1, end.leo) for end in found]
    at = [end.leo for end in found]
    assert (len(at), at[0], at[-1]) == (min(batches, 10), 1, batches)
    steps = {later - one for one, later in pairwise(at)}
    assert min(steps) >= 1
    assert max(steps) - min(steps) <= 1, "they are spread evenly"
