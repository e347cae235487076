"""Topics are created, grown and deleted, or refused with Kafka's errors."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.catalog.catalog import FORMATTED, Catalog
from coordinator.core.catalog.names import reason_invalid
from coordinator.core.catalog.records import (
    CatalogRecord,
    ConfigKey,
    ConfigValue,
    LogKey,
    LogValue,
    TopicKey,
    TopicValue,
    decode,
    encode,
)
from coordinator.core.catalog.settings import Settings
from coordinator.core.pace import UNITS
from coordinator.core.result import Call
from protocol.errors import ErrorCode, ProtocolError
from protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsRequestTopic
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.create_topics import CreateTopicsRequestCreatableReplicaAssignment as Assignment
from protocol.messages.create_topics import CreateTopicsRequestCreatableTopic as New
from protocol.messages.create_topics import CreateTopicsRequestCreatableTopicConfig as Setting
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequestDeleteTopicState as Named
from storage.names import partition_directory
from tests.core.decide import decide_all

OFFSETS = "__consumer_offsets"
_ids = iter(range(1, 10**9))
CALL = Call(1, 5_000, 7, "c", "/h", lambda: f"00000000-0000-4000-8000-{next(_ids):012x}")


def ask(catalog: Catalog, request: Any) -> Any:
    """Decide, and make it true by way of the bytes that the log would keep."""
    for outcome in decide_all("catalog", catalog, request, CALL):
        for record in outcome.records:
            catalog.replay(decode(*encode(record)))
    return outcome.response


def create(catalog: Catalog, *topics: New, **fields: Any) -> dict[str, ErrorCode]:
    return {one.name: ErrorCode(one.error_code) for one in ask(catalog, CreateTopicsRequest(topics, **fields)).topics}


@pytest.fixture
def catalog() -> Catalog:
    catalog = Catalog(Settings(num_partitions=4))
    create(catalog, New("t", 2, 1))
    return catalog


def topic_on(*replicas: tuple[int, ...], copies: int = -1) -> New:
    return New("x", -1, copies, tuple(Assignment(index, ids) for index, ids in enumerate(replicas)))


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (topic_on((0,), copies=1), ErrorCode.INVALID_REQUEST),
        (topic_on((0,), ()), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (topic_on((0, 0)), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (New("__muster_catalog", 1, 1), ErrorCode.INVALID_REQUEST),
        (New("a.b", 1, 1), ErrorCode.INVALID_TOPIC_EXCEPTION),  # collides with a_b
        (New("x", 10_001, 1), ErrorCode.POLICY_VIOLATION),
        (New("x", 1, 1, configs=(Setting("retention.ms", "-2"),)), ErrorCode.INVALID_CONFIG),
        (New("x", 1, 1, configs=(Setting("retention.ms", "1_000"),)), ErrorCode.INVALID_CONFIG),
        (New("x", 1, 1, configs=(Setting("cleanup.policy", "burn"),)), ErrorCode.INVALID_CONFIG),
        (New("x", 1, 3), ErrorCode.NONE),  # more copies than brokers: a set-up written for three runs here
    ],
)
def test_what_cannot_be_created(catalog: Catalog, topic: New, error: ErrorCode) -> None:
    """Beside what the stories show."""
    create(catalog, New("a_b", 1, 1))
    before = dict(catalog.topics_by_name)
    assert create(catalog, topic) == {topic.name: error}
    assert (catalog.topics_by_name == before) == (error != ErrorCode.NONE)


def test_there_is_room_for_so_many_partitions() -> None:
    catalog = Catalog(Settings(partitions_max=10))
    assert create(catalog, New("a", 6, 1), New("b", 6, 1), New("c", 4, 1)) == {
        "a": 0,
        "b": ErrorCode.POLICY_VIOLATION,
        "c": 0,
    }
    assert grow(catalog, "a", 7) == ErrorCode.POLICY_VIOLATION
    ask(catalog, DeleteTopicsRequest((Named("c"),)))
    assert grow(catalog, "a", 7) == ErrorCode.NONE


def test_a_refusal_says_why_in_words() -> None:
    """Where no story shows it."""
    catalog = Catalog(Settings(partitions_max=20_000))
    create(catalog, New("t", 2, 1))
    catalog.replay(CatalogRecord(TopicKey(OFFSETS), TopicValue(b"o" * 16, 50, 1, 5)))
    created = ask(catalog, CreateTopicsRequest((New("a", 10_000, 1), New("b", 1, 1), New("c", 10_001, 1))))
    excessive = "Excessively large number of partitions per request."
    assert [one.error_message for one in created.topics] == [excessive] * 3
    created = ask(catalog, CreateTopicsRequest((New("a", 10_000, 1),)))
    created = ask(catalog, CreateTopicsRequest((New("b", 9_949, 1),)))
    assert created.topics[0].error_message == "There is room for 9948 more partitions here."
    grown = tuple(CreatePartitionsRequestTopic(name, count, None) for name, count in (("t", 9_951), (OFFSETS, 51)))
    assert [one.error_message for one in ask(catalog, CreatePartitionsRequest(grown)).results] == [
        "Excessively large number of partitions.",
        "The internal topic __consumer_offsets cannot grow.",
    ]
    topic_id = catalog.topics["t"].id
    named = (Named("t", topic_id), Named(None), Named(None, topic_id), Named(None, topic_id), Named(OFFSETS))
    assert [one.error_message for one in ask(catalog, DeleteTopicsRequest(named)).responses] == [
        "You may not specify both topic name and topic id.",
        "Neither topic name nor id were specified.",
        "Duplicate topic id.",
        "The internal topic __consumer_offsets cannot be deleted.",
    ]


def grow(catalog: Catalog, name: str, count: int) -> ErrorCode:
    request = CreatePartitionsRequest((CreatePartitionsRequestTopic(name, count, None),))
    return ErrorCode(ask(catalog, request).results[0].error_code)


def test_topics_that_grow_in_one_request_share_the_room() -> None:
    catalog = Catalog(Settings(partitions_max=10))
    create(catalog, New("a", 4, 1), New("b", 2, 1))
    topics = tuple(CreatePartitionsRequestTopic(name, count, None) for name, count in (("a", 7), ("b", 4), ("b2", 3)))
    errors = [ErrorCode(one.error_code) for one in ask(catalog, CreatePartitionsRequest(topics)).results]
    assert errors == [ErrorCode.NONE, ErrorCode.POLICY_VIOLATION, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert catalog.partitions == 9


def test_a_topic_that_is_made_anew_meanwhile_is_not_the_one_with_the_id_that_is_deleted(catalog: Catalog) -> None:
    old = catalog.topics_by_name["t"].id
    others = [Named(None, number.to_bytes(16, "big")) for number in range(1, 2 * UNITS)]
    request = DeleteTopicsRequest((Named(None, old), *others))
    steps = iter(decide_all("catalog", catalog, request, CALL))
    next(steps)  # it has been found
    ask(catalog, DeleteTopicsRequest(topic_names=("t",)))
    create(catalog, New("t", 3, 1))
    *_, last = steps
    deleted = last.response.responses[0]
    assert (deleted.name, deleted.topic_id, deleted.error_code) == ("t", old, ErrorCode.NONE), "it has gone"
    assert catalog.topics_by_name["t"].partitions == 3 and not last.records


def test_a_topic_is_deleted_with_its_settings(catalog: Catalog) -> None:
    create(catalog, New("new", 1, 1, configs=(Setting("retention.ms", "5"),)))
    ask(catalog, DeleteTopicsRequest((Named("new"),)))
    assert (set(catalog.topics_by_name), catalog.configs) == ({"t"}, FORMATTED)


@given(st.text(max_size=300))
def test_what_may_name_a_topic_may_name_a_directory(name: str) -> None:
    if reason_invalid(name) is None:
        assert "/" not in partition_directory(name, 0)
        assert partition_directory(name, 0) not in (".", "..")


RECORDS = st.one_of(
    st.builds(
        lambda name, life, partitions: CatalogRecord(
            TopicKey(name), TopicValue((name + life).ljust(16, "-").encode(), partitions, 1, 5)
        ),
        st.sampled_from("abc"),
        st.sampled_from("-2"),
        st.integers(1, 9),
    ),
    st.builds(lambda name: CatalogRecord(TopicKey(name), None), st.sampled_from("abc")),
    st.builds(
        lambda name, value: CatalogRecord(ConfigKey(2, name, "retention.ms"), value),
        st.sampled_from("abc"),
        st.one_of(st.none(), st.builds(ConfigValue, st.sampled_from(["1", "2"]))),
    ),
    st.builds(
        lambda name, partition, value: CatalogRecord(LogKey(name, partition), value),
        st.sampled_from("abc"),
        st.integers(0, 1),
        st.one_of(st.none(), st.builds(lambda name: LogValue(name.ljust(16, "-").encode()), st.sampled_from("abc"))),
    ),
)


def named_and_gone(records: list[CatalogRecord]) -> set[tuple[str, bytes]]:
    """The names and ids of topics that a later record has ended, or put another one in the place of."""
    gone, now = set(), dict[str, bytes]()
    for record in records:
        if isinstance(record.key, TopicKey):
            name, after = record.key.name, record.value and record.value.id
            if name in now and now[name] != after:
                gone.add((name, now.pop(name)))
            if after is not None:
                now[name] = after
    return gone


@given(st.lists(RECORDS))
def test_the_latest_fact_of_each_key_is_all_there_is_to_it(records: list[CatalogRecord]) -> None:
    """So the log may be compacted, and a catalog read back from it is the one that wrote it.

    Topics that are no more are those that the log mentions, and a written partition is one of the topic of that id.
    """
    whole, compacted = Catalog(), Catalog()
    for record in records:
        whole.replay(decode(*encode(record)))
    latest = {record.key: record for record in records}
    for record in records:
        if latest[record.key] is record:
            compacted.replay(record)
    assert (whole.topics_by_name, whole.configs, whole.partitions) == (
        compacted.topics_by_name,
        compacted.configs,
        compacted.partitions,
    )
    assert {**whole.topics} == {**compacted.topics}
    topics = {name: one.value for name, one in ((one.key.name, one) for one in records if type(one.key) is TopicKey)}
    ids = {name: one.id for name, one in topics.items() if one is not None}
    logs = {one.key: one.value for one in records if type(one.key) is LogKey}
    written = [
        (key.topic, key.partition)
        for key, one in logs.items()
        if one is not None and one.topic_id == ids.get(key.topic)
    ]
    assert whole.missing_logs(()) == compacted.missing_logs(()) == sorted(written)
    assert {(name, each) for name, of in whole.gone.items() for each in of} == named_and_gone(records)


def test_bytes_that_are_no_fact_are_refused() -> None:
    for key, value, reason in (
        (None, b"", "a catalog record without a key"),
        (b"\0", None, "a catalog record without a key"),
        (b"\0\x63x", None, "a catalog record of the unknown kind 99"),
        (b"\0\0\0\x01t", b"\0\x01", "a catalog value in a layout of another version: 0001"),
        (b"\0\0\0\x09t", None, "TopicKey cannot be read from 0000000974: .+"),
    ):
        with pytest.raises(ProtocolError, match=f"^{reason}"):
            decode(key, value)


@pytest.mark.rule("K-090")
def test_only_a_new_topic_makes_patterns_stale() -> None:
    """What deletes or grows a topic brings no name that a pattern could match."""
    catalog = Catalog(Settings())
    create(catalog, New("t", 1, 1), New("u", 1, 1))
    created = catalog.topics.created_version
    ask(catalog, CreatePartitionsRequest((CreatePartitionsRequestTopic("t", 3, None),)))
    ask(catalog, DeleteTopicsRequest((Named("u"),)))
    assert catalog.topics.version > created == catalog.topics.created_version
    create(catalog, New("u", 1, 1))
    assert catalog.topics.created_version == catalog.topics.version
