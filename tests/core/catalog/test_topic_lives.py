"""Lives of topics at random, beside a model: who may be created, grown and deleted, what is left, and in which steps."""

from collections import Counter
from collections.abc import Collection
from itertools import count
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from coordinator.core.catalog import create_partitions, create_topics, delete_topics
from coordinator.core.catalog.catalog import FORMATTED, TOPIC, Catalog
from coordinator.core.catalog.records import CatalogRecord, TopicKey, decode, encode
from coordinator.core.catalog.settings import Settings
from coordinator.core.prices import Kind, weigh_record
from coordinator.core.result import Call
from protocol.errors import ErrorCode
from protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsRequestAssignment,
    CreatePartitionsRequestTopic,
)
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.create_topics import CreateTopicsRequestCreatableTopic as New
from protocol.messages.create_topics import CreateTopicsRequestCreatableTopicConfig as Setting
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequestDeleteTopicState as Named
from tests.core.decide import decide_all

ROOM, STEP, ASKED_MAX, DEFAULT = 10, 2, 7, 3
NAMES = ("a", "b.b", "b_b", "c", "d")


def draw_step(dice: Random) -> tuple[str, list[Any], bool]:
    """Draw what is asked next, and whether it is only to be validated."""
    what = dice.choice(("create", "auto_create", "grow", "delete", "write"))
    asked: list[Any] = []
    for _ in range(dice.randint(1, 5)):
        name, size = dice.choice(NAMES), dice.choice((1, 1, 2, 4))
        match what:
            case "create":
                size = dice.choice((size, size, size, -1, 0, -2))
                asked.append((name, size, dice.choice((None, None, "5"))))
            case "grow":
                size = dice.choice((size, size, 9))
                placed = dice.choice(([(0,)], [(0,), (0,)], [(0, 0)], [()], [(7,)]))
                asked.append((name, size + 1, dice.choice((None, None, placed))))
            case "delete":
                asked.append((name, dice.random() < 0.5))
            case "write":
                asked.append((name, size - 1))
            case _:
                asked.append(name)
    return what, asked, dice.random() < 0.2


class Lives:
    """A catalog, and what is known of it: partitions, own settings and written partitions of each topic."""

    def __init__(self, held_max: int) -> None:
        """`held_max` is how many bytes of memory topics may take."""
        self.held_max = held_max
        limits = Settings(num_partitions=DEFAULT, partitions_max=ROOM, held_max={Kind.TOPICS: held_max})
        self.catalog = Catalog(limits)
        self.topics: dict[str, int] = {}
        self.retention: dict[str, str] = {}
        self.written: set[tuple[str, int]] = set()
        self.ids: dict[str, set[bytes]] = {name: set() for name in NAMES}  # of those that are no more
        self.log: list[CatalogRecord] = []
        number = count(1)
        self.call = Call(1, 5_000, 7, "c", "/h", lambda: f"00000000-0000-4000-8000-{next(number):012x}")

    def take(self, records: tuple[CatalogRecord, ...]) -> None:
        for record in records:
            self.log.append(decode(*encode(record)))
            self.catalog.replay(self.log[-1])

    def ask(self, request: Any) -> Any:
        written: list[str] = []
        for result in decide_all("catalog", self.catalog, request, self.call):
            names = [record.key.name for record in result.records if isinstance(record.key, TopicKey)]
            if isinstance(request, DeleteTopicsRequest):
                assert sum(self.topics[name] for name in names[:-1]) < STEP
            else:
                assert len(names) <= STEP
            written += names
            assert len(set(written)) == len(written), "a topic is written once"
            self.take(result.records)
            assert self.catalog.held.bytes[Kind.TOPICS] <= self.held_max
        return result.response

    def price(self, name: str, partitions: int, retention: str | None) -> int:
        """What a topic takes in memory."""
        facts = create_topics._facts(self.catalog, New(name, partitions, 1, (), own(retention)), lambda: "0" * 32, 1)
        return sum(map(weigh_record, facts))

    def refusal(self, name: str, partitions: int, held: int, before: Collection[str]) -> ErrorCode:
        """`before` has the topics that there were before the step: those of one step may collide."""
        if name in self.topics:
            return ErrorCode.TOPIC_ALREADY_EXISTS
        if metric(name) in map(metric, before):
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        if partitions < 1:
            return ErrorCode.INVALID_PARTITIONS
        no_room = partitions > ROOM - sum(self.topics.values()) or held > self.held_max
        return ErrorCode.POLICY_VIOLATION if no_room else ErrorCode.NONE

    def create(self, asked: list[tuple[str, int, str | None]], validate_only: bool) -> None:
        asked = asked[:STEP] if validate_only else asked
        sizes = [(name, DEFAULT if size == -1 else size, retention) for name, size, retention in asked]
        times, before = Counter(name for name, _, _ in asked), (dict(self.topics), dict(self.retention))
        if {"b.b", "b_b"} <= times.keys() and len(asked) > STEP:  # which of them a step has is no matter of a model
            return
        once = [one for one in sizes if times[one[0]] == 1]
        expected = {name: ErrorCode.INVALID_REQUEST for name in times if times[name] > 1}
        held = self.catalog.held.bytes[Kind.TOPICS]
        for name, size, retention in once:
            held += (price := self.price(name, size, retention))
            expected[name] = self.refusal(name, size, held, before[0])
            if sum(max(size, 0) for _, size, _ in once) > ASKED_MAX:
                expected[name] = ErrorCode.POLICY_VIOLATION
            if expected[name]:
                held -= price
            else:
                self.topics[name] = size
                self.retention.update({name: retention} if retention else {})
        topics = tuple(New(name, size, 1, (), own(retention)) for name, size, retention in asked)
        response = self.ask(CreateTopicsRequest(topics, validate_only=validate_only))
        assert {one.name: ErrorCode(one.error_code) for one in response.topics} == expected
        if validate_only:
            self.topics, self.retention = before

    def auto_create(self, names: list[str], is_limited: bool) -> None:
        """Of a client whose quota `is_limited` one topic is created: those that cannot be take no token."""
        names, before = list(dict.fromkeys(names)), dict(self.topics)
        held, taken = self.catalog.held.bytes[Kind.TOPICS], list[int]()

        def take_tokens(partitions: int) -> bool:
            taken.append(partitions)
            return not is_limited or len(taken) == 1

        self.take(create_topics.auto_create(self.catalog, names, self.call, take_tokens))
        for name in names:
            price = self.price(name, DEFAULT, None)
            has_tokens = not is_limited or self.topics.keys() == before.keys()
            if not self.refusal(name, DEFAULT, held + price, before) and has_tokens:
                self.topics[name], held = DEFAULT, held + price
        assert taken[: len(self.topics) - len(before)] == [DEFAULT] * (len(self.topics) - len(before))

    def grow(self, asked: list[tuple[str, int, list[tuple[int, ...]] | None]], validate_only: bool) -> None:
        times, sizes, expected = Counter(name for name, _, _ in asked), dict(self.topics), {}
        for name, size, placed in asked:
            more, room = size - sizes.get(name, 0), ROOM - sum(sizes.values())
            if times[name] > 1:
                expected[name] = ErrorCode.INVALID_REQUEST
            elif name not in sizes:
                expected[name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif more <= 0:
                expected[name] = ErrorCode.INVALID_PARTITIONS
            elif placed is not None and placed != [(0,)] * more:
                expected[name] = ErrorCode.INVALID_REPLICA_ASSIGNMENT
            elif more > min(room, ASKED_MAX):
                expected[name] = ErrorCode.POLICY_VIOLATION
            else:
                expected[name], sizes[name] = ErrorCode.NONE, size
        topics = [
            CreatePartitionsRequestTopic(name, size, placed and tuple(map(CreatePartitionsRequestAssignment, placed)))
            for name, size, placed in asked
        ]
        response = self.ask(CreatePartitionsRequest(tuple(topics), validate_only=validate_only))
        assert {one.name: ErrorCode(one.error_code) for one in response.results} == expected
        self.topics = self.topics if validate_only else sizes

    def delete(self, asked: list[tuple[str, bool]], _: bool) -> None:
        """Some by their ids. One that is named twice in one way is not deleted, and one that is in two ways once."""
        ids = {name: self.catalog.topics.id_of(name) for name in NAMES}
        asked = [(name, by_id and name in self.topics) for name, by_id in asked]
        named = [Named(None, ids[name]) if by_id else Named(name) for name, by_id in asked]
        response = self.ask(DeleteTopicsRequest(tuple(named)))
        errors = Counter((one.name, one.topic_id, one.error_code) for one in response.responses)
        expected: Counter[Any] = Counter()
        for (name, by_id), times in Counter(asked).items():
            if times > 1:
                wrong = (None, ids[name]) if by_id else (name, bytes(16))
                expected[*wrong, ErrorCode.INVALID_REQUEST] += 1
            elif name not in ids or ids[name] == bytes(16):
                expected[name, bytes(16), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] += 1
            else:
                expected[name, ids[name], ErrorCode.NONE] += 1
                self.topics.pop(name, None)
                self.retention.pop(name, None)
                self.ids[name].add(ids[name])
                self.written = {one for one in self.written if one[0] != name}
        assert errors == expected

    def write(self, asked: list[tuple[str, int]], _: bool) -> None:
        wanted = [(name, partition) for name, partition in asked if partition < self.topics.get(name, 0)]
        records = self.catalog.logs_of(dict.fromkeys(wanted))
        assert [(one.key.topic, one.key.partition) for one in records] == [
            one for one in dict.fromkeys(wanted) if one not in self.written
        ]
        self.take(records)
        self.written.update(wanted)

    def compare(self, catalog: Catalog) -> None:
        assert {name: one.partitions for name, one in catalog.topics_by_name.items()} == self.topics
        assert {name: one.partitions for name, one in catalog.topics.items()} == self.topics
        assert catalog.partitions == sum(self.topics.values())
        kept = {(TOPIC, name): {"retention.ms": text} for name, text in self.retention.items()}
        assert catalog.configs == {**FORMATTED, **kept}
        for name in self.topics:
            assert catalog.settings_of(name).retention_ms == int(self.retention.get(name, "604800000"))
        assert catalog._governing.keys() == self.topics.keys()
        assert catalog.missing_logs(()) == sorted(self.written)
        assert {(topic, one) for topic, of in catalog.logs.items() for one in of} == self.written


def metric(name: str) -> str:
    return name.replace(".", "_")


def own(retention: str | None) -> tuple[Setting, ...]:
    return () if retention is None else (Setting("retention.ms", retention),)


@pytest.mark.parametrize("seed", range(60))
def test_topics_are_as_a_model_has_them(seed: int) -> None:
    """What a request creates, grows and deletes, in steps of few topics; the log tells the same, compacted as well."""
    lives, dice = Lives((4_000, 6_000, 1_000_000)[seed % 3]), Random(seed)
    with (
        patch.object(create_topics, "STEP_ENTRIES", STEP),
        patch.object(create_topics, "PARTITIONS_PER_REQUEST_MAX", ASKED_MAX),
        patch.object(create_partitions, "STEP_ENTRIES", STEP),
        patch.object(create_partitions, "PARTITIONS_PER_REQUEST_MAX", ASKED_MAX),
        patch.object(delete_topics, "STEP_ENTRIES", STEP),
    ):
        for what, asked, validate_only in (draw_step(dice) for _ in range(30)):
            known, created = lives.catalog.topics, lives.catalog.topics.created_version
            getattr(lives, what)(asked, validate_only)
            lives.compare(lives.catalog)
            topics = lives.catalog.topics
            is_new = any(topics.id_of(name) not in (bytes(16), known.id_of(name)) for name in NAMES)
            assert is_new == (topics.created_version > created) and topics.created_version <= topics.version
            assert {name: ids for name, ids in lives.catalog.gone.items() if ids} == {
                name: ids for name, ids in lives.ids.items() if ids
            }
            assert lives.catalog.deleted_topics == {
                name for name in lives.ids if lives.ids[name] and name not in lives.topics
            }
    latest = {record.key: record for record in lives.log}
    again, compacted = Catalog(lives.catalog.settings), Catalog(lives.catalog.settings)
    for record in lives.log:
        again.replay(record)
        if latest[record.key] is record:
            compacted.replay(record)
    for catalog in (again, compacted):
        lives.compare(catalog)
        assert catalog.held.bytes == lives.catalog.held.bytes
    assert again.gone == lives.catalog.gone
