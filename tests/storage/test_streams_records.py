"""Kafka and Muster read each other's records of streams groups: recordings of both, and of Kafka's own tool on each."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pipeline.dump import dump
from protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from storage.real_files import RealFiles
from tests.server.in_memory import DATA_DIR, InMemory
from tests.storage.record_streams import GROUPS_MADE, LOG, RECORDING

SEGMENT = f"{LOG}/00000000000000000000.log"
TYPES = {17, 19, 20, 21, 22, 23}
_RECORD = re.compile(r"\| offset: .* key: (\{.*?\}\}) payload: (.*)")
_OWN = re.compile(r'"(assignmentTimestamp|metadataHash)":-?\d+')


def lines(name: str) -> list[str]:
    """What Kafka's tool printed."""
    return (RECORDING / name / "dump.txt").read_text().splitlines()


def facts(name: str) -> list[tuple[Any, Any]]:
    """Keys and values of the records of streams groups, without times and what follows from the ids of topics."""
    found = []
    for line in lines(name):
        if match := _RECORD.match(line):
            key, payload = (_OWN.sub(r'"\1":0', part) for part in match.groups())
            if int(json.loads(key)["type"]) in TYPES:
                found.append((json.loads(key), payload if payload.startswith("<") else json.loads(payload)))
    return found


def test_both_brokers_write_the_same_records() -> None:
    assert facts("muster") == facts("kafka")
    assert {int(key["type"]) for key, _ in facts("kafka")} == TYPES


@pytest.mark.parametrize("name", ["kafka", "muster"])
def test_our_tool_prints_what_kafkas_prints(name: str) -> None:
    printed = dump(SEGMENT.rpartition("/")[2], (RECORDING / name / SEGMENT).read_bytes())
    assert [_read(line) for line in printed] == [_read(line) for line in lines(name)]


def _read(line: str) -> Any:
    """A line with its JSON read: the order of names does not count, nor whether a tagged field that is null is shown."""
    match = re.match(r"(.*) key: (\{.*?\}\}) payload: (\{.*)$", line)
    if not match:
        return line
    payload = json.loads(match[3])
    if payload["data"].get("classicMemberMetadata", "") is None:
        del payload["data"]["classicMemberMetadata"]
    return match[1], json.loads(match[2]), payload


@pytest.mark.parametrize("name", ["kafka", "muster"])
def test_a_copy_of_the_log_has_the_groups_as_they_were(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but the sizes of topics, which the copy does not have."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(RECORDING / name / LOG, tmp_path / DATA_DIR / LOG)
    server = InMemory(RealFiles(), offsets_topic_num_partitions=1)
    answer = server.connect().ask(StreamsGroupDescribeRequest(GROUPS_MADE), 0)
    found = json.loads(msgspec.json.encode(answer.groups))
    expected = json.loads((RECORDING / name / "described.json").read_text())
    assert [_without_sizes(group) for group in found] == [_without_sizes(group) for group in expected]
    assert [len(group["members"]) for group in found] == [0, 0, 2, 1]


def _without_sizes(group: dict[str, Any]) -> dict[str, Any]:
    group["members"].sort(key=lambda member: member["member_id"])
    for part in (group["topology"] or {}).get("subtopologies") or ():
        for topic in (*part["repartition_source_topics"], *part["state_changelog_topics"]):
            topic["partitions"] = 0
    return group
