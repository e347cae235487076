"""What is wrong with a produced batch: each reason to refuse one, and the walk against the reader of records."""

from __future__ import annotations

import struct
from typing import Any

import cramjam
import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from protocol import record_batch, records
from protocol.batch_validation import AcceptedBatch, Allowance, Refusal, Rules, validate, validate_in_steps
from protocol.compression import Meter
from protocol.errors import ErrorCode, ProtocolError
from protocol.record_batch import HEADER_BYTES, encode, header_at, seal
from protocol.record_walk import HEADERS_MAX, NAMED_MAX, RecordWalk
from protocol.records import Record, varint
from tests.protocol.example_records import RECORDS
from tests.steps import count_steps

NOW = 1_700_000_000_000
VERSION = 9
ANYTHING = Rules()
GOOD = encode([Record(b"k", b"a", (), 0, NOW), Record(b"k", b"b", (), 0, NOW + 5)])
KEYLESS = encode([Record(None, b"a", (), 0, NOW), Record(b"k", b"b", (), 0, NOW), Record(None, None, (), 0, NOW)])


def resealed(data: bytes, **fields: int) -> bytes:
    """The batch with other header fields, and the checksum that belongs to them."""
    return seal(replace(header_at(data), **fields), data[HEADER_BYTES:])


def compressed(data: bytes) -> bytes:
    """The batch with its records in zstd."""
    body = bytes(cramjam.zstd.compress(data[HEADER_BYTES:]))
    return seal(replace(header_at(data), attributes=record_batch.compression.Compression.ZSTD), body)


def refusal(data: bytes | None, rules: Rules = ANYTHING, version: int = VERSION) -> Refusal:
    judgement = validate(data, version, rules, NOW)
    assert isinstance(judgement, Refusal), judgement
    return judgement


# -- the batch ---------------------------------------------------------------------------------------------------------


def test_a_good_batch_is_accepted_with_the_greatest_time_of_its_records() -> None:
    idempotent = resealed(GOOD, producer_id=0, producer_epoch=0, base_sequence=0)
    for data in (GOOD, compressed(GOOD), resealed(GOOD, max_timestamp=7), idempotent):
        assert validate(data, VERSION, Rules(), NOW) == AcceptedBatch(header_at(data), NOW + 5)


LEGACY = bytes(8) + struct.pack(">i", 45) + bytes(4) + b"\1" + bytes(40)
OF_HEADER = {
    "null": (None, ErrorCode.INVALID_RECORD, "at least one record batch"),
    "too short for a length": (GOOD[:11], ErrorCode.INVALID_RECORD, "at least one record batch"),
    "shorter than a message of the oldest format": (
        GOOD[:8] + struct.pack(">i", 13) + GOOD[12:], ErrorCode.CORRUPT_MESSAGE, "Record size 13 is less"),
    "a format to come": (GOOD[:16] + b"\3" + GOOD[17:], ErrorCode.CORRUPT_MESSAGE, "Invalid magic found in record: 3"),
    "cut off": (GOOD[:-1], ErrorCode.INVALID_RECORD, "at least one record batch"),
    "an old message set": (LEGACY, ErrorCode.INVALID_RECORD, "only allowed to contain record batches with magic"),
    "a length of less than a header": (
        GOOD[:8] + struct.pack(">i", 48) + GOOD[12:], ErrorCode.CORRUPT_MESSAGE, "A record batch of 60 bytes"),
    "two batches": (GOOD + GOOD, ErrorCode.INVALID_RECORD, "exactly one record batch"),
    "a batch, and a size that is none": (
        GOOD + GOOD[:8] + bytes(4), ErrorCode.CORRUPT_MESSAGE, "Record size 0 is less"),
    "a batch, and a format to come": (
        GOOD + GOOD[:16] + b"\3", ErrorCode.CORRUPT_MESSAGE, "Invalid magic found in record: 3"),
    "a base offset": (resealed(GOOD, base_offset=5), ErrorCode.INVALID_RECORD, "is 0, not 5"),
    "a wrong checksum": (GOOD[:-1] + b"x", ErrorCode.CORRUPT_MESSAGE, "stored crc"),
    "a compression that is none": (resealed(GOOD, attributes=5), ErrorCode.UNKNOWN_SERVER_ERROR, "type id 5"),
    "bytes that do not decompress": (resealed(GOOD, attributes=1), ErrorCode.UNKNOWN_SERVER_ERROR, ""),
    "no records": (resealed(GOOD, count=0, last_offset_delta=-1), ErrorCode.INVALID_RECORD, "Inconsistent counts: 0"),
    "a hole in its offsets": (resealed(GOOD, last_offset_delta=2), ErrorCode.INVALID_RECORD, "Inconsistent counts: 2"),
    "a control batch": (resealed(GOOD, attributes=0x20), ErrorCode.INVALID_RECORD, "control records"),
    "a producer without a sequence": (resealed(GOOD, producer_id=7), ErrorCode.INVALID_RECORD, "sequence number -1"),
    "more records than fit": (
        resealed(GOOD, count=9, last_offset_delta=8), ErrorCode.INVALID_RECORD, "9 records do not fit"),
}  # fmt: skip


@pytest.mark.parametrize("what", OF_HEADER)
def test_a_batch_that_is_not_one_is_refused_with_its_reason(what: str) -> None:
    data, error, message = OF_HEADER[what]
    refused = refusal(data)
    assert refused.error == error
    assert message in refused.message


@pytest.mark.parametrize("size", [1, 11, 12, 16, 17, len(GOOD) - 1])
def test_the_beginning_of_another_batch_does_not_count(size: int) -> None:
    assert validate(GOOD + GOOD[:size], VERSION, Rules(), NOW) == validate(GOOD, VERSION, Rules(), NOW)


def test_zstd_is_for_those_who_know_it() -> None:
    assert refusal(compressed(GOOD), version=6).error == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert isinstance(validate(compressed(GOOD), 7, Rules(), NOW), AcceptedBatch)


def test_sizes_are_bounded_packed_and_unpacked() -> None:
    assert isinstance(validate(GOOD, VERSION, Rules(batch_bytes_max=len(GOOD)), NOW), AcceptedBatch)
    assert refusal(GOOD, Rules(batch_bytes_max=len(GOOD) - 1)).error == ErrorCode.MESSAGE_TOO_LARGE
    plain = len(GOOD) - HEADER_BYTES
    assert isinstance(validate(compressed(GOOD), VERSION, Rules(decompressed_bytes_max=plain), NOW), AcceptedBatch)
    assert refusal(compressed(GOOD), Rules(decompressed_bytes_max=plain - 1)).error == ErrorCode.MESSAGE_TOO_LARGE


# -- its records -------------------------------------------------------------------------------------------------------


def test_offsets_are_places() -> None:
    misplaced = seal(header_at(GOOD), record(place=0) + record(place=0))
    assert refusal(misplaced).message == "Record 1 does not have its place as its offset"


def test_a_compacted_topic_names_its_keyless_records() -> None:
    refused = refusal(KEYLESS, Rules(topic="latest-0", compacted=True))
    assert (refused.error, refused.is_told) == (ErrorCode.INVALID_RECORD, True)
    assert refused.message == "One or more records have been rejected due to 2 record errors"
    assert [index for index, _ in refused.records] == [0, 2]
    assert all(reason.endswith("without key in topic partition latest-0") for _, reason in refused.records)
    assert isinstance(validate(KEYLESS, VERSION, Rules(compacted=False), NOW), AcceptedBatch)


def test_the_time_of_a_batch_stands_for_those_of_its_records_if_it_says_that_the_broker_has_set_it() -> None:
    late = resealed(GOOD, attributes=record_batch.LOG_APPEND_TIME, max_timestamp=NOW + 9)
    refused = refusal(late, Rules(after_max_ms=8))
    assert (refused.error, [index for index, _ in refused.records]) == (ErrorCode.INVALID_TIMESTAMP, [0, 1])
    assert f"Timestamp {NOW + 9} of message" in refused.records[1][1]
    assert isinstance(validate(late, VERSION, Rules(after_max_ms=9), NOW), AcceptedBatch)
    timeless = resealed(GOOD, attributes=record_batch.LOG_APPEND_TIME, max_timestamp=-1)
    for batch, rules in ((late, Rules(after_max_ms=9, is_log_append_time=True)), (timeless, Rules(before_max_ms=0))):
        assert "should not set the type of timestamps" in refusal(batch, rules).records[1][1]


@pytest.mark.parametrize(
    ("base", "time", "is_one"),
    [(-(2**63), 5, True), (-(2**63), -1, False), (2**63 - 6, 5, True), (2**63 - 5, 5, False), (5, 2**63 - 1, False)],
)
def test_the_times_below_that_of_a_batch_are_times(base: int, time: int, is_one: bool) -> None:
    """The log keeps them, and 64 bits have no room for all that a base and a difference make."""
    header = replace(header_at(GOOD), attributes=record_batch.LOG_APPEND_TIME, max_timestamp=NOW, base_timestamp=base)
    written = seal(header, record(time=time) + record(time=time, place=1))
    judgement = validate(written, VERSION, Rules(before_max_ms=9, after_max_ms=9), NOW)
    if is_one:
        assert judgement == AcceptedBatch(header_at(written), base + time)
    else:
        assert isinstance(judgement, Refusal) and judgement.error == ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize(
    ("rules", "named"),
    [
        (Rules(after_max_ms=5), []),
        (Rules(after_max_ms=4), [1]),
        (Rules(after_max_ms=None), []),
        (Rules(before_max_ms=0), []),
        (Rules(before_max_ms=-1), [0]),
        (Rules(before_max_ms=-1, is_log_append_time=True), []),
    ],
    ids=str,
)
def test_times_are_near_now_where_they_count(rules: Rules, named: list[int]) -> None:
    judgement = validate(GOOD, VERSION, rules, NOW)
    assert [index for index, _ in getattr(judgement, "records", ())] == named
    assert isinstance(judgement, Refusal if named else AcceptedBatch)


def test_a_record_without_a_time_is_near_enough() -> None:
    timeless = encode([Record(b"k", b"v", (), 0, record_batch.NO_TIMESTAMP)])
    assert isinstance(validate(timeless, VERSION, Rules(before_max_ms=10), NOW), AcceptedBatch)


# -- the walk ----------------------------------------------------------------------------------------------------------


def walk(data: bytes, position: int, end: int, count: int, most: int = 2) -> RecordWalk:
    """Walk over all records, `most` at a time."""
    one = RecordWalk(data, position, end, count)
    while not one.advance(most):
        pass
    return one


def results_of(one: RecordWalk) -> tuple[int, list[int], int | None]:
    return one.latest, one.keyless, one.misplaced


def record(
    time: int = 0, place: int = 0, key: bytes = b"\2k", value: bytes = b"\2v", headers: bytes = b"\0", extra: int = 0
) -> bytes:
    """A record of raw parts; `extra` makes its length lie by so much."""
    body = b"\0" + varint(time) + varint(place) + key + value + headers
    return varint(len(body) + extra) + body


def sized(size: int) -> bytes:
    return varint(size) + bytes(size)


SIZES = (0, 1, 63, 64, 8191, 8192, 70_000)
TIMES = (-(2**63), -(2**40), -8193, -65, -1, 0, 63, 64, 8191, 8192, 2**40, 2**63 - 1)
PARTS = [
    *({"key": sized(size)} for size in SIZES),
    *({"value": sized(size)} for size in SIZES),
    *({"time": time} for time in TIMES),
    {"headers": varint(1) + b"\2h\2v"},
    {"headers": varint(1) + b"\2h\1"},
    {"headers": varint(2) + sized(200) + sized(20_000) + b"\2h\0"},
]


@pytest.mark.parametrize("parts", PARTS, ids=lambda parts: str(parts)[:20])
def test_parts_of_every_length_are_passed_over(parts: dict[str, Any]) -> None:
    data = record(**parts)
    assert results_of(walk(data, 0, len(data), 1)) == (parts.get("time", 0), [], None)


def test_places_of_every_length() -> None:
    data = b"".join([record(place=place) for place in range(8200)])
    assert results_of(walk(data, 0, len(data), 8200)) == (0, [], None)
    for place in (1, 64, 8192, -1):
        data = record(place=place)
        assert walk(data, 0, len(data), 1).misplaced == 0


@given(st.lists(RECORDS, min_size=1, max_size=5), st.lists(st.tuples(st.integers(0), st.integers(0, 255)), max_size=3))
def test_what_the_walk_accepts_can_be_read_and_says_the_same(
    facts: list[Record], changes: list[tuple[int, int]]
) -> None:
    raw = bytearray(encode(facts))
    for at, byte in changes:
        raw[HEADER_BYTES + at % (len(raw) - HEADER_BYTES)] = byte
    header = header_at(bytes(raw))
    try:
        found = walk(bytes(raw), HEADER_BYTES, len(raw), header.count)
    except ProtocolError:
        assert changes
        return
    read = record_batch.read(bytes(raw), 0, header, Meter())
    assert found.latest == max(record.timestamp - header.base_timestamp for record in read)
    assert found.keyless == [index for index, record in enumerate(read) if record.key is None]
    assert (found.misplaced is None) == ([record.offset for record in read] == list(range(len(read))))
    if not changes:
        judgement = validate(bytes(raw), VERSION, Rules(after_max_ms=None), NOW)
        assert judgement == AcceptedBatch(header, max(record.timestamp for record in read))


@pytest.mark.parametrize("size", [5, 6, 10])
@pytest.mark.parametrize("part", ["length", "time", "place", "key", "value", "headers", "name", "value of a header"])
def test_a_number_has_as_many_bytes_as_readers_take(part: str, size: int) -> None:
    def number(what: str, value: int) -> bytes:
        raw = varint(value)
        return raw if what != part else bytes([*raw[:-1], raw[-1] | 0x80, *[0x80] * (size - len(raw) - 1), 0])

    body = b"\0" + number("time", 0) + number("place", 0) + number("key", 1) + b"k" + number("value", 1) + b"v"
    body += number("headers", 1) + number("name", 1) + b"h" + number("value of a header", 1) + b"v"
    data = number("length", len(body)) + body
    if size == 5 or part == "time":
        assert results_of(walk(data, 0, len(data), 1)) == (0, [], None)
        assert records.read(data, 0, len(data), 1, 0, 0) == [Record(b"k", b"v", (("h", b"v"),))]
    else:
        for read in (lambda: walk(data, 0, len(data), 1), lambda: records.read(data, 0, len(data), 1, 0, 0)):
            with pytest.raises(ProtocolError, match="35 bits"):
                read()


def test_records_that_unpack_are_refused_as_those_that_need_not() -> None:
    body = record(extra=2) + record(place=1)
    for data in (seal(header_at(GOOD), body), compressed(seal(header_at(GOOD), body))):
        assert refusal(data).error == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("is_linked", [False, True])
def test_blocks_of_lz4_stand_for_themselves(is_linked: bool) -> None:
    """Java's reader knows no others, of which there are some also where there is one block."""
    packer = lz4.frame.LZ4FrameCompressor(block_linked=is_linked)
    packed = packer.begin() + packer.compress(GOOD[HEADER_BYTES:]) + packer.flush()
    data = seal(replace(header_at(GOOD), attributes=record_batch.compression.Compression.LZ4), packed)
    if is_linked:
        assert "refer to each other" in refusal(data).message
        assert refusal(data).error == ErrorCode.UNKNOWN_SERVER_ERROR
    else:
        assert isinstance(validate(data, VERSION, ANYTHING, NOW), AcceptedBatch)
    for size in range(8):
        cut = seal(header_at(data), packed[:size])
        assert refusal(cut).error == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_time_of_more_than_64_bits_is_refused() -> None:
    data = b"\x1e\0" + b"\xff" * 9 + b"\x02" + bytes(4)
    with pytest.raises(ProtocolError, match="64 bits"):
        walk(data, 0, len(data), 1)


# -- how much a request may hold ---------------------------------------------------------------------------------------


def tiny(count: int, headers: bytes = b"\0") -> bytes:
    """A compressed batch of so many records without a key and a value."""
    body = b"".join(record(place=place, key=b"\1", value=b"\1", headers=headers) for place in range(count))
    header = replace(header_at(GOOD), attributes=4, count=count, last_offset_delta=count - 1)
    return seal(header, bytes(cramjam.zstd.compress(body)))


def steps_of(data: bytes, allowance: Allowance) -> tuple[int, Refusal | AcceptedBatch]:
    """How many steps the validation of a batch takes, and what it returns."""
    return count_steps(validate_in_steps(data, VERSION, Rules(after_max_ms=None), NOW, allowance))


def test_many_records_are_validated_in_steps() -> None:
    allowance = Allowance()
    count, result = steps_of(tiny(20_000), allowance)
    assert isinstance(result, AcceptedBatch)
    assert count == 5
    assert allowance.steps == 4
    assert allowance.work == 20_000 - 4 * (20_000 // count), "only that of the last step"
    assert steps_of(tiny(2_000), Allowance())[0] == 1


@pytest.mark.parametrize(("count", "headers"), [(1_000, 0), (200, 8)])
def test_the_work_of_small_batches_adds_up_to_a_step(count: int, headers: int) -> None:
    """A request with many batches asks its allowance after each one whether the step is over.

    Two headers are as much work as a record.
    """
    allowance, data = Allowance(), tiny(count, varint(headers) + b"\2h\1" * headers)
    over = [(steps_of(data, allowance), allowance.end_step())[1] for _ in range(9)]
    assert over.count(True) == 2 and not over[0]


def test_the_batches_of_a_request_share_its_allowance_of_records() -> None:
    allowance = Allowance(records=250)
    assert isinstance(steps_of(tiny(100), allowance)[1], AcceptedBatch)
    assert isinstance(steps_of(tiny(100), allowance)[1], AcceptedBatch)
    refused = steps_of(tiny(100), allowance)[1]
    assert isinstance(refused, Refusal) and refused.error == ErrorCode.MESSAGE_TOO_LARGE
    assert isinstance(steps_of(tiny(50), allowance)[1], AcceptedBatch)


def test_headers_count_like_records() -> None:
    of_three = varint(3) + b"\2h\1" * 3
    assert isinstance(steps_of(tiny(10, of_three), Allowance(records=40))[1], AcceptedBatch)
    refused = steps_of(tiny(10, of_three), Allowance(records=39))[1]
    assert isinstance(refused, Refusal) and refused.error == ErrorCode.MESSAGE_TOO_LARGE


def test_a_record_has_so_many_headers() -> None:
    most = varint(HEADERS_MAX) + b"\0\1" * HEADERS_MAX
    assert isinstance(validate(tiny(1, most), VERSION, ANYTHING, NOW), AcceptedBatch)
    assert "headers, of at most" in refusal(tiny(1, varint(HEADERS_MAX + 1) + b"\0\1" * (HEADERS_MAX + 1))).message


def test_the_batches_of_a_request_share_its_allowance_of_unpacked_bytes() -> None:
    data = tiny(100)
    plain = len(b"".join(record(place=place, key=b"\1", value=b"\1") for place in range(100)))
    allowance = Allowance(left=plain * 2)
    assert isinstance(steps_of(data, allowance)[1], AcceptedBatch)
    assert isinstance(steps_of(data, allowance)[1], AcceptedBatch)
    assert allowance.left == 0
    refused = steps_of(data, allowance)[1]
    assert isinstance(refused, Refusal) and refused.error == ErrorCode.MESSAGE_TOO_LARGE


def test_of_many_records_at_fault_the_first_are_named() -> None:
    refused = refusal(tiny(NAMED_MAX + 5), Rules(compacted=True))
    assert [index for index, _ in refused.records] == list(range(NAMED_MAX))
    assert refused.message == f"One or more records have been rejected due to {NAMED_MAX + 5} record errors"
    assert len(refusal(tiny(NAMED_MAX + 5), Rules(before_max_ms=-1)).records) == NAMED_MAX


def test_the_batches_of_a_request_name_so_many_records_together() -> None:
    allowance, data = Allowance(named=NAMED_MAX + 7), tiny(NAMED_MAX)
    for count in (NAMED_MAX, 7, 0):
        refused = count_steps(validate_in_steps(data, VERSION, Rules(before_max_ms=-1), NOW, allowance))[1]
        assert isinstance(refused, Refusal) and refused.error == ErrorCode.INVALID_TIMESTAMP
        assert len(refused.records) == count


def test_the_largest_batch_of_small_records_that_a_producer_makes_is_accepted() -> None:
    """A MiB of records without keys and values, which is what clients send at most by default."""
    body = b"".join(record(place=place, key=b"\1", value=b"\1") for place in range(100_000))
    assert len(body) < 1_000_000
    header = replace(header_at(GOOD), count=100_000, last_offset_delta=99_999)
    assert isinstance(validate(seal(header, body), VERSION, ANYTHING, NOW), AcceptedBatch)
