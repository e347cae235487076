"""A real broker's log gives what the broker's own tools gave of it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from coordinator.core import records
from coordinator.core.record_schemas import BY_KEY
from pipeline.decode import replay
from pipeline.decode.latest import latest
from pipeline.decode.layout import log_dirs, spans
from pipeline.decode.rows import Options, read_table
from pipeline.dump import dump, to_json
from tests.pipeline.real_kafka import DATA, STATES


def reported(state: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DATA / f"{state}.json").read_text())
    return found


def offsets(state: str) -> dict[tuple[str, str, int], tuple[int, str]]:
    return {
        (group, *_split(partition)): (value["offset"], value["metadata"])
        for group, told in reported(state).items()
        for partition, value in told["offsets"].items()
    }


def _said(offset: int | None, metadata: str | None) -> tuple[int | None, str]:
    """librdkafka writes a NUL behind its metadata, and hides it again when it reads."""
    return offset, (metadata or "").removesuffix("\0")


def _split(partition: str) -> tuple[str, int]:
    topic, _, number = partition.rpartition("-")
    return topic, int(number)


@pytest.mark.parametrize("state", STATES)
def test_latest_offsets_are_what_the_broker_said(state: str) -> None:
    rows = [row for log in log_dirs([str(DATA / state)]) for row in latest(spans(log), Options()).to_pylist()]
    got = {
        (row["group"], row["topic"], row["partition"]): _said(row["committed_offset"], row["metadata"]) for row in rows
    }
    assert got == offsets(state)
    sequential = {}
    for log in log_dirs([str(DATA / state)]):
        found = replay.replay(replay.read(log), replay.State(offsets={}, pending={}, group_records={})).offsets
        sequential |= {key: _said(value.offset, value.metadata) for key, (_, value) in found.items()}
    assert sequential == offsets(state)


@pytest.mark.parametrize("state", STATES)
def test_the_log_of_a_broker_has_no_problems(state: str) -> None:
    cut = [span for log in log_dirs([str(DATA / state)]) for span in spans(log)]
    problems = read_table(cut, "log_problems").to_pylist()
    assert {p["severity"] for p in problems} <= {"info"}
    assert {p["kind"] for p in problems} == (set() if state == "live" else {"gap"})
    assert read_table(cut, "unknown_records").to_pylist() == []
    records = read_table(cut, "group_records").to_pylist()
    assert {row["key_version"] for row in records} >= {10, 11, 12, 13, 14, 15}, "those of the share group"


def lines(path: Path) -> list[str]:
    found: list[str] = []
    for log in sorted(path.glob("__consumer_offsets-*/*.log")):
        found += dump(f"tests/storage/data/kafka-4.3.1/{log.relative_to(DATA)}", log.read_bytes())
    return found


def parsed(line: str) -> Any:
    """A line with its JSON read, so that the order of names does not count."""
    match = re.match(r"(.*) key: (\{.*\}) payload: (.*)$", line)
    if not match:
        return line
    payload = match[3] if match[3].startswith("<") else json.loads(match[3])
    return match[1], json.loads(match[2]), payload


@pytest.mark.parametrize("state", STATES)
def test_dump_prints_what_kafka_prints(state: str) -> None:
    theirs = (DATA / f"{state}.dump.txt").read_text().splitlines()
    mine = lines(DATA / state)
    assert len(mine) == len(theirs)
    compared = 0
    for own, line in zip(mine, theirs, strict=True):
        assert parsed(own) == parsed(line)
        compared += 1
    assert compared > 100


def test_bytes_are_no_id_because_there_are_sixteen_of_them() -> None:
    member = records.GroupMetadataValueMember(member_id="m", subscription=b"\xff" * 16)
    value = records.GroupMetadataValue(members=(member,))
    (found,) = to_json(BY_KEY[records.GroupMetadataKey].value, value, 3)["members"]
    assert found["subscription"] == "/////////////////////w=="
