"""Topics whose settings have the least or the greatest value that is allowed, and records of any time: they are served,
retained, compacted and opened again, and what is there stays what it was."""

import copy
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from coordinator.config import Config
from coordinator.core.catalog.topic_configs import BOOLEAN, INT, INT_MAX, LONG, LONG_MAX, TOPIC_CONFIGS, TopicConfig
from coordinator.dataplane.settings import own_log_config
from coordinator.runtime.janitor import Janitor
from protocol import record_batch
from protocol.compression import Meter
from protocol.errors import ErrorCode
from protocol.records import Record
from protocol.schema import Message
from storage import cleaner
from tests.requests import create_topics, fetch, list_offsets, produce
from tests.server.in_memory import WALL_MS, InMemory
from tests.simulation.promises import ErrorLog

POLICIES = ("delete", "compact", "compact,delete")
TIMES = (-1, 0, 1, WALL_MS - 8 * 86_400_000, WALL_MS, 2**62, 2**63 - 1, -(2**63), -(2**63) + 1)
FIRST, LAST, LATEST = -2, -1, -3
SEARCHED = (LATEST, *TIMES[1:7])
PARTITIONS = 3
PAUSES_S = (0.01, 1, 3_600, 86_400, 400 * 86_400)
HEEDED = [config for config in TOPIC_CONFIGS if not config.doc.startswith("Kept")]
NUMBERS = [config for config in HEEDED if config.kind in (INT, LONG)]


def limits(config: TopicConfig) -> tuple[str, str]:
    greatest = INT_MAX if config.kind == INT else LONG_MAX
    least = -greatest - 1 if config.least is None else int(config.least)
    return str(least), str(greatest if config.most is None else int(config.most))


def draw_settings(dice: Random) -> dict[str, str]:
    """Some settings at their limits, in a topic whose segments are short, so that they are compacted and deleted."""
    found = {"cleanup.policy": dice.choice(POLICIES), "segment.ms": "1", "retention.ms": "-1"}
    for config in HEEDED:
        if config.kind == BOOLEAN:
            found[config.name] = dice.choice(("true", "false"))
        elif config.kind not in (INT, LONG) and config.name != "cleanup.policy":
            found[config.name] = dice.choice(config.words or (config.default,))
    chosen = dice.sample(NUMBERS, dice.choice((1, 2, 4)))
    return found | {config.name: dice.choice(limits(config)) for config in chosen}


def draw_batch(dice: Random, now_ms: int) -> bytes:
    """Some records of one time, or of a time that their batch moves beyond 64 bits."""
    time = dice.choice((*TIMES, now_ms - LONG_MAX, now_ms + 3_600_000))  # the last two are what is let in by default
    made = [Record(dice.choice((b"a", b"b")), dice.choice((b"v", None)), timestamp=time) for _ in range(2)]
    if dice.random() < 0.9:
        return record_batch.encode(made[: dice.randint(1, 2)])
    later = record_batch.encode([made[0], replace(made[1], timestamp=time + 1)] if time < LONG_MAX else made)
    header = replace(record_batch.header_at(later), base_timestamp=LONG_MAX, max_timestamp=LONG_MAX)
    return record_batch.seal(header, later[record_batch.HEADER_BYTES :])


class Topic:
    """A server with one topic, and what a client does with it."""

    def __init__(self, settings: dict[str, str]) -> None:
        self.server = InMemory(topics={})
        self.peer = self.server.connect()
        self.janitor = Janitor(self.server.node, WALL_MS, rest_rounds=0)
        self.code = self.ask(create_topics({"t": PARTITIONS}, settings), 7).topics[0].error_code

    def ask(self, request: Message, version: int) -> Any:
        before = len(self.peer.answers)
        self.peer.send((request, version))
        self.server.rest()
        (answer,) = self.peer.answers[before:]
        return answer[1]

    def produce(self, dice: Random) -> None:
        """Send a batch to some partitions at once."""
        parts = dice.sample(range(PARTITIONS), dice.randint(1, PARTITIONS))
        now_ms = self.server.clock.now_ms()
        response = self.ask(produce("t", {part: draw_batch(dice, now_ms) for part in parts}), 9)
        for one in response.responses[0].partition_responses:
            assert one.error_code in (ErrorCode.NONE, ErrorCode.INVALID_TIMESTAMP, ErrorCode.MESSAGE_TOO_LARGE), one

    def look_after_logs(self) -> None:
        for wait in self.janitor.round(self.server.clock.now_ms()):
            if wait is not None:
                wait()
        for log in self.server.node.compacted_logs():  # the janitor waits until there is more
            cleaner.run(log, self.server.clock.now_ms())
        self.server.rest()

    def see(self, part: int) -> tuple[list[Record], list[int]]:
        """What a consumer reads of a partition from the first offset to the last, and the offsets of some times."""
        places = [self.find(part, time) for time in SEARCHED]
        offset = self.find(part, FIRST)
        found: list[Record] = []
        while True:
            answer = self.ask(fetch("t", part, offset), 12).responses[0].partitions[0]
            assert answer.error_code == ErrorCode.NONE
            data, before = answer.records or b"", offset
            for at, header in record_batch.batches(data):
                found += [one for one in record_batch.read(data, at, header, Meter()) if one.offset >= before]
                offset = header.last_offset + 1
            if not data:
                assert offset == self.find(part, LAST)
                return found, places

    def find(self, part: int, time: int) -> int:
        answer = self.ask(list_offsets("t", {part: time}), 7).topics[0].partitions[0]
        assert answer.error_code == ErrorCode.NONE
        return int(answer.offset)

    def start_again(self) -> None:
        """Go on with a server that reads the files as they are."""
        now_ms, files = self.server.clock.now_ms(), copy.deepcopy(self.server.files)
        self.server = InMemory(files, topics={}, wall_ms=now_ms)
        self.peer = self.server.connect()
        self.janitor = Janitor(self.server.node, now_ms, rest_rounds=0)


def play(seed: int) -> bool:
    """Return whether the settings of a seed go together, after the story of a topic that has them."""
    dice = Random(seed)
    settings = draw_settings(dice)
    with ErrorLog() as errors:
        topic = Topic(settings)
        if topic.code:
            assert topic.code == ErrorCode.INVALID_CONFIG
            return False
        for _ in range(12):
            for _ in range(dice.randint(0, 3)):
                topic.produce(dice)
            topic.server.advance(dice.choice(PAUSES_S))
            topic.look_after_logs()
            if dice.random() < 0.3:
                before = [topic.see(part) for part in range(PARTITIONS)]
                topic.start_again()
                assert [topic.see(part) for part in range(PARTITIONS)] == before, (seed, settings)
        errors.check()
        assert not topic.server.node.world.edge.failures
    return True


@pytest.mark.parametrize("first", range(0, 40, 10))
def test_the_limits_of_settings_and_of_times_end_nothing(first: int) -> None:
    assert sum(play(seed) for seed in range(first, first + 10)) >= 4


@pytest.mark.parametrize(
    ("name", "value", "field"),
    [
        ("offsets.topic.segment.bytes", 2_000_000, "segment_bytes"),
        ("log.cleaner.delete.retention.ms", 5, "delete_retention_ms"),
        ("log.cleaner.min.cleanable.ratio", 0.25, "min_cleanable_dirty_ratio"),
        ("offsets.topic.min.dirty.bytes", 7, "compaction_bytes_min"),
    ],
)
def test_the_coordinator_s_own_logs_go_by_its_settings(name: str, value: float, field: str) -> None:
    assert own_log_config(Config({name: value})) == replace(own_log_config(Config()), **{field: value})
