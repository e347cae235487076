"""RecordBatch v2: header, records, varints, control records; and bytes that are none of it."""

from __future__ import annotations

import struct
from itertools import pairwise

import msgspec
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from protocol import record_batch, records
from protocol.compression import Meter
from protocol.errors import ProtocolError
from protocol.record_batch import HEADER, HEADER_FAST, BatchHeader, batches, encode, header_at, read
from protocol.record_walk import RecordWalk
from protocol.records import EndMarker, Record, end_marker, read_end_marker, varint
from tests.protocol.example_records import RECORDS

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)

WHOLE = records.write(Record(b"key", b"value", (("h", b"1"), ("n", None))), 0, 0)


# -- header ------------------------------------------------------------------------------------------------------------


@given(
    st.builds(
        BatchHeader, INT64, INT32, INT32, st.integers(-128, 127), st.integers(0, 2**32 - 1), st.integers(-(2**15), 2**15 - 1),
        INT32, INT64, INT64, INT64, st.integers(-(2**15), 2**15 - 1), INT32, INT32,
    )
)  # fmt: skip
def test_the_fast_header_is_the_constructs(header: BatchHeader) -> None:
    raw = HEADER_FAST.pack(*msgspec.structs.astuple(header))
    assert raw == HEADER.build(msgspec.structs.asdict(header))
    parsed = HEADER.parse(raw)
    assert {name: parsed[name] for name in header.__struct_fields__} == msgspec.structs.asdict(header)


def test_what_a_header_says() -> None:
    raw = encode([Record(b"a", b"1", (), 0, 5), Record(b"b", None, (), 0, 3)], base_offset=7, producer_id=9,
                 producer_epoch=2, base_sequence=4, transactional=True)  # fmt: skip
    header = header_at(raw)
    assert (header.base_offset, header.last_offset, header.next_offset, header.count) == (7, 8, 9, 2)
    assert (header.base_timestamp, header.max_timestamp) == (5, 5)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 2, 4)
    assert header.is_transactional
    assert not header.is_control
    assert header.compression == 0
    assert header.delete_horizon_ms is None
    assert header.size == len(raw)
    assert header.crc == crc32c(raw[21:])


def test_placing_a_batch_leaves_its_checksum_alone() -> None:
    raw = encode([Record(b"a", b"1")])
    moved = b"".join(record_batch.place(raw, 2**40, 3))
    header = header_at(moved)
    assert (header.base_offset, header.leader_epoch) == (2**40, 3)
    assert record_batch.is_intact(moved, 0, header)
    assert read(moved, 0, header, Meter()) == [Record(b"a", b"1", (), 2**40, 0)]


# -- records -----------------------------------------------------------------------------------------------------------


@given(st.lists(RECORDS, min_size=1, max_size=20), INT64.filter(lambda n: 0 <= n < 2**40))
def test_records_are_read_as_they_were_written(facts: list[Record], base_offset: int) -> None:
    raw = encode(facts, base_offset=base_offset)
    header = header_at(raw)
    assert record_batch.is_intact(raw, 0, header)
    expected = [msgspec.structs.replace(fact, offset=base_offset + n) for n, fact in enumerate(facts)]
    assert read(raw, 0, header, Meter()) == expected
    assert header.max_timestamp == max(fact.timestamp for fact in facts)
    again = record_batch.rewrite(header, expected)
    assert again == raw


@pytest.mark.parametrize("size", [50, 56, 57, 8180, 8182, 8183, 8184, 100_000, 1_100_000])
def test_records_whose_length_takes_one_to_four_bytes(size: int) -> None:
    facts = [Record(b"k", bytes(size)), Record(b"l", b"1", (), 1)]
    raw = encode(facts)
    assert read(raw, 0, header_at(raw), Meter()) == facts


@given(st.lists(RECORDS, min_size=1, max_size=100), st.integers(0, 2**40))
def test_outlines_are_the_records_without_their_insides(facts: list[Record], base_offset: int) -> None:
    raw = encode(facts, base_offset=base_offset)
    header = header_at(raw)
    found = records.outlines(raw, 61, len(raw), header.count, base_offset, header.base_timestamp)
    whole = read(raw, 0, header, Meter())
    assert [(o.key, o.offset, o.timestamp, o.is_tombstone) for o in found] == [
        (r.key, r.offset, r.timestamp, r.value is None) for r in whole
    ]
    assert [(o.start, o.end) for o in found[:-1]] == [(o.start, n.start) for o, n in pairwise(found)]
    one = [records.read(raw, o.start, o.end, 1, base_offset, header.base_timestamp)[0] for o in found]
    assert one == whole


@given(st.lists(RECORDS, min_size=1, max_size=100))
def test_keys_are_told_where_every_record_has_a_key_and_a_value(facts: list[Record]) -> None:
    raw = encode(facts)
    found = records.read_keys(raw, 61, len(raw), len(facts))
    if all(fact.key is not None and fact.value is not None for fact in facts):
        assert found == ([fact.key for fact in facts], list(range(len(facts))))
    else:
        assert found is None


@pytest.mark.parametrize("size", [50, 56, 57, 8180, 8182, 8183, 8184, 100_000, 1_100_000])
def test_keys_and_outlines_of_long_records_at_distant_offsets_and_times(size: int) -> None:
    facts = [
        Record(bytes(size), b"v", (), offset, time) for offset, time in ((0, 5), (63, 5), (64, 70), (9000, 10**12))
    ]
    for number, fact in enumerate(facts):
        raw = records.write(fact, fact.offset, fact.timestamp - 5)
        assert records.read_keys(raw, 0, len(raw), 1) == ([fact.key], [fact.offset])
        (outline,) = records.outlines(raw, 0, len(raw), 1, 0, 5)
        assert (outline.key, outline.offset, outline.timestamp) == (fact.key, fact.offset, fact.timestamp), number


@pytest.mark.parametrize(
    "record",
    [
        records.write(Record(None, b"v"), 0, 0),
        records.write(Record(b"k", None), 0, 0),
        bytes.fromhex("10000001026b027600"),  # an offset before its base
        *[WHOLE[:cut] for cut in range(len(WHOLE))],
        WHOLE + b"\0",
        b"\x7f" + WHOLE[1:],
        b"\xff" * 12,
    ],
)
def test_keys_are_not_told_of_what_is_wrong_or_out_of_the_common(record: bytes) -> None:
    assert records.read_keys(record, 0, len(record), 1) is None


@given(st.binary(max_size=60), st.integers(-1, 100))
def test_outlines_of_any_bytes_stay_inside_them(data: bytes, count: int) -> None:
    try:
        found = records.outlines(data, 0, len(data), count, 0, 0)
    except ProtocolError:
        return
    assert len(found) == count
    assert all(0 <= o.start < o.end <= len(data) for o in found)


@pytest.mark.parametrize("cut", range(len(WHOLE)))
def test_an_outline_cut_anywhere(cut: int) -> None:
    for data in (WHOLE[:cut], WHOLE[:cut] + b"\0" * 6):
        with pytest.raises(ProtocolError):
            records.outlines(data, 0, cut, 1, 0, 0)


@pytest.mark.parametrize(
    ("raw", "count", "says"),
    [
        ("00" * 7, -1, "-1 records"),
        ("0c000000010100ff", 1, "after the last record"),
        ("ff" * 7, 1, "more than 35 bits"),
        ("16000000010100" + "00" * 5 + "0200", 2, "cut off"),
    ],
)
def test_what_is_wrong_with_an_outline_is_said(raw: str, count: int, says: str) -> None:
    data = bytes.fromhex(raw)
    with pytest.raises(ProtocolError, match=says):
        records.outlines(data, 0, len(data), count, 0, 0)


@given(INT64)
def test_varints_are_zigzag_in_groups_of_seven(number: int) -> None:
    raw = varint(number)
    value = sum((byte & 0x7F) << 7 * at for at, byte in enumerate(raw))
    assert (value >> 1) ^ -(value & 1) == number
    assert all(byte & 0x80 for byte in raw[:-1])
    assert raw[-1] < 0x80 and (raw[-1] or len(raw) == 1), "as short as it can be"


@given(st.lists(st.integers(-(2**40), 2**40), min_size=1, max_size=6), st.integers(0, 2**40), st.integers(1, 3))
def test_a_batch_that_grows_is_the_one_that_is_written_at_once(times: list[int], base_ms: int, each: int) -> None:
    """Record by record or some at once, of any times; what cannot be written, or is too large, is not in it."""

    def write(facts: int, delta: int, time_delta: int) -> tuple[bytes, int]:
        if facts < 0:
            raise ProtocolError("no record")
        written = [records.write(Record(b"k", b"%d" % at * facts), delta + at, time_delta) for at in range(each)]
        return b"".join(written), each

    batch = record_batch.PlainBatch(base_ms)
    for number, time in enumerate(times):
        batch.extend(write, number, time)
        with pytest.raises(ProtocolError, match="no record"):
            batch.extend(write, -1, 2**41)
        with pytest.raises(record_batch.BatchTooLarge):
            batch.extend(write, 2_000, 2**41, lambda facts, size: size < 2_000)
    expected = [
        Record(b"k", b"%d" % at * number, (), 0, time) for number, time in enumerate(times) for at in range(each)
    ]
    header = header_at(batch.seal())
    assert batch.count == header.count == header.last_offset_delta + 1 == len(expected)
    assert (header.base_timestamp, header.max_timestamp) == (base_ms, max([base_ms, *times]))
    written = read(batch.seal(), 0, header, Meter())
    assert written == [msgspec.structs.replace(one, offset=at) for at, one in enumerate(expected)]
    assert batch.seal() == record_batch.seal(header, record_batch.write_records(header, written))
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.attributes) == (-1, -1, -1, 0)


def test_a_batch_needs_records() -> None:
    with pytest.raises(ProtocolError):
        encode([])


def test_header_names_that_are_not_utf8_come_back_as_they_were() -> None:
    body = records.write(Record(None, None, ((b"\xff".decode("utf-8", "surrogateescape"), b"v"),)), 0, 0)
    assert b"\x02\xff\x02v" in body
    [again] = records.read(body, 0, len(body), 1, 0, 0)
    assert records.write(again, 0, 0) == body


def test_batches_one_after_the_other() -> None:
    first, second = encode([Record(b"a", b"1")]), encode([Record(b"b", b"2")] * 3, base_offset=1)
    assert [(at, h.base_offset) for at, h in batches(first + second)] == [(0, 0), (len(first), 1)]
    assert list(batches(b"")) == []
    for cut in (1, 60, len(first) - 1):
        with pytest.raises(ProtocolError, match="cut off"):
            list(batches(first + second[:cut] if cut < len(second) else first[:cut]))


def test_empty_batches_have_no_records() -> None:
    raw = record_batch.rewrite(header_at(encode([Record(b"a", b"1")] * 4)), [])
    header = header_at(raw)
    assert (header.count, header.last_offset, len(raw)) == (0, 3, 61)
    assert read(raw, 0, header, Meter()) == []


@pytest.mark.parametrize(
    ("at", "value", "says"),
    [(16, b"\x01", "magic 1"), (8, struct.pack(">i", 48), "of 60 bytes"), (8, struct.pack(">i", -1), "of 11 bytes")],
)
def test_a_header_that_is_none(at: int, value: bytes, says: str) -> None:
    raw = bytearray(encode([Record(b"a", b"1")]))
    raw[at : at + len(value)] = value
    with pytest.raises(ProtocolError, match=says):
        header_at(raw)


# -- bytes that are no records -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", range(len(WHOLE)))
def test_a_record_cut_anywhere(cut: int) -> None:
    with pytest.raises(ProtocolError):
        records.read(WHOLE[:cut], 0, cut, 1, 0, 0)


@pytest.mark.parametrize("at", range(len(WHOLE)))
@pytest.mark.parametrize("value", [0x00, 0x01, 0x03, 0x7E, 0x7F, 0x80, 0xFF])
def test_a_record_with_any_byte_changed_is_read_or_refused(at: int, value: int) -> None:
    raw = WHOLE[:at] + bytes([value]) + WHOLE[at + 1 :]
    try:
        [record] = records.read(raw, 0, len(raw), 1, 0, 0)
    except ProtocolError:
        with pytest.raises(ProtocolError):
            RecordWalk(raw, 0, len(raw), 1).advance(9)
        return
    assert RecordWalk(raw, 0, len(raw), 1).advance(9)
    assert len(records.write(record, 0, 0)) <= len(raw) + 8


@given(st.binary(max_size=60), st.integers(-1, 100))
def test_any_bytes_are_records_or_a_protocol_error(data: bytes, count: int) -> None:
    try:
        found = records.read(data, 0, len(data), count, 0, 0)
    except ProtocolError:
        return
    assert len(found) == count


@pytest.mark.parametrize(
    ("raw", "count", "says"),
    [
        ("", 1, "1 records do not fit"),
        ("00" * 7, -1, "-1 records"),
        ("0c000000010100ff", 1, "after the last record"),
        ("0e00000001010000", 1, "not that of its fields"),
        ("0c0000000301 00".replace(" ", ""), 1, "length of -2"),
        ("0c00000001 03 00".replace(" ", ""), 1, "length of -2"),
        ("02000000000000", 1, "not that of its fields"),
        ("ffffffffff7f00", 1, "more than 35 bits"),
        ("0d000000010100", 1, "beyond its batch"),
        ("10000000010120ff", 1, "beyond its batch"),
        ("0e00000001012002", 1, "headers in"),
        ("1000000001010201 00".replace(" ", ""), 1, "name reaches beyond"),
        ("12000000010102 00 05 00".replace(" ", ""), 1, "value reaches beyond"),
        ("1800ffffffffffffffffffff00", 1, "more than 64 bits"),
    ],
)
def test_what_is_wrong_is_said_and_not_walked_over(raw: str, count: int, says: str) -> None:
    data = bytes.fromhex(raw)
    with pytest.raises(ProtocolError, match=says):
        records.read(data, 0, len(data), count, 0, 0)
    with pytest.raises(ProtocolError):
        RecordWalk(data, 0, len(data), count).advance(9)


# -- control records ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("commits", [True, False])
def test_end_markers(commits: bool) -> None:
    marker = EndMarker(commits, 17)
    raw = record_batch.encode_marker(marker, 99, producer_id=4, producer_epoch=1, base_offset=3)
    header = header_at(raw)
    assert header.is_control
    assert header.is_transactional
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (4, 1, -1)
    [record] = read(raw, 0, header, Meter())
    assert (record.offset, record.timestamp) == (3, 99)
    assert read_end_marker(record) == marker
    assert record.key == (b"\0\0\0\1" if commits else b"\0\0\0\0")
    assert record.value == b"\0\0" + struct.pack(">i", 17)


def test_control_records_of_another_kind_are_passed_over() -> None:
    assert read_end_marker(Record(b"\0\0\0\2", b"leader change")) is None


@pytest.mark.parametrize(
    "record", [Record(None, None), Record(b"\0\0\0", None), Record(b"\0\0\0\1", b"\0"), Record(b"\0\0\0\1", None)]
)
def test_a_control_record_that_ends_too_early(record: Record) -> None:
    with pytest.raises(ProtocolError):
        read_end_marker(record)


def test_the_marker_record_is_kafkas() -> None:
    assert end_marker(EndMarker(True, 0), 5) == Record(b"\0\0\0\1", b"\0\0\0\0\0\0", timestamp=5)
