"""What is held, by kind: the same after a restart, nothing when all is gone, and no more than its setting allows."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from coordinator.config import BY_NAME, Config
from coordinator.core import prices
from coordinator.core.catalog import records
from coordinator.core.catalog.catalog import GROUP, TOPIC, Catalog
from coordinator.core.catalog.records import (
    AclKey,
    AclValue,
    CatalogRecord,
    ConfigKey,
    ConfigValue,
    LogKey,
    LogValue,
    ProducerIdKey,
    ProducerIdValue,
    QuotaKey,
    QuotaPart,
    QuotaValue,
    ScramKey,
    ScramValue,
    TopicKey,
    TopicValue,
    TransactionKey,
    TransactionTopic,
    TransactionValue,
)
from coordinator.core.prices import BOUNDED, CATALOG, Held, Kind, Room, weigh_record
from coordinator.dataplane.settings import catalog_settings
from protocol.errors import ErrorCode

TEXT = st.text(max_size=40)
RECORDS: dict[type, Any] = {
    TopicKey: st.builds(CatalogRecord, st.builds(TopicKey, TEXT), st.none() | st.just(TopicValue(bytes(16), 3))),
    ConfigKey: st.builds(
        CatalogRecord,
        st.builds(ConfigKey, st.sampled_from((TOPIC, GROUP)), TEXT, TEXT),
        st.none() | st.builds(ConfigValue, TEXT),
    ),
    ProducerIdKey: st.builds(CatalogRecord, st.just(ProducerIdKey()), st.builds(ProducerIdValue, st.integers(0, 9))),
    TransactionKey: st.builds(
        CatalogRecord,
        st.builds(TransactionKey, TEXT),
        st.none()
        | st.builds(
            TransactionValue,
            state=st.just(0),
            topics=st.tuples(st.builds(TransactionTopic, TEXT, st.lists(st.integers(0, 9)).map(tuple))),
        ),
    ),
    ScramKey: st.builds(
        CatalogRecord,
        st.builds(ScramKey, TEXT, st.just(1)),
        st.none() | st.just(ScramValue(b"s" * 20, b"k", b"k", 4096)),
    ),
    AclKey: st.builds(
        CatalogRecord,
        st.builds(AclKey, st.just(2), TEXT, st.just(3), TEXT, st.just("*"), st.just(3), st.just(3)),
        st.none() | st.just(AclValue(0)),
    ),
    QuotaKey: st.builds(
        CatalogRecord,
        st.builds(QuotaKey, st.tuples(st.builds(QuotaPart, st.just("user"), TEXT)), st.just("producer_byte_rate")),
        st.none() | st.just(QuotaValue(1.0)),
    ),
    LogKey: st.builds(CatalogRecord, st.builds(LogKey, TEXT, st.integers(0, 9)), st.just(LogValue(bytes(16)))),
}
ANY = st.one_of(*RECORDS.values())


def test_each_type_of_record_has_a_price() -> None:
    assert set(CATALOG) == set(RECORDS) == set(records.KEY_TYPES)
    with pytest.raises(AssertionError, match="without a price"):
        prices.check_rows({one: CATALOG[one] for one in CATALOG if one is not AclKey}, records.KEY_TYPES)


def test_each_kind_has_a_setting_and_a_bound() -> None:
    settings = catalog_settings(Config({"acls.max.bytes": 99_999}), (0,))
    assert set(settings.held_max) == {str(kind) for kind in BOUNDED} == {str(kind) for kind in Kind} - {"own"}
    assert all(kind.setting in BY_NAME for kind in BOUNDED)
    assert Catalog(settings).held.bounds[Kind.ACLS] == 99_999


@given(st.lists(ANY, max_size=30))
def test_what_is_held_is_the_latest_record_of_each_key(facts: list[CatalogRecord]) -> None:
    """A server that reads its log holds as much as the one that wrote it, before a compaction and after."""
    held = Held()
    latest: dict[Any, CatalogRecord] = {}
    for fact in facts:
        held.note(fact)
        latest[fact.key] = fact
    compacted = Held()
    for fact in latest.values():
        compacted.note(fact)
    assert held.bytes == compacted.bytes
    expected = dict.fromkeys(Kind, 0)
    for key, fact in latest.items():
        if fact.value is not None:
            expected[CATALOG[type(key)].kind(key)] += weigh_record(fact)
    assert held.bytes == expected
    for key in latest:
        held.forget(key)
    assert held.bytes == dict.fromkeys(Kind, 0)


@given(ANY)
def test_a_record_weighs_more_than_its_bytes(fact: CatalogRecord) -> None:
    if fact.value is not None:
        key, value = records.encode(fact)
        assert weigh_record(fact) >= len(key) + len(value or b"")


def acl(name: str) -> CatalogRecord:
    return CatalogRecord(AclKey(2, name, 3, "User:a", "*", 3, 3), AclValue(0))


def test_there_is_room_up_to_the_bound() -> None:
    size = weigh_record(acl("a"))
    held = Held({Kind.ACLS: 2 * size})
    room = Room(held)
    assert room.take([acl("a")]) is None
    assert room.take([acl("b")]) is None
    full = room.take([acl("c")])
    assert full is not None and full.error == ErrorCode.POLICY_VIOLATION
    assert full.message == f"There is no room for more acls: acls.max.bytes is {2 * size}."
    held.note(acl("a"))
    room.begin_step()
    assert held.refuse(acl("a")) is None, "what is there takes no more"
    assert held.refuse(acl("b")) is None
    assert held.refuse(acl("b"), acl("c")) is not None
    held.note(acl("b"))
    assert held.refuse(replace(acl("a"), value=None)) is None
    assert held.refuse(acl("c")) is not None
    held.note(replace(acl("a"), value=None))
    assert held.refuse(acl("c")) is None
