"""A response whose length the state decides is charged to a budget, or has a bound that is said here. Of every API."""

from collections.abc import Mapping
from functools import partial
from typing import Final

import pytest

from coordinator.core.kinds.registry import KINDS, kind_of
from coordinator.core.prices import BOUNDED
from coordinator.core.response_budget import ResponseBudget
from coordinator.runtime import group_requests
from protocol.apis import ADVERTISED_ONLY, BY_NAME, TABLE
from protocol.codec import decode_request
from tests.worst.growth import GrownServer, in_a_copy, is_refused, length_of, requests_of

FEW, MANY = 3, 40
LEAST: Final = 2 * (MANY - FEW)  # bytes: a response with so many elements more is longer by as much
VERSIONS: Final = [
    (api.name, version)
    for api in TABLE
    for version in sorted({(api.kafka_4_3 or (-1,))[0], (api.kafka_4_3 or (-1,))[-1]})
    if version >= 0 and (api.key, version) not in ADVERTISED_ONLY
]

BOUNDS: Final[Mapping[str, str]] = {
    "DeleteAcls": "200,000 rules, or nothing is deleted (MATCHES_MAX)",
    "DescribeTopicPartitions": "a page of 2,000 partitions (PAGE_MAX)",
    "Fetch": "max_bytes of the request, and fetch.max.bytes",
}


@pytest.fixture(scope="module")
def few() -> GrownServer:
    return GrownServer(FEW)


@pytest.fixture(scope="module")
def many() -> GrownServer:
    return GrownServer(MANY)


def test_the_server_holds_something_of_each_kind(many: GrownServer) -> None:
    held = many.node.world.ledger.catalog.held.bytes
    assert all(held[kind] for kind in BOUNDED), held
    assert (
        many.node.engine.memory.offsets_bytes
        and many.node.world.dataplane.producers_bytes
        and any(many.node.engine.share_states.states())
    )
    groups = [group for partition in many.node.world.partitions for group in partition.shard.groups.values()]
    assert {kind_of(group).name for group in groups if len(group.members) == MANY} == KINDS.keys()


@pytest.mark.parametrize(("name", "version"), VERSIONS)
def test_a_response_that_grows_with_the_state_is_charged(
    few: GrownServer, many: GrownServer, name: str, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_requests, "PART_PARTITIONS", 2)  # of OffsetFetch: what fits into one part is not charged
    grown = in_a_copy(lambda: find_grown(few, many, name, version))
    uncharged = [shown for pair, shown in grown if not in_a_copy(partial(is_charged, few, many, pair))]
    if name in BOUNDS:
        assert uncharged, f"{name} needs no bound in BOUNDS"
    else:
        assert not uncharged, "charge it to a ResponseBudget:\n" + "\n".join(uncharged)


Pair = tuple[bytes, bytes]  # a request to the server that holds few things, and the same to the other one


def find_grown(few: GrownServer, many: GrownServer, name: str, version: int) -> list[tuple[Pair, str]]:
    """Return the requests whose responses grow with the state."""
    api, found = BY_NAME[name], {}
    for pair in dict.fromkeys(zip(requests_of(api, version, few), requests_of(api, version, many), strict=True)):
        short, long = (length_of(api, version, one.answer(data)) for one, data in zip((few, many), pair, strict=True))
        if short and long - short >= LEAST:
            found[short, long] = pair, f"{name} {version}, {short} and {long} bytes: {decode_request(pair[1]).body}"
    return list(found.values())


def is_charged(few: GrownServer, many: GrownServer, pair: Pair) -> bool:
    """Return whether there is a budget that suffices for the response of few things, and not for that of many."""
    for power in range(6, 20):
        ResponseBudget.__init__.__defaults__ = (1 << power,)
        if not is_refused(many.answer(pair[1])):
            return False
        if not is_refused(few.answer(pair[0])):
            return True
    return False
