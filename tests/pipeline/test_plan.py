"""Which segments are read: all that may hold a record that is asked for, and few others."""

import struct
from pathlib import Path
from random import Random

import pytest

from coordinator.core import record_types as types
from pipeline.decode.schema import TABLES
from pipeline.errors import UsageError
from pipeline.options import SourceOptions, parse
from pipeline.plan import logs, tasks
from pipeline.synth import Writer, commit, fact
from protocol.java_hash import partition_of

SEGMENTS = 5


def index(path: Path, *entries: tuple[int, int]) -> None:
    """Write a `.timeindex`: times with offsets from the segment's first one."""
    path.write_bytes(b"".join(struct.pack(">qi", *entry) for entry in entries))


@pytest.mark.parametrize("seed", range(25))
def test_a_segment_is_left_out_only_if_all_of_its_records_are_known_to_be_older(seed: int, tmp_path: Path) -> None:
    """An index may be missing, empty, or cut off, and that of the segment that is written to may know only its beginning."""
    dice = Random(seed)
    writer = Writer(tmp_path / "__consumer_offsets-0", segment_bytes=1)  # a segment a batch
    latest: dict[str, int] = {}
    known: dict[str, int | None] = {}
    for _ in range(SEGMENTS):
        times = [1_000 + dice.randrange(100) for _ in range(3)]
        writer.append([commit(("g", "t", at), 1, ms) for at, ms in enumerate(times)])
        path = max(writer.directory.glob("*.log"))
        latest[path.name], timeindex = max(times), path.with_suffix(".timeindex")
        match dice.randrange(5):
            case 0:
                timeindex.unlink(missing_ok=True)
                known[path.name] = None
            case 1:
                index(timeindex)
                known[path.name] = None
            case 2:
                index(timeindex, (min(times), 0), (max(times), 2))
                with timeindex.open("ab") as file:
                    file.write(bytes(5))
                known[path.name] = max(times)
            case _:
                index(timeindex, (min(times), 0), (max(times), 2))
                known[path.name] = max(times)
    active = max(latest)
    if dice.random() < 0.5:
        index((writer.directory / active).with_suffix(".timeindex"), (1, 0))  # from when the server was last stopped
    for since_ms in (None, 1_000, *latest.values(), *(ms + 1 for ms in latest.values()), 2_000):
        options = SourceOptions(str(tmp_path), since_ms=since_ms, split_bytes=dice.choice([1, 300, 1 << 20]))
        read = {Path(span.segment.path).name for task in tasks(options, logs(options)) for span in task.spans}
        assert read == {
            name
            for name in latest
            if since_ms is None or name == active or (newest := known[name]) is None or newest >= since_ms
        }


def test_logs_of_the_topics_are_read_that_the_table_is_made_of(tmp_path: Path) -> None:
    """A table is made of one topic, all of them of both; what the option says counts more."""
    groups, shares = "__consumer_offsets", "__share_group_state"
    for name in (groups, shares):
        Writer(tmp_path / f"{name}-0").append([commit(("g", "t", 0), 1, 1_000)])
    sink = f"parquet:{tmp_path}"
    for given, topics in (
        *(({"table": table}, {groups}) for table in TABLES if table != "share_records"),
        ({"table": "latest_offsets"}, {groups}),
        ({"table": "share_records"}, {shares}),
        ({"sink": sink}, {groups, shares}),
        *(({"topic": topic, "sink": sink}, {topic}) for topic in (groups, shares)),
        *(({"topic": topic, "table": "batches"}, {topic}) for topic in (groups, shares)),
    ):
        assert {log.topic for log in logs(parse({"path": str(tmp_path), **given}))} == topics, given


@pytest.mark.parametrize("number", range(1, 12))
def test_a_number_of_partitions_is_refused_by_which_the_groups_would_be_elsewhere(number: int, tmp_path: Path) -> None:
    """Of a topic of five, of which two logs were copied and one of them is empty; a group may have committed nothing."""
    groups = [f"group-{n}" for n in range(40)]
    home = partition_of(groups[0], 5)
    own = [group for group in groups if partition_of(group, 5) == home]
    writer = Writer(tmp_path / f"__consumer_offsets-{home}")
    writer.append([fact(types.GroupMetadataKey(own[0]), None, 1)])
    writer.append([commit((group, "t", 0), 1, 1_000) for group in own[1:]])
    Writer(tmp_path / f"__consumer_offsets-{(home + 1) % 5}")
    strange = next(f"other-{n}" for n in range(99) if partition_of(f"other-{n}", 5) != home)
    for group in (own[0], strange, ""):
        options = parse({"path": str(tmp_path), "group": group, "num_partitions": str(number)})
        if number == 5:
            found = {log.partition for log in logs(options)}
            assert found == {partition_of(group, 5)} & {home, (home + 1) % 5}
        else:
            with pytest.raises(UsageError, match=f"invalid option num_partitions={number}: "):
                logs(options)
