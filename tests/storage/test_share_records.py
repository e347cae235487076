"""Kafka and Muster read each other's records of share groups: recordings of both, and of Kafka's own tool on each."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

from coordinator.core.share_state.values import StateKey
from pipeline.dump import dump, form_of
from pipeline.history.shares import ArchivedRange, ShareHistory
from storage.real_files import RealFiles
from tests.pipeline.group_logs import read_rows
from tests.server.in_memory import DATA_DIR, InMemory
from tests.storage.record_share import DECODERS, GROUP, LOG, OFFSETS_LOG, RECORDING

SEGMENT = "00000000000000000000.log"
BROKERS = ["kafka", "muster"]
_RECORD = re.compile(r"\| offset: .* key: (\{.*?\}\}) payload: (.*)")
_OWN = re.compile(r'"(topicId|createTimestamp|writeTimestamp)":("[^"]*"|\d+)')


def lines(name: str, log: str) -> list[str]:
    """What Kafka's tool printed."""
    return (RECORDING / name / f"{log}.txt").read_text().splitlines()


def state_of(name: str) -> tuple[StateKey, dict[str, Any]]:
    """What the broker said of the state that is left, and whose it is."""
    answer = json.loads((RECORDING / name / "state.json").read_text())
    (partition,) = answer["partitions"]
    return StateKey(GROUP, msgspec.convert(answer["topic_id"], bytes), 0), partition


def test_both_brokers_write_the_same_records() -> None:
    facts = {
        name: [
            _OWN.sub(r'"\1":0', "".join(match.groups())) for line in lines(name, LOG) if (match := _RECORD.match(line))
        ]
        for name in BROKERS
    }
    assert facts["muster"] == facts["kafka"]
    assert len(facts["kafka"]) == 12


@pytest.mark.parametrize("log", DECODERS)
@pytest.mark.parametrize("name", BROKERS)
def test_our_tool_prints_what_kafkas_prints(name: str, log: str) -> None:
    segment = (RECORDING / name / log / SEGMENT).read_bytes()
    assert list(dump(SEGMENT, segment, form_of(log.rpartition("-")[0]))) == lines(name, log)


@pytest.mark.parametrize("name", BROKERS)
def test_a_copy_of_the_log_has_the_states_as_they_were(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for log in (LOG, OFFSETS_LOG):
        shutil.copytree(RECORDING / name / log, tmp_path / DATA_DIR / log)
    server = InMemory(RealFiles(), offsets_topic_num_partitions=1, share_coordinator_state_topic_num_partitions=1)
    key, said = state_of(name)
    states = dict(server.node.engine.share_states.states())
    assert states.keys() == {key}, "the state of the group that was deleted is gone"
    state = states[key]
    assert (state.state_epoch, state.start_offset) == (said["state_epoch"], said["start_offset"])
    assert [msgspec.to_builtins(batch) for batch in state.batches] == said["state_batches"]


@pytest.mark.parametrize("name", BROKERS)
def test_the_tables_have_what_the_broker_said(name: str) -> None:
    key, said = state_of(name)
    rows = [row for row in read_rows(RECORDING / name, "share_records") if row["group"] == GROUP]
    history = ShareHistory(GROUP, key.topic_id.hex(), 0)
    archived = [one for row in rows for one in history.apply(row)]
    state, deliveries = history.end()
    assert state is not None
    names = {0: "available", 2: "acknowledged", 4: "archived"}
    assert [(one.first_offset, one.last_offset, one.state, one.delivery_count) for one in deliveries] == [
        (one["first_offset"], one["last_offset"], names[one["delivery_state"]], one["delivery_count"])
        for one in said["state_batches"]
    ]
    assert (state.state_epoch, state.start_offset) == (said["state_epoch"], said["start_offset"])
    assert (state.available, state.acknowledged, state.archived) == (1, 9, 5)
    assert [_range(one) for one in archived] == [(4, 4, 1), (9, 9, 1), (11, 12, 2), (13, 13, 1), (5, 5, 2)]


def _range(one: ArchivedRange) -> tuple[int, int, int]:
    return one.first_offset, one.last_offset, one.delivery_count
