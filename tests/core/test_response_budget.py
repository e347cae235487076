"""What a response may take is bounded as it is put together, and what is told twice is held once."""

from typing import Any

import pytest

from coordinator.core import response_budget
from coordinator.core.response_budget import ResponseBudget, ResponseTooLarge
from coordinator.core.result import Call
from coordinator.core.transactions.describe_transactions import describe_transactions
from coordinator.core.transactions.transaction import Transaction
from coordinator.core.transactions.transactions import Transactions
from protocol.errors import ErrorCode
from protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsRequestResource
from protocol.messages.describe_groups import DescribeGroupsRequest
from protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersRequestTopic
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_groups import ListGroupsRequest
from protocol.messages.list_transactions import ListTransactionsRequest
from protocol.messages.metadata import MetadataRequest
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests import requests
from tests.log_lines import log_lines
from tests.server.in_memory import InMemory, Peer
from tests.simulation.promises import codes_in
from tests.steps import count_steps

CALL = Call(1, 0, 0, None, "/h", str)


def test_what_is_added_is_charged_and_what_is_too_much_is_refused() -> None:
    budget = ResponseBudget(1_000)
    assert budget.add((1, 2, 3)) == (1, 2, 3)
    budget.charge_elements(6)
    with pytest.raises(ResponseTooLarge):
        budget.charge_elements(1)


def test_a_response_may_take_64_mib_and_no_more() -> None:
    budget = ResponseBudget()
    budget.charge(64 << 20)
    with pytest.raises(ResponseTooLarge):
        budget.charge(1)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_budget.ResponseBudget.__init__, "__defaults__", (50_000,))


READS: list[tuple[int, Any]] = [
    (8, lambda times: OffsetFetchRequest(groups=(OffsetFetchRequestGroup("g"),) * times)),
    (5, lambda times: DescribeGroupsRequest(("g",) * times)),
    (0, lambda times: DescribeProducersRequest((DescribeProducersRequestTopic("orders", (0,) * times),))),
    (0, lambda times: DescribeTransactionsRequest(("x",) * times)),
]


@pytest.mark.parametrize(("version", "read"), READS)
def test_a_read_that_names_the_same_very_often_is_refused(small: None, version: int, read: Any) -> None:
    server = InMemory()
    peer = server.connect()
    peer.ask(requests.commit("g", {"orders": {0: 5, 1: 6}}), 8)
    assert ErrorCode.POLICY_VIOLATION not in codes_in(ask(server, peer, read(3), version))
    assert codes_in(ask(server, peer, read(2_000), version)) == {ErrorCode.POLICY_VIOLATION}
    assert not server.node.world.edge.failures


LISTS: list[tuple[int, Any]] = [  # the response is larger than the request
    (4, DescribeConfigsRequest(tuple([DescribeConfigsRequestResource(2, f"t{number}") for number in range(20)]))),
    (4, ListGroupsRequest()),
    (1, ListTransactionsRequest()),
]


@pytest.mark.parametrize(("version", "request_"), LISTS, ids=[type(one).__name__ for _, one in LISTS])
@pytest.mark.parametrize("is_small", [False, True])
def test_a_list_of_all_is_charged(version: int, request_: Any, is_small: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    server = InMemory(topics={f"t{number}": 1 for number in range(20)})
    peer = server.connect()
    for number in range(400):
        peer.ask(requests.commit(f"g{number}", {"t0": {0: 1}}), 8)
        peer.ask(InitProducerIdRequest(f"x{number}", 60_000), 4)
    if is_small:
        monkeypatch.setattr(response_budget.ResponseBudget.__init__, "__defaults__", (50_000,))
    assert (ErrorCode.POLICY_VIOLATION in codes_in(ask(server, peer, request_, version))) == is_small


def ask(server: InMemory, peer: Peer, request: Any, version: int) -> Any:
    """Return the response, however many turns it takes."""
    count = len(peer.answers)
    peer.send((request, version))
    while len(peer.answers) == count:
        server.turn()
    return peer.answers[-1][1]


def test_a_transaction_that_is_named_again_is_described_once() -> None:
    transactions = Transactions()
    partitions = frozenset((topic, index) for topic in "ba" for index in range(3_000))
    transactions.by_id["x"] = Transaction("x", 7, partitions=partitions)
    steps, response = count_steps(describe_transactions(transactions, DescribeTransactionsRequest(("x",) * 5), CALL))
    first, *others = response.transaction_states
    assert [topic.topic for topic in first.topics] == ["a", "b"]
    assert first.topics[0].partitions == tuple(range(3_000))
    assert all(one is first for one in others)
    assert steps > 1


@pytest.mark.parametrize(
    "request_", [MetadataRequest(None), DescribeLogDirsRequest(None)], ids=lambda one: type(one).__name__
)
def test_a_connection_is_closed_if_no_response_can_say_what_has_failed(
    small: None, request_: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server = InMemory(topics={f"t{number}": 1 for number in range(400)})
    peer = server.connect()
    assert peer.ask(requests.commit("g", {"t0": {0: 5}}), 8) is not None
    peer.send((request_, 1))
    while not peer.connection.closing:
        server.turn()
    assert len(peer.answers) == 1, "an empty list would look like an answer"
    assert server.stats.connections_closed == {"response memory": 1}
    fields = {
        "client": peer.connection.host,
        "api": type(request_).__name__.removesuffix("Request"),
        "reason": "response memory",
    }
    assert ("connection closed: no response can say that its request has failed", fields) in log_lines(caplog)
    assert not server.node.world.edge.failures
