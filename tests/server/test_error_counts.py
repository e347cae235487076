"""Every error code of a response is counted, however deep it lies and whatever its field is called."""

import pytest

from coordinator.metrics import error_counter
from protocol.apis import BY_NAME
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnRequestTopic
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from protocol.rows import Rows, Shape
from tests.server.in_memory import InMemory

FIELDS = ("partition_index", "error_code")


def test_errors_of_partitions_are_counted() -> None:
    server = InMemory()
    topics = (AddPartitionsToTxnRequestTopic("orders", (0, 1)),)
    server.connect().ask(AddPartitionsToTxnRequest((), "x", 7, 0, topics), 3)
    key = BY_NAME["AddPartitionsToTxn"].key
    assert server.stats.errors == {(key, ErrorCode.INVALID_PRODUCER_ID_MAPPING): 2}


def test_the_error_of_a_response_is_counted() -> None:
    server = InMemory()
    server.connect().ask(HeartbeatRequest("g", 1, "m"), 4)
    assert server.stats.errors == {(BY_NAME["Heartbeat"].key, ErrorCode.UNKNOWN_MEMBER_ID): 1}


@pytest.mark.parametrize(("fields", "constants"), [(("partition_index",), {"error_code": 3}), (FIELDS, {})])
def test_errors_in_columns_are_counted(fields: tuple[str, ...], constants: dict[str, int]) -> None:
    columns = ((0, 1, 2), (3, 0, 3))[: len(fields)]
    rows = Rows(Shape(OffsetFetchResponsePartitions, fields, constants), columns)
    response = OffsetFetchResponse(
        groups=(OffsetFetchResponseGroup("g", (OffsetFetchResponseTopics("t", b"", rows),)),)
    )
    assert list(error_counter(OffsetFetchResponse)(response)) == [3] * (2 if fields == FIELDS else 3)
