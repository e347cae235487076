"""What is offered is what has a handler; what is routed is what is offered, but for the versions that Kafka closes on."""

import pytest

from coordinator.runtime.router import HANDLERS, Route, intersect_versions, routes, supported_versions
from protocol.apis import BY_NAME, LATEST_RANGES

PRODUCE = BY_NAME["Produce"].key


def test_what_has_no_handler_or_no_version_is_not_offered() -> None:
    keys = {BY_NAME[name].key for name in HANDLERS}
    assert intersect_versions(LATEST_RANGES).keys() == keys & LATEST_RANGES.keys()
    assert intersect_versions({PRODUCE: range(3, 14)}) == {PRODUCE: range(3, 14)}


def test_every_version_that_is_offered_is_routed() -> None:
    found = routes({BY_NAME["Heartbeat"].key: range(5)}, None)
    assert found == {(12, version): Route("Heartbeat", HANDLERS["Heartbeat"]) for version in range(5)}


def test_produce_below_3_is_offered_but_closes_the_connection_as_in_kafka_4() -> None:
    """KAFKA-18659; seen on Apache Kafka 4.3.1."""
    assert intersect_versions(LATEST_RANGES)[PRODUCE] == range(14)
    produce = {version for key, version in routes(intersect_versions(LATEST_RANGES), None) if key == PRODUCE}
    assert produce == set(range(3, 14))


@pytest.mark.rule("V-001 V-002 V-006 K-402")
def test_the_default_offers_what_apache_kafka_4_3_1_was_seen_to_offer() -> None:
    seen = {
        3: (0, 13), 8: (2, 10), 9: (1, 10), 10: (0, 6), 11: (0, 9), 12: (0, 4), 13: (0, 5), 14: (0, 5), 15: (0, 6), 16: (0, 5),
        18: (0, 4), 19: (2, 7), 22: (0, 5), 24: (0, 5), 25: (0, 4), 26: (0, 5), 28: (0, 5), 32: (1, 4), 42: (0, 2), 44: (0, 1),
        47: (0, 0), 61: (0, 0), 65: (0, 0), 66: (0, 2), 68: (0, 1), 69: (0, 1),
    }  # fmt: skip
    offers = supported_versions("4.3")
    assert {key: (offers[key][0], offers[key][-1]) for key in seen} == seen
    assert offers.keys() == LATEST_RANGES.keys(), "and nothing that is known is left out"


def test_compat_3_9_adds_what_kafka_4_no_longer_has() -> None:
    newest, older = supported_versions("4.3"), supported_versions("3.9")
    assert newest.keys() == older.keys()
    assert all(older[key].stop == newest[key].stop and older[key].start <= newest[key].start for key in newest)
    assert (older[8].start, older[9].start, older[1].start) == (0, 0, 0)
