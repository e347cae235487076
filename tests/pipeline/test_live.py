"""Rebalances from batches as they come are those that the tables have, whatever the batches are cut into."""

from pathlib import Path
from random import Random

import pytest

from pipeline.decode.layout import TOPIC
from pipeline.history.activity import read_histories
from pipeline.history.live import Replay
from pipeline.history.records import Rebalance
from pipeline.history.timeline import UNCERTAIN, as_data, as_line, as_mermaid, describe, summarize
from protocol import record_batch
from protocol.compression import Meter
from tests.pipeline.engine import Engine
from tests.pipeline.group_logs import read_rows
from tests.pipeline.simulated_groups import live

GROUPS = 30


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = Engine(tmp_path_factory.mktemp("live") / f"{TOPIC}-0")
    for number in range(GROUPS):
        live(made, f"group-{number}", Random(1000 + number), 8)
    return made.directory


def batches_of(directory: Path) -> list[bytes]:
    found = []
    for file in sorted(directory.glob("*.log")):
        data = file.read_bytes()
        found += [data[at : at + header.size] for at, header in record_batch.batches(data)]
    return found


def told(one: Rebalance) -> tuple[object, ...]:
    return (
        one.log_offset,
        one.group,
        one.generation,
        tuple(one.causes),
        tuple(one.joined),
        tuple(one.left),
        one.members_after,
    )


@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_the_same_rebalances_as_in_the_tables(directory: Path, size: int) -> None:
    expected = sorted(
        told(row)
        for row in read_histories(*(read_rows(directory, table) for table in ("group_records", "offset_commits")))
        if isinstance(row, Rebalance)
    )
    replay, found, raw = Replay(), list[Rebalance](), batches_of(directory)
    for at in range(0, len(raw), size):
        found += replay.apply(b"".join(raw[at : at + size]))
    found += replay.settle()
    assert len(expected) > 100
    assert sorted(map(told, found)) == expected
    assert replay.unread == 0


def test_the_same_outages_as_in_the_tables(directory: Path) -> None:
    rows = read_histories(*(read_rows(directory, table) for table in ("group_records", "offset_commits")))
    expected = {row.log_offset: row.commit_gap_ms for row in rows if isinstance(row, Rebalance)}
    replay = Replay()
    found = {one.log_offset: one for one in [*replay.apply(b"".join(batches_of(directory))), *replay.settle()]}
    known = {at: one.commit_gap_ms for at, one in found.items() if one.commit_gap_ms is not None}
    assert len(known) > 50
    assert known == {at: expected[at] for at in known}


def test_only_the_wanted_group_is_read(directory: Path) -> None:
    everything, one = Replay(), Replay({"group-3"})
    raw = b"".join(batches_of(directory))
    wanted = [told(row) for row in [*everything.apply(raw), *everything.settle()] if row.group == "group-3"]
    assert [told(row) for row in [*one.apply(raw), *one.settle()]] == wanted
    assert list(one.groups) == ["group-3"]


def test_reading_may_begin_within_a_batch(directory: Path) -> None:
    """What a batch has before the offset is left out, as if it were not there."""
    raw = batches_of(directory)
    read = [record_batch.read(one, 0, record_batch.header_at(one), Meter()) for one in raw]
    several = [at for at, some in enumerate(read) if len(some) > 2 and (some[0].key or b"")[:2] > b"\0\1"]
    assert len(several) > 30, "of groups, and not of their offsets alone"
    for at in several[:: len(several) // 30]:
        rest = read[at][len(read[at]) // 2 :]
        middle = rest[0].offset
        cut = record_batch.encode(rest, base_offset=middle)
        following = b"".join(raw[at + 1 : at + 100])
        began, expected = Replay(), Replay()
        found = [told(row) for row in [*began.apply(raw[at] + following, middle), *began.settle()]]
        assert found == [told(row) for row in [*expected.apply(cut + following), *expected.settle()]]
        assert {name: one.names for name, one in began.groups.items()} == {
            name: one.names for name, one in expected.groups.items()
        }


def test_a_timeline_has_a_line_for_each_rebalance_and_says_what_is_inferred(directory: Path) -> None:
    replay = Replay()
    found = [*replay.apply(b"".join(batches_of(directory))), *replay.settle()]
    for group in sorted({one.group for one in found}):
        own = [one for one in found if one.group == group]
        lines = [as_line(one, replay.name, own[0].at_ms) for one in own]
        assert all(line.endswith(("[inferred]", "[inferred, not certain]")) for line in lines)
        assert all(
            line.endswith("not certain]") == bool(UNCERTAIN.intersection(one.causes))
            for line, one in zip(lines, own, strict=True)
        )
        assert [data["cause"]["detail"] for data in as_data(own, replay.name)] == [
            describe(one, replay.name) for one in own
        ]
        assert as_mermaid(group, own, replay.name).count("Note over G: ") >= len(own)
        assert f"{len(own)} rebalance" in summarize(group, own, replay.name)
