"""Which quota counts for a client, and what is kept of them."""

from itertools import permutations, product

import pytest

from coordinator.core.catalog import records
from coordinator.core.catalog.catalog import Catalog
from coordinator.core.catalog.records import CatalogRecord, QuotaKey, QuotaPart, QuotaValue
from coordinator.core.quotas import alter_client_quotas as alter_module
from coordinator.core.quotas import buckets as buckets_module
from coordinator.core.quotas.alter_client_quotas import alter_client_quotas
from coordinator.core.quotas.buckets import Buckets
from coordinator.core.quotas.entities import CONNECTIONS, CONSUMER, MUTATIONS, PRODUCER, Entity, entity_of, refuse_value
from coordinator.core.quotas.rules import QuotaRules
from coordinator.core.result import Call
from protocol.errors import ErrorCode
from protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasRequestOpData,
)

ORDER: tuple[Entity, ...] = (  # the most precise first, as in KIP-55
    (("client-id", "c"), ("user", "u")),
    (("client-id", None), ("user", "u")),
    (("user", "u"),),
    (("client-id", "c"), ("user", None)),
    (("client-id", None), ("user", None)),
    (("user", None),),
    (("client-id", "c"),),
    (("client-id", None),),
)


def test_the_most_precise_quota_counts() -> None:
    rules = QuotaRules()
    for number, entity in enumerate(ORDER):
        rules.put(entity, PRODUCER, float(number + 1))
    for number, entity in enumerate(ORDER):
        found = rules.find(PRODUCER, "u", "c")
        assert found is not None and found[1] == number + 1
        rules.put(entity, PRODUCER, None)
    assert rules.find(PRODUCER, "u", "c") is None
    assert rules.count == 0 and not rules.items()


@pytest.mark.parametrize("entity", [*ORDER, (("ip", None),)])
def test_an_entity_is_the_same_in_whatever_order_its_parts_are_named(entity: Entity) -> None:
    for parts in permutations(entity):
        assert entity_of([QuotaPart(*part) for part in parts]) == entity
        assert (
            entity_of([*(QuotaPart(kind, "other") for kind, _ in parts), *(QuotaPart(*one) for one in parts)]) == entity
        )


def test_quotas_are_counted_however_often_they_are_set() -> None:
    rules, held = QuotaRules(), dict[tuple[Entity, str], float]()
    for entity, key, value in product(ORDER[:2], (PRODUCER, CONSUMER), (1.0, None, None, 2.0, 2.0, 3.0)):
        rules.put(entity, key, value)
        if value is None:
            held.pop((entity, key), None)
        else:
            held[entity, key] = value
        assert len(rules) == len(held)
        assert {(of, name): one for of, values in rules.items() for name, one in values.items()} == held


def test_a_quota_of_a_default_name_is_one_for_each_name() -> None:
    rules = QuotaRules()
    rules.put((("client-id", None),), PRODUCER, 1.0)
    one, other = rules.find(PRODUCER, "u", "c"), rules.find(PRODUCER, "u", "d")
    assert one is not None and other is not None and one[0] != other[0]
    rules.put((("user", "u"),), PRODUCER, 1.0)
    assert rules.find(PRODUCER, "u", "c") == rules.find(PRODUCER, "u", "d"), "all clients of a user share its own"


def test_an_address_has_its_own_quota_or_that_of_all() -> None:
    rules = QuotaRules()
    assert rules.find_address(CONNECTIONS, "10.0.0.1") is None
    rules.put((("ip", None),), CONNECTIONS, 5.0)
    rules.put((("ip", "10.0.0.1"),), CONNECTIONS, 7.0)
    assert (rules.find_address(CONNECTIONS, "10.0.0.1"), rules.find_address(CONNECTIONS, "10.0.0.2")) == (7.0, 5.0)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 0.0, 1e-7, 0.9999999 / 2, -1.0, 1.5])
def test_no_rate_is_no_number(value: float) -> None:
    assert refuse_value((("user", "u"),), PRODUCER, value) is not None


def test_a_quota_can_be_written_and_read() -> None:
    key = QuotaKey((QuotaPart("client-id", None), QuotaPart("user", "u")), PRODUCER)
    for value in (QuotaValue(12.5), None):
        record = CatalogRecord(key, value)
        assert records.decode(*records.encode(record)) == record


def test_tokens_come_back_with_time_and_are_bounded() -> None:
    buckets, entity = Buckets(), (("user", "u"),)
    assert buckets.take(entity, 2.0, 22, 0) == 0, "eleven seconds' tokens are there at first"
    assert not buckets.is_empty(entity, 2.0, 0)
    assert buckets.take(entity, 2.0, 10, 0) == 5_000
    assert buckets.is_empty(entity, 2.0, 4_999) and not buckets.is_empty(entity, 2.0, 5_000)
    assert buckets.take(entity, 2.0, 23, 1_000_000) == 500, "no more than that are kept"


def test_a_client_that_owes_anything_is_told_to_wait_and_an_hour_at_most() -> None:
    buckets, entity = Buckets(), (("user", "u"),)
    assert buckets.take(entity, 100_000.0, 1_100_001, 0) == 1
    assert buckets.take(entity, 0.001, 1_000, 0) == 3_600_000


def test_buckets_are_bounded_and_the_oldest_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets_module, "BUCKETS_MAX", 3)
    buckets = Buckets()
    users = [(("user", f"u{number}"),) for number in range(5)]
    for user in users:
        buckets.take(user, 1.0, 12, 0)
        buckets.take(user, 1.0, 0, 0)
    assert [buckets.is_empty(user, 1.0, 0) for user in users] == [False, False, True, True, True]


@pytest.mark.parametrize(
    ("key", "value", "is_good"),
    [
        *((PRODUCER, value, True) for value in (1.0, 5.0000005, 4.9999995, 2.0**62, float(2**63 - 1024))),
        *((PRODUCER, value, False) for value in (0.0, 0.4, 1.5, 5.00001, 2.0**63, 2.0**64)),
        *((CONNECTIONS, value, True) for value in (1.0, float(2**31 - 1))),
        *((CONNECTIONS, value, False) for value in (float(2**31), 2.5)),
        *((MUTATIONS, value, True) for value in (0.1, 2.5)),
    ],
)
def test_rates_of_bytes_and_connections_are_whole_numbers(key: str, value: float, is_good: bool) -> None:
    entity: Entity = (("ip", "10.0.0.1"),) if key == CONNECTIONS else (("user", "u"),)
    assert (refuse_value(entity, key, value) is None) == is_good


def alter(catalog: Catalog, *ops: tuple[str, float, bool], validate_only: bool = False) -> tuple[int, int]:
    """Alter the quotas of one user. Returns the error and how many records were written."""
    entity = (AlterClientQuotasRequestEntityData("user", "u"),)
    data = tuple(AlterClientQuotasRequestOpData(*op) for op in ops)
    request = AlterClientQuotasRequest((AlterClientQuotasRequestEntryData(entity, data),), validate_only)
    records = []
    for result in alter_client_quotas(catalog, request, Call(0, 0, 1, "c", "/h", str)):
        records += result.records
        for record in result.records:
            catalog.replay(record)
    return result.response.entries[0].error_code, len(records)


def test_a_quota_that_is_not_there_is_taken_back_without_a_record() -> None:
    catalog = Catalog()
    assert alter(catalog, (PRODUCER, 0.0, True)) == (ErrorCode.NONE, 0)
    assert alter(catalog, (PRODUCER, 5.0, False), (MUTATIONS, 0.0, True)) == (ErrorCode.NONE, 1)
    assert alter(catalog, (PRODUCER, 0.0, True), validate_only=True) == (ErrorCode.NONE, 0)
    assert alter(catalog, (PRODUCER, 0.0, True)) == (ErrorCode.NONE, 1)
    assert catalog.quotas.count == 0


@pytest.mark.parametrize("at", range(3))
def test_one_value_that_cannot_be_refuses_all_of_the_entity(at: int) -> None:
    catalog = Catalog()
    ops = [(key, -5.0 if number == at else 5.0, False) for number, key in enumerate((PRODUCER, CONSUMER, MUTATIONS))]
    assert alter(catalog, *ops) == (ErrorCode.INVALID_REQUEST, 0)
    assert catalog.quotas.count == 0


def test_quotas_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alter_module, "QUOTAS_MAX", 2)
    catalog = Catalog()
    three = [(key, 5.0, False) for key in (PRODUCER, CONSUMER, MUTATIONS)]
    assert alter(catalog, *three) == (ErrorCode.POLICY_VIOLATION, 0)
    assert alter(catalog, *three[:2]) == (ErrorCode.NONE, 2)
    assert alter(catalog, three[2]) == (ErrorCode.POLICY_VIOLATION, 0)
    assert alter(catalog, (PRODUCER, 6.0, False)) == (ErrorCode.NONE, 1), "changed"
    assert alter(catalog, (PRODUCER, 0.0, True), three[2]) == (ErrorCode.NONE, 2), "another one in its place"
    assert alter(catalog, (PRODUCER, 0.0, True), (CONSUMER, 0.0, True)) == (ErrorCode.NONE, 1), "one that is there goes"
    assert alter(catalog, three[0]) == (ErrorCode.NONE, 1)
