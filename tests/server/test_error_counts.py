"""Every error code of a response is counted, however deep it lies and whatever its field is called."""

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import Struct

from protocol.apis import API, APIS, BY_NAME
from protocol.error_codes import ERROR_FIELDS, error_counter
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
from protocol.schema import Schema
from protocol.wire import Array
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


def _all_codes(value: Any) -> Iterator[int]:
    """The same, by looking at every value."""
    if isinstance(value, Struct):
        for name in value.__struct_fields__:
            inner = getattr(value, name)
            yield from (inner,) if name in ERROR_FIELDS else _all_codes(inner)
    elif isinstance(value, tuple):
        for one in value:
            yield from _all_codes(one)


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_no_error_of_any_response_is_passed_over(api: API) -> None:
    """A response in which every struct has an error, and every array two entries."""

    def fill(schema: Schema) -> Any:
        values: dict[str, Any] = {field.name: 3 for field in schema.fields if field.name in ERROR_FIELDS}
        for field in schema.fields:
            of = getattr(field.type, "of", None)
            if isinstance(of, Schema):
                values[field.name] = (fill(of),) * 2 if isinstance(field.type, Array) else fill(of)
        return schema.cls(**values)

    response = fill(api.response)
    assert sorted(error_counter(type(response))(response)) == sorted(_all_codes(response))
