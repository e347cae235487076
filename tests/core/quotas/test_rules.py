"""Which quota counts for a client, and what is kept of them."""

import pytest

from coordinator.core.catalog import records
from coordinator.core.catalog.records import CatalogRecord, QuotaKey, QuotaPart, QuotaValue
from coordinator.core.quotas.buckets import Buckets
from coordinator.core.quotas.entities import CONNECTIONS, PRODUCER, Entity, refuse_value
from coordinator.core.quotas.rules import QuotaRules

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


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
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
