"""The bytes of `__consumer_offsets`: Kafka's vectors, the hand-written offsets against the schema, and damage."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core import records
from coordinator.core.record_schemas import BY_KEY, BY_TYPE, KINDS
from coordinator.core.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    GroupMetadataValueMember,
    OffsetCommitKey,
    OffsetCommitValue,
    Record,
    UnknownKey,
)
from protocol.errors import ProtocolError
from protocol.messages.consumer_protocol import read_assignment, read_subscription

AT = 1_700_000_000_000
OFFSET_KEY = bytes.fromhex("000100036772700003746f7000000003")
GROUP_KEY = bytes.fromhex("00020003677270")
SUBSCRIPTION_V0 = "0000000000010003746f70ffffffff"
ASSIGNMENT_V0 = "0000000000010003746f70000000020000000000000001ffffffff"

OFFSETS = {  # rule, version: the bytes, and what they say
    ("R-061", 3): ("0003000000000000002a0000000500016d0000018bcfe56800", OffsetCommitValue(42, 5, "m", AT)),
    ("R-062", 1): (
        "0001000000000000002a00016d0000018bcfe568000000018bcfe65260",
        OffsetCommitValue(42, -1, "m", AT, AT + 60_000),
    ),
    ("R-063", 0): ("0000000000000000002a00016d0000018bcfe56800", OffsetCommitValue(42, -1, "m", AT)),
    ("R-064", 2): ("0002000000000000002a00016d0000018bcfe56800", OffsetCommitValue(42, -1, "m", AT)),
    ("R-065", 4): ("0004000000000000002a00000005026d0000018bcfe5680000", OffsetCommitValue(42, 5, "m", AT)),
}
MEMBER = GroupMetadataValueMember(
    "c-1", None, "c", "/127.0.0.1", 300_000, 45_000, bytes.fromhex(SUBSCRIPTION_V0), bytes.fromhex(ASSIGNMENT_V0)
)
GROUPS = {
    ("R-067", 3): ("0003000000000000ffffffffffffffffffffffff00000000", GroupMetadataValue()),
    ("R-068", 3): (
        "00030008636f6e73756d657200000002ffffffff0000018bcfe5680000000000",
        GroupMetadataValue("consumer", 2, None, None, AT),
    ),
    ("R-069", 3): (
        "00030008636f6e73756d657200000001000572616e67650003632d310000018bcfe56800000000010003632d31ffff000163000a2f3132"
        f"372e302e302e31000493e00000afc80000000f{SUBSCRIPTION_V0}0000001b{ASSIGNMENT_V0}",
        GroupMetadataValue("consumer", 1, "range", "c-1", AT, (MEMBER,)),
    ),
    ("R-070", 0): (
        "00000008636f6e73756d657200000001000572616e67650003632d31000000010003632d31000163000a2f3132372e302e302e310000af"
        "c80000000000000000",
        GroupMetadataValue(
            "consumer",
            1,
            "range",
            "c-1",
            -1,
            (GroupMetadataValueMember("c-1", None, "c", "/127.0.0.1", -1, 45_000),),  # what is not there is -1
        ),
    ),
}


@pytest.mark.rule("R-001 R-002 R-060 R-061 to R-065")
@pytest.mark.parametrize(("rule", "version"), OFFSETS, ids=lambda each: str(each))
def test_offsets_are_kafkas_bytes(rule: str, version: int) -> None:
    text, value = OFFSETS[rule, version]
    assert records.decode(OFFSET_KEY, bytes.fromhex(text)) == Record(OffsetCommitKey("grp", "top", 3), value)
    assert records.encode_value(BY_TYPE[1], value, version).hex() == text


@pytest.mark.rule("R-003 R-066 R-067 to R-070")
@pytest.mark.parametrize(("rule", "version"), GROUPS, ids=lambda each: str(each))
def test_groups_are_kafkas_bytes(rule: str, version: int) -> None:
    text, value = GROUPS[rule, version]
    assert records.decode(GROUP_KEY, bytes.fromhex(text)) == Record(GroupMetadataKey("grp"), value)
    assert records.encode_value(BY_TYPE[2], value, version).hex() == text


@pytest.mark.rule("R-010 R-020 R-013 R-023 K-293")
def test_what_is_written() -> None:
    """R-010: version 4 of offsets, as Kafka since 4.1, 1 with an expiry. R-020: 3 of groups. R-013, R-023: tombstones."""
    key = OffsetCommitKey("grp", "top", 3)
    assert records.encode(Record(key, OffsetCommitValue(42, 5, "m", AT))) == (
        OFFSET_KEY,
        bytes.fromhex(OFFSETS["R-065", 4][0]),
    )
    with_expiry = OffsetCommitValue(42, -1, "m", AT, AT + 60_000)
    assert records.encode(Record(key, with_expiry)) == (OFFSET_KEY, bytes.fromhex(OFFSETS["R-062", 1][0]))
    text, value = GROUPS["R-069", 3]
    assert records.encode(Record(GroupMetadataKey("grp"), value)) == (GROUP_KEY, bytes.fromhex(text))
    assert records.encode(Record(key, None)) == (OFFSET_KEY, None)
    assert records.encode(Record(GroupMetadataKey("grp"), None)) == (GROUP_KEY, None)


@pytest.mark.rule("R-001")
def test_an_old_offset_key_reads_as_the_new_one() -> None:
    """Types 0 and 1 have one body."""
    old = b"\x00\x00" + OFFSET_KEY[2:]
    assert records.decode(old, None) == Record(OffsetCommitKey("grp", "top", 3), None)


@pytest.mark.rule("R-004 L-014")
def test_what_is_not_known() -> None:
    """An unknown type is kept as it is; an unknown version of a known value is an error."""
    key, value = b"\x00\x63xyz", b"\x00\x00abc"
    record = records.decode(key, value)
    assert record == Record(UnknownKey(99, b"xyz"), value)
    assert records.encode(record) == (key, value)
    for kind in KINDS:
        with pytest.raises(ProtocolError, match="version"):
            records.decode_value(kind, (kind.reads + 1).to_bytes(2, "big") + b"\x00" * 40)


@pytest.mark.rule("R-012")
def test_tags_of_a_later_writer_are_skipped() -> None:
    """A tagged field that nobody here knows."""
    head = bytes.fromhex(OFFSETS["R-065", 4][0])[:-1]
    later = head + b"\x01" + b"\x07" + b"\x03" + b"abc"
    assert records.decode(OFFSET_KEY, later).value == OffsetCommitValue(42, 5, "m", AT)
    both = head + b"\x02" + b"\x00\x10" + b"i" * 16 + b"\x07\x03abc"
    assert records.decode(OFFSET_KEY, both).value == OffsetCommitValue(42, 5, "m", AT, -1, b"i" * 16)


@pytest.mark.rule("R-050 R-051 R-052 R-054 R-071 to R-074")
def test_what_consumers_say_inside() -> None:
    assert read_subscription(bytes.fromhex(SUBSCRIPTION_V0)).topics == ("top",)
    v3 = "0003000000010003746f70ffffffff000000010003746f700000000200000000000000010000000700027231"
    read = read_subscription(bytes.fromhex(v3))
    assert (read.topics, read.generation_id, read.rack_id) == (("top",), 7, "r1")
    assert read.owned_partitions[0].partitions == (0, 1)
    assert read_assignment(bytes.fromhex(ASSIGNMENT_V0)).assigned_partitions[0].partitions == (0, 1)
    v1 = read_subscription(bytes.fromhex("0001000000010003746f700000000000000000"))
    assert (v1.topics, v1.user_data, v1.owned_partitions) == (("top",), b"", ())
    assert read_subscription(bytes.fromhex(v3.replace("0003", "0009", 1))) == read  # a version of the future


@given(
    st.tuples(st.text(max_size=40), st.text(max_size=40), st.integers(-(2**31), 2**31 - 1)),
    st.builds(
        OffsetCommitValue,
        offset=st.integers(-(2**63), 2**63 - 1),
        leader_epoch=st.integers(-(2**31), 2**31 - 1),
        metadata=st.text(max_size=200),
        commit_timestamp=st.integers(-(2**63), 2**63 - 1),
        expire_timestamp=st.just(-1),
        topic_id=st.sampled_from([bytes(16), b"0123456789abcdef"]),
    ),
    st.sampled_from([0, 2, 3, 4]),
)
def test_offsets_by_hand_equal_offsets_by_schema(
    key: tuple[str, str, int], value: OffsetCommitValue, version: int
) -> None:
    """The fast way and the drawn way, of reading each version and of writing."""
    kind = BY_KEY[OffsetCommitKey]
    record = Record(OffsetCommitKey(*key), value)
    key_bytes, value_bytes = records.encode(record)
    assert value_bytes == records.encode_value(kind, value, 4)
    assert records.decode(key_bytes, value_bytes) == record
    old = records.encode_value(kind, value, version)
    assert records.decode(key_bytes, old).value == records.decode_value(kind, old)


@given(st.binary(max_size=60), st.one_of(st.none(), st.binary(max_size=60)))
def test_damage_is_a_protocol_error_and_nothing_else(tail: bytes, value: bytes | None) -> None:
    for number in (0, 1, 2, 3, 5, 8, 16, 99):
        with contextlib.suppress(ProtocolError):
            records.decode(number.to_bytes(2, "big") + tail, value)
    for size in range(len(OFFSET_KEY)):
        with pytest.raises(ProtocolError):
            records.decode(OFFSET_KEY[:size], None)


@pytest.mark.parametrize(("rule", "version"), OFFSETS, ids=lambda each: str(each))
def test_a_value_that_ends_too_early(rule: str, version: int) -> None:
    whole = bytes.fromhex(OFFSETS[rule, version][0])
    for size in range(len(whole)):
        with pytest.raises(ProtocolError):
            records.decode(OFFSET_KEY, whole[:size])


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("0001ffff00046772700003746f7000000003", None),  # the group's length is negative
        ("0001000367727affff746f7000000003", None),  # the topic's
        (OFFSET_KEY.hex(), "0003000000000000002a00000005fffb6d0000018bcfe56800"),  # the metadata's
        (OFFSET_KEY.hex(), "0004000000000000002a00000005006d0000018bcfe5680000"),  # null, which it may not be
        ("00", None),
        (OFFSET_KEY.hex(), "00"),
    ],
)
def test_lengths_that_cannot_be(key: str, value: str | None) -> None:
    with pytest.raises(ProtocolError):
        records.decode(bytes.fromhex(key), None if value is None else bytes.fromhex(value))
