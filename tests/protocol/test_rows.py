"""Arrays that are read and written in columns, against the tuples of messages that they stand for."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol import interpret
from protocol.apis import APIS
from protocol.codec import decode_request, encode_request, encode_response, encode_response_in_pieces
from protocol.errors import ProtocolError
from protocol.header import request_frame
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from protocol.rows import ROWS_AT_ONCE, Rows, Shape

KEY = APIS[8].key
FIELDS = {
    1: ("partition_index", "committed_offset", "commit_timestamp"),
    2: ("partition_index", "committed_offset"),
    8: ("partition_index", "committed_offset", "committed_leader_epoch"),
}


def frame_of(partitions: tuple[OffsetCommitRequestPartition, ...], version: int) -> bytes:
    request = OffsetCommitRequest("g", topics=(OffsetCommitRequestTopic("t", partitions=partitions),))
    return encode_request(KEY, version, 1, "c", request)[4:]


def read(partitions: tuple[OffsetCommitRequestPartition, ...], version: int = 8) -> Any:
    return decode_request(frame_of(partitions, version)).body.topics[0].partitions


def plain(count: int) -> tuple[OffsetCommitRequestPartition, ...]:
    return tuple([OffsetCommitRequestPartition(at, at * 2**33, at % 7) for at in range(count)])


@pytest.mark.parametrize("version", FIELDS)
@pytest.mark.parametrize("count", [1, 2, ROWS_AT_ONCE, ROWS_AT_ONCE + 1, 1_000])
def test_rows_are_what_the_interpretation_reads(count: int, version: int) -> None:
    frame = frame_of(plain(count), version)
    expected = interpret.parse(request_frame(APIS[KEY], version), frame).body.topics[0].partitions
    rows = read(plain(count), version)
    assert type(rows) is Rows
    assert type(expected) is tuple
    assert rows.fields == FIELDS[version]
    assert rows == expected
    assert expected == rows
    assert (len(rows), tuple(rows), hash(rows), repr(rows)) == (count, expected, hash(expected), repr(expected))
    assert rows != expected[1:]
    assert rows != list(expected)


def test_rows_are_cut_as_tuples_are() -> None:
    rows = read(plain(5))
    assert (rows[3], rows[-1]) == (plain(5)[3], plain(5)[4])
    assert type(rows[1:3]) is Rows
    assert rows[1:3] == plain(5)[1:3]
    assert encode_request(KEY, 8, 1, "c", OffsetCommitRequest(topics=(OffsetCommitRequestTopic("t", partitions=rows),)))


@given(st.lists(st.sampled_from(["", "", "", "m", None]), min_size=1, max_size=4))
def test_rows_are_read_only_where_all_strings_are_empty(metadata: list[str | None]) -> None:
    partitions = tuple([OffsetCommitRequestPartition(0, 1, 2, -1, each) for each in metadata])
    rows = read(partitions)
    assert rows == partitions
    assert (type(rows) is Rows) == (set(metadata) == {""})


def test_rows_are_written_as_the_messages_that_they_stand_for() -> None:
    body = decode_request(frame_of(plain(3), 8)).body
    assert encode_request(KEY, 8, 1, "c", body)[4:] == frame_of(plain(3), 8)
    built = interpret.build(request_frame(APIS[KEY], 8), decode_request(frame_of(plain(3), 8)))
    assert built == frame_of(plain(3), 8)


ROW = ("partition_index", "committed_offset", "committed_leader_epoch")
CONSTANTS: dict[str, Any] = {"metadata": "", "error_code": 0}
Now, Before = OffsetFetchResponsePartitions, OffsetFetchResponsePartition


def columns(count: int) -> tuple[tuple[int, ...], ...]:
    return tuple(range(count)), tuple([at * 2**33 for at in range(count)]), tuple([at % 7 - 1 for at in range(count)])


def response(version: int, partitions: Any) -> OffsetFetchResponse:
    if version < 8:
        return OffsetFetchResponse(topics=(OffsetFetchResponseTopic("t", partitions),))
    topic = OffsetFetchResponseTopics("t", b"x" * 16, partitions)
    return OffsetFetchResponse(groups=(OffsetFetchResponseGroup("g", (topic,)),))


@pytest.mark.parametrize("version", range(11))
@pytest.mark.parametrize("count", [0, 1, 2, ROWS_AT_ONCE, ROWS_AT_ONCE + 1, 2_500])
def test_rows_of_a_response_are_written_as_their_messages(count: int, version: int) -> None:
    rows: Any = Rows(Shape(Now if version >= 8 else Before, ROW, CONSTANTS), columns(count))
    for _ in range(2):
        expected = encode_response(9, version, 1, response(version, tuple(rows)))
        assert encode_response(9, version, 1, response(version, rows)) == expected
        assert b"".join(encode_response_in_pieces(9, version, 1, response(version, rows))) == expected[4:]


@pytest.mark.parametrize(
    ("fields", "constants", "values"),
    [
        (ROW, {"metadata": "said", "error_code": 0}, columns(3)),
        (ROW, {"metadata": None, "error_code": 0}, columns(3)),
        (ROW, {"metadata": "", "error_code": 3}, columns(3)),
        (ROW, {}, columns(3)),
        ((*ROW, "metadata"), {"error_code": 3}, (*columns(3), ("a", "", None))),
        ((*ROW, "error_code"), {"metadata": ""}, (*columns(3), (1, 2, 3))),
        (tuple(reversed(ROW)), CONSTANTS, tuple(reversed(columns(3)))),
    ],
)
@pytest.mark.parametrize("version", [7, 8])
def test_rows_of_any_shape_are_written(fields: tuple[str, ...], constants: Any, values: Any, version: int) -> None:
    rows: Any = Rows(Shape(Now if version >= 8 else Before, fields, constants), values)
    expected = encode_response(9, version, 1, response(version, tuple(rows)))
    assert encode_response(9, version, 1, response(version, rows)) == expected
    assert b"".join(encode_response_in_pieces(9, version, 1, response(version, rows))) == expected[4:]


def test_rows_that_have_no_bytes_say_why() -> None:
    rows: Any = Rows(Shape(Now, ROW, CONSTANTS), ((1, 2), (1, 2**63), (0, 0)))
    with pytest.raises(ProtocolError, match="committed_offset"):
        encode_response(9, 8, 1, response(8, rows))
