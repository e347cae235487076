"""What is held, by kind: the same after a restart, nothing when all is gone, and no more than its setting allows."""

from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from coordinator.config import BY_NAME, Config
from coordinator.core import pace, prices
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
from coordinator.core.catalog.settings import Settings
from coordinator.core.prices import BOUNDED, CATALOG, Held, Kind, Room, weigh_record
from coordinator.core.result import Call
from coordinator.dataplane.settings import catalog_settings
from protocol.errors import ErrorCode
from protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterableConfig,
    AlterConfigsRequestResource,
)
from protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequestScramCredentialUpsertion as Upsertion,
)
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestCreatableTopicConfig
from protocol.messages.create_topics import CreateTopicsRequestCreatableTopic as New
from tests.core.decide import decide_all

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


def many_topics(many: int) -> Any:
    settings = (CreateTopicsRequestCreatableTopicConfig("retention.ms", "5"),)
    return CreateTopicsRequest(tuple(New(f"t{number}", 1, 1, (), settings) for number in range(many)))


def many_settings(many: int) -> Any:
    settings = (AlterConfigsRequestAlterableConfig("consumer.session.timeout.ms", "50000"),)
    return AlterConfigsRequest(tuple(AlterConfigsRequestResource(GROUP, f"g{n}", settings) for n in range(many)))


def many_credentials(many: int) -> Any:
    return AlterUserScramCredentialsRequest((), tuple(Upsertion(f"u{n}", 1, 4_096, b"s", b"p") for n in range(many)))


@pytest.mark.parametrize("make", [many_topics, many_settings, many_credentials])
def test_what_steps_have_taken_is_counted_once(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven entries in steps of few: there is room for them if they fit, and of one byte less for six."""
    monkeypatch.setattr("coordinator.core.catalog.create_topics.STEP_ENTRIES", 2)
    monkeypatch.setattr("coordinator.core.catalog.alterations.STEP_ENTRIES", 2)
    monkeypatch.setattr(pace, "UNITS", 10)

    def ask(bounds: dict[str, int]) -> tuple[Catalog, list[int]]:
        catalog, written, ids = Catalog(Settings(held_max=bounds)), list[Any](), count(1)
        call = Call(1, 5_000, 4, "c", "/h", lambda: f"{next(ids):032x}")
        for result in decide_all("catalog", catalog, make(7), call):
            assert len({record.key for record in result.records if not isinstance(record.key, ConfigKey)}) <= 2
            written += [record.key for record in result.records]
            catalog.apply(result.records)
        assert len(set(written)) == len(written), "each is written once"
        response = result.response
        entries = getattr(response, "topics", ()) or getattr(response, "responses", ()) or response.results
        return catalog, [one.error_code for one in entries]

    unbounded, errors = ask({})
    assert errors == [0] * 7
    (kind,) = [kind for kind in Kind if unbounded.held.bytes[kind]]
    size = unbounded.held.bytes[kind]
    assert ask({kind: size})[1] == [0] * 7
    assert ask({kind: size - 1})[1] == [0] * 6 + [ErrorCode.POLICY_VIOLATION]
