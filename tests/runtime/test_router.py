"""What is offered is what has a handler; what is routed is what is offered, but for the versions that Kafka closes on."""

from coordinator.runtime.router import HANDLERS, offered, routes
from protocol.apis import BY_NAME, LATEST_RANGES

PRODUCE = BY_NAME["Produce"].key


def test_what_has_no_handler_or_no_version_is_not_offered() -> None:
    keys = {BY_NAME[name].key for name in HANDLERS}
    assert offered(LATEST_RANGES).keys() == keys & LATEST_RANGES.keys()
    assert offered({PRODUCE: range(3, 14)}) == {PRODUCE: range(3, 14)}


def test_every_version_that_is_offered_is_routed() -> None:
    found = routes({BY_NAME["Heartbeat"].key: range(5)})
    assert found == {(12, version): HANDLERS["Heartbeat"] for version in range(5)}


def test_produce_below_3_is_offered_but_closes_the_connection_as_in_kafka_4() -> None:
    """KAFKA-18659; seen on Apache Kafka 4.3.1."""
    assert offered(LATEST_RANGES)[PRODUCE] == range(14)
    assert {version for key, version in routes(offered(LATEST_RANGES)) if key == PRODUCE} == set(range(3, 14))
