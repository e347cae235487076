"""The door: requests and answers, who may not pass, and what is said to them."""

from __future__ import annotations

from struct import pack
from typing import Any

import pytest

from protocol import codec
from protocol.apis import APIS, api_of
from protocol.codec import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    encode_response_in_pieces,
    read,
    write,
    write_correlation_id,
)
from protocol.encoder import ELEMENT_BITS, PIECE_ELEMENTS
from protocol.errors import ErrorCode, ProtocolError, UnsupportedVersion
from protocol.header import Request, Response
from protocol.messages.api_versions import ApiVersionsResponse
from protocol.messages.consumer_protocol import SUBSCRIPTION, ConsumerProtocolSubscription
from protocol.messages.describe_groups import (
    DescribeGroupsResponse,
    DescribeGroupsResponseDescribedGroup,
    DescribeGroupsResponseDescribedGroupMember,
)
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.messages.list_groups import ListGroupsResponse, ListGroupsResponseListedGroup
from protocol.messages.metadata import MetadataRequest
from protocol.structs import subconstructs
from tests.protocol.targets import TARGETS

MEMBER = DescribeGroupsResponseDescribedGroupMember("m", member_metadata=b"m" * 30_000, member_assignment=b"a" * 30_000)
HEARTBEAT = bytes.fromhex("000c00040000000700026d6500026700000005026d0000")


def test_a_request_is_its_header_and_its_message() -> None:
    request = decode_request(HEARTBEAT)
    assert request == Request(12, 4, 7, "me", HeartbeatRequest("g", 5, "m", None))
    assert encode_request(12, 4, 7, "me", request.body) == pack(">i", len(HEARTBEAT)) + HEARTBEAT


def test_an_answer_is_one_frame_with_its_size() -> None:
    answer = encode_response(12, 4, 7, HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    assert answer == bytes.fromhex("0000000c000000070000000000001b00")
    assert decode_response(12, 4, answer[4:]) == Response(7, HeartbeatResponse(error_code=27))
    assert answer[:4] + write_correlation_id(-1) + answer[8:] == encode_response(
        12, 4, -1, HeartbeatResponse(error_code=27)
    )


def test_the_answer_to_api_versions_has_a_header_without_tags_in_all_versions() -> None:
    """KIP-511: the client cannot know yet whether the server has flexible headers."""
    for version in APIS[18].versions:
        answer = encode_response(18, version, 7, ApiVersionsResponse(error_code=35))
        assert answer[4:10] == pack(">ih", 7, 35)


@pytest.mark.parametrize(("key", "version"), [(18, 5), (18, -1), (12, 5), (8, 99), (4, 0), (-1, 0), (9999, 0)])
def test_r11_an_unknown_api_or_version_is_told_from_bytes_that_cannot_be_read(key: int, version: int) -> None:
    with pytest.raises(UnsupportedVersion) as refused:
        decode_request(pack(">hhi", key, version, 42) + b"anything")
    assert (refused.value.api_key, refused.value.version, refused.value.correlation_id) == (key, version, 42)
    for attempt in (
        lambda: encode_request(key, version, 42, None, HeartbeatRequest()),
        lambda: encode_response(key, version, 42, HeartbeatResponse()),
        lambda: decode_response(key, version, b""),
    ):
        with pytest.raises(UnsupportedVersion):
            attempt()


def test_r11_no_client_can_make_the_tables_of_codecs_grow() -> None:
    decode_request(HEARTBEAT)
    before = len(codec._request_decoders)
    for version in range(100, 200):
        with pytest.raises(UnsupportedVersion):
            decode_request(pack(">hhi", 12, version, 1))
    assert len(codec._request_decoders) == before


@pytest.mark.parametrize("frame", [HEARTBEAT[:size] for size in range(8)])
def test_r11_a_header_cut_short_is_refused_whether_its_codec_is_known_or_not(frame: bytes) -> None:
    decode_request(HEARTBEAT)
    with pytest.raises(ProtocolError, match="bytes are too few for a request header"):
        decode_request(frame)


def test_r11_what_is_wrong_is_said_with_api_version_field_and_offset() -> None:
    with pytest.raises(ProtocolError) as refused:
        decode_request(HEARTBEAT[:-4] + b"\x09m\0\0")
    error = refused.value
    assert (error.api, error.version, error.path, error.offset) == ("Heartbeat", 4, "member_id", 19 + 1)


def test_r11_the_path_leads_into_arrays() -> None:
    frame = encode_request(3, 1, 7, None, MetadataRequest())[4:14] + pack(">i", 2) + b"\0\x01a" + b"\0\x01\xff"
    with pytest.raises(
        ProtocolError, match=r"Metadata v1: not UTF-8: invalid start byte in topics\[1\]\.name at byte 20"
    ):
        decode_request(frame)


def test_r11_a_long_frame_is_refused_without_looking_for_the_place() -> None:
    """Construct takes its time, and a client may not make it take minutes."""
    with pytest.raises(ProtocolError) as refused:
        decode_request(HEARTBEAT[:8] + b"\x7f\xff" + bytes(codec.EXPLAINED_BYTES_MAX - 10) + b"\xff")
    assert refused.value.path is None
    assert str(refused.value) == "Heartbeat v4: bytes that this schema does not have"


def test_r11_null_is_refused_where_the_schema_allows_none() -> None:
    with pytest.raises(ProtocolError, match="null where the schema allows none in group_id at byte 12"):
        decode_request(bytes.fromhex("000c000400000007ffff000000000005026d0000"))


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (HeartbeatRequest(group_id=None), "null where the schema allows none in group_id"),
        (HeartbeatRequest(group_id=b"g"), "b'g' cannot be written as a string in group_id"),
        (HeartbeatRequest(group_id="\ud800"), "cannot be written as a string in group_id"),
        (HeartbeatRequest(group_id="g" * 32768), "a string of 32768 bytes, more than 32767 in group_id"),
        (
            HeartbeatRequest(generation_id=2**31),
            "struct '>l' error during building, given value 2147483648 in generation_id",
        ),
        (HeartbeatRequest(generation_id="1"), "struct '>l' error during building, given value '1' in generation_id"),
        (HeartbeatResponse(), r"HeartbeatResponse\(.*\) where HeartbeatRequest is wanted"),
    ],
)
@pytest.mark.parametrize("version", [3, 4])
def test_what_cannot_be_written_is_said_with_its_field(version: int, message: Any, reason: str) -> None:
    with pytest.raises(ProtocolError, match=f"Heartbeat v{version}: .*{reason}"):
        encode_request(12, version, 1, None, message)


def test_what_cannot_be_answered_is_said_with_its_field() -> None:
    with pytest.raises(ProtocolError, match=r"Heartbeat v4: .* in error_code"):
        encode_response(12, 4, 1, HeartbeatResponse(error_code=40_000))
    with pytest.raises(ProtocolError, match=r"Heartbeat v4: .* in error_code"):
        list(encode_response_in_pieces(12, 4, 1, HeartbeatResponse(error_code=40_000)))
    with pytest.raises(
        ProtocolError, match=r"Heartbeat v4: the frame ends early, expected 2, found 0 in error_code at byte 9"
    ):
        decode_response(12, 4, bytes.fromhex("000000070000000000"))


@pytest.mark.parametrize(
    "response",
    [
        ListGroupsResponse(groups=tuple([ListGroupsResponseListedGroup("g" * 2_000)] * 5_000)),
        DescribeGroupsResponse(groups=(DescribeGroupsResponseDescribedGroup(members=(MEMBER,) * 200),)),
    ],
    ids=["names", "opaque bytes"],
)
def test_no_piece_of_a_response_is_long_however_long_its_strings_are(response: Any) -> None:
    api_key = api_of(response).key
    pieces = list(encode_response_in_pieces(api_key, 5, 1, response))
    assert max(map(len, pieces)) <= (PIECE_ELEMENTS << ELEMENT_BITS) + 60_000
    assert sum(map(len, pieces)) > 5 * (PIECE_ELEMENTS << ELEMENT_BITS)
    assert b"".join(pieces) == encode_response(api_key, 5, 1, response)[4:]


def test_messages_inside_messages_are_read_and_written_by_their_schema() -> None:
    message = ConsumerProtocolSubscription(topics=("a", "b"), user_data=b"x")
    data = write(SUBSCRIPTION, message, 1)
    assert read(SUBSCRIPTION, data, 1) == read(SUBSCRIPTION, data + b"surplus", 1) == message
    with pytest.raises(
        ProtocolError, match="ConsumerProtocolSubscription v1: 1073741823 elements where 17 bytes are left"
    ):
        read(SUBSCRIPTION, pack(">i", 1073741823) + b"\0" * 17, 1)
    with pytest.raises(ProtocolError, match=r"ConsumerProtocolSubscription v1: .* in topics"):
        write(SUBSCRIPTION, ConsumerProtocolSubscription(topics=(1,)), 1)


@pytest.mark.parametrize(("is_strict", "error"), [(True, AssertionError), (False, ProtocolError)])
def test_a_codec_that_refuses_what_construct_accepts_is_our_own_fault(
    is_strict: bool, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It costs a server one connection and one line."""

    def refuses(*_: Any) -> Any:
        raise ValueError

    monkeypatch.setattr(codec, "is_strict", is_strict)
    monkeypatch.setitem(codec._request_decoders, HEARTBEAT[:4], refuses)
    with pytest.raises(error, match="Heartbeat v4: the fast decoder refuses what construct reads") as refused:
        decode_request(HEARTBEAT + bytes(4_000))
    assert is_strict or len(str(refused.value)) < 300
    monkeypatch.setitem(codec._response_encoders, (12, 4), refuses)
    with pytest.raises(error, match="Heartbeat v4: the fast encoder refuses what construct writes"):
        encode_response(12, 4, 1, HeartbeatResponse())


def test_r11_no_schema_goes_deeper_than_a_handful_of_levels() -> None:
    """Nothing recurs: how deep reading goes is the schema's to say, and not the bytes'."""
    assert max(sum(1 for _ in subconstructs(target.root)) for target in TARGETS) < 150  # of StreamsGroupDescribe: 124


def test_what_is_generated_can_be_looked_at() -> None:
    decode_request(HEARTBEAT)
    source = codec._request_decoders[HEARTBEAT[:4]].__doc__
    assert source is not None
    assert source.startswith("def generated(data):")
    assert "HeartbeatRequest(" in source
