"""The ends that a topic's own log tells, whatever times its producers wrote."""

import os
from pathlib import Path

import pytest

from pipeline.decode.ends import log_ends
from pipeline.synth import Writer
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
