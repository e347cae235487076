"""What is wrong with the records of a Produce request, in Kafka's order and with Kafka's error codes.

A broker keeps the client's bytes as they are: whatever it lets in, every consumer and every later start-up must read.
So each record is walked over, but none is made: that costs a third of reading them.
Sources: ProduceRequest.validateRecords, UnifiedLog.analyzeAndValidateRecords and LogValidator of Apache Kafka 4.
"""

from __future__ import annotations

import msgspec

from protocol import compression, record_batch
from protocol.compression import DECOMPRESSED_BYTES_MAX, Compression, DecompressedTooLarge
from protocol.errors import ErrorCode, ProtocolError
from protocol.record_batch import HEADER_BYTES, LOG_APPEND_TIME, MAGIC, PREFIX_BYTES, BatchHeader
from protocol.records import RECORD_BYTES_MIN

MAGIC_AT = 16
LEGACY_BYTES_MIN = 14
"""What a message of the oldest format counts at least, from byte 12 on; less is no message of any."""
ZSTD_SINCE = 7
"""The first version of Produce whose readers must know zstd (KIP-110)."""


class Refusal(msgspec.Struct, frozen=True):
    """Why nothing of the batch is appended. The message is for people; clients are told it where `is_told` is set."""

    error: ErrorCode
    message: str
    records: tuple[tuple[int, str], ...] = ()  # the records at fault, where single ones are: index and reason
    is_told: bool = False
    is_of_log: bool = False  # found when it was to be appended: the answer then says where the log begins


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """The batch may be appended. Its greatest time is that of its records, whatever the header claims."""

    header: BatchHeader
    max_timestamp: int


class Rules(msgspec.Struct, frozen=True):
    """What the topic asks of a batch. Bytes and milliseconds; a difference of None is unbounded."""

    topic: str = ""
    compacted: bool = False
    is_log_append_time: bool = False
    batch_bytes_max: int = 1_048_588
    before_max_ms: int | None = None
    after_max_ms: int | None = 3_600_000
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX


class Survey(msgspec.Struct, frozen=True, gc=False):
    """What the records of a batch say together: times as differences from the base, and the keyless by index."""

    earliest: int
    latest: int
    keyless: tuple[int, ...]
    misplaced: int | None  # the first record whose offset is not its index


def judged(data: bytes | None, version: int, rules: Rules, now_ms: int) -> Refusal | Accepted:
    """Whether the records of one partition in Produce `version` can be appended, or why not.

    A request holds exactly one batch of magic 2 a partition. Its records are decompressed and looked at, but not kept.
    """
    if (refusal := _of_frame(data, version)) is not None:
        return refusal
    assert data is not None, "null is no frame"
    header = record_batch.header_at(data)
    if (refusal := _of_header(data, header, version, rules)) is not None:
        return refusal
    try:
        survey = _survey_of(data, header, rules)
    except DecompressedTooLarge as error:
        return Refusal(ErrorCode.MESSAGE_TOO_LARGE, str(error))  # clients answer this by splitting the batch
    except ProtocolError as error:
        code = ErrorCode.UNKNOWN_SERVER_ERROR if header.compression else ErrorCode.INVALID_RECORD
        return Refusal(code, str(error), is_of_log=True)
    return _of_records(data, header, survey, rules, now_ms) or Accepted(header, header.base_timestamp + survey.latest)


def _invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_RECORD, message, is_of_log=True)


def _of_frame(data: bytes | None, version: int) -> Refusal | None:
    """One batch of magic 2, whole, and nothing after it."""
    size = -1 if data is None or len(data) < PREFIX_BYTES else int.from_bytes(data[8:12], "big", signed=True)
    if data is None or len(data) < PREFIX_BYTES:
        return _not_one(version, "at least")
    if size < LEGACY_BYTES_MIN:
        return _corrupt(f"Record size {size} is less than the minimum record overhead ({LEGACY_BYTES_MIN})")
    if len(data) > MAGIC_AT and data[MAGIC_AT] > MAGIC:
        return _corrupt(f"Invalid magic found in record: {data[MAGIC_AT]}")
    if len(data) < size + PREFIX_BYTES:
        return _not_one(version, "at least")
    if data[MAGIC_AT] != MAGIC:
        message = (
            f"Produce requests with version {version} are only allowed to contain record batches with magic version 2"
        )
        return Refusal(ErrorCode.INVALID_RECORD, message)
    if len(data) < HEADER_BYTES or size + PREFIX_BYTES < HEADER_BYTES:
        return _corrupt(f"A record batch of {size + PREFIX_BYTES} bytes")
    return _not_one(version, "exactly") if len(data) > size + PREFIX_BYTES else None


def _not_one(version: int, how: str) -> Refusal:
    message = f"Produce requests with version {version} must have {how} one record batch per partition"
    return Refusal(ErrorCode.INVALID_RECORD, message)


def _corrupt(message: str) -> Refusal:
    return Refusal(ErrorCode.CORRUPT_MESSAGE, message, is_told=True)


def _of_header(data: bytes, header: BatchHeader, version: int, rules: Rules) -> Refusal | None:
    if header.compression == Compression.ZSTD and version < ZSTD_SINCE:
        message = f"Produce requests with version {version} are not allowed to use ZStandard compression"
        return Refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, message)
    if header.base_offset != 0:
        return _invalid(f"The base offset of a produced record batch is 0, not {header.base_offset}")
    if header.size > rules.batch_bytes_max:
        message = f"The record batch size of {header.size} bytes exceeds the maximum of {rules.batch_bytes_max}"
        return Refusal(ErrorCode.MESSAGE_TOO_LARGE, message)
    if not record_batch.is_intact(data, 0, header):
        return Refusal(ErrorCode.CORRUPT_MESSAGE, f"Record is corrupt (stored crc = {header.crc})")
    if header.compression > Compression.ZSTD:
        # What Kafka says, which does not expect it; its clients give up on it as they should.
        return Refusal(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"Unknown compression type id {header.compression}", is_of_log=True
        )
    if header.count <= 0 or header.last_offset_delta + 1 != header.count:
        return _invalid(f"Inconsistent counts: {header.count} records from offset 0 to {header.last_offset_delta}")
    if header.is_control:
        return _invalid("Clients are not allowed to write control records")
    if header.producer_id != record_batch.NO_PRODUCER and header.base_sequence < 0:
        return _invalid(f"Invalid sequence number {header.base_sequence} with producer id {header.producer_id}")
    if header.is_transactional and header.producer_id == record_batch.NO_PRODUCER:
        return _invalid("A transactional record batch has a producer id")
    return None


def _survey_of(data: bytes, header: BatchHeader, rules: Rules) -> Survey:
    if not header.compression:
        return surveyed(data, HEADER_BYTES, header.size, header.count)
    plain = compression.decompress(header.compression, data[HEADER_BYTES:], rules.decompressed_bytes_max)
    return surveyed(plain, 0, len(plain), header.count)


def _of_records(data: bytes, header: BatchHeader, survey: Survey, rules: Rules, now_ms: int) -> Refusal | None:
    """Offsets without holes, keys where the topic is compacted, times near now where they count."""
    if survey.misplaced is not None:
        return _invalid(f"Record {survey.misplaced} does not have its place as its offset")
    if rules.compacted and survey.keyless:
        reason = f"Compacted topic cannot accept message without key in topic partition {rules.topic}"
        return _of_single(ErrorCode.INVALID_RECORD, [(index, reason) for index in survey.keyless])
    if header.attributes & LOG_APPEND_TIME:
        reason = "Invalid timestamp type: producers should not set it to LogAppendTime."
        return _of_single(ErrorCode.INVALID_TIMESTAMP, [(index, reason) for index in range(header.count)])
    if rules.is_log_append_time:
        return None
    first = -(2**63) if rules.before_max_ms is None else now_ms - rules.before_max_ms
    last = 2**63 - 1 if rules.after_max_ms is None else min(now_ms + rules.after_max_ms, 2**63 - 1)
    base = header.base_timestamp
    if first <= base + survey.earliest and base + survey.latest <= last:
        return None
    found = _out_of_range(data, header, rules, first, last)
    return _of_single(ErrorCode.INVALID_TIMESTAMP, found) if found else None


def _out_of_range(data: bytes, header: BatchHeader, rules: Rules, first: int, last: int) -> list[tuple[int, str]]:
    """The records whose time is set and out of range, made now that they are to be named."""
    return [
        (
            index,
            f"Timestamp {record.timestamp} of message with offset {index} is out of range. "
            f"The timestamp should be within [{first}, {last}]",
        )
        for index, record in enumerate(record_batch.read(data, 0, header, rules.decompressed_bytes_max))
        if record.timestamp != record_batch.NO_TIMESTAMP and not first <= record.timestamp <= last
    ]


def _of_single(error: ErrorCode, found: list[tuple[int, str]]) -> Refusal:
    if error == ErrorCode.INVALID_TIMESTAMP:
        message = "One or more records have been rejected due to invalid timestamp"
    else:
        message = f"One or more records have been rejected due to {len(found)} record errors"
    return Refusal(error, message, tuple(found), is_told=True, is_of_log=True)


def surveyed(data: bytes, position: int, end: int, count: int) -> Survey:
    """Walk over the `count` records of `data[position:end]`. Raises `ProtocolError` unless they fill it exactly.

    The layout is drawn in `protocol/records.py`. This is on the way of every produced record, and most of what one
    costs: that is why numbers of one byte or two, which nearly all are, are read in place.
    """
    if not 0 <= count * RECORD_BYTES_MIN <= end - position:
        raise ProtocolError(f"{count} records do not fit in {end - position} bytes", path="records", offset=position)
    earliest, latest = 1 << 63, -(1 << 63)
    keyless: list[int] = []
    misplaced: int | None = None
    before = -1  # the raw time of the record before: mostly it is that of this one as well
    try:
        for index in range(count):
            length = data[position]
            if length < 0x80:
                position += 1
            elif (second := data[position + 1]) < 0x80:
                length += (second << 7) - 0x80
                position += 2
            else:
                length, position = _long(data, position + 1, length)
            stop = position + (length >> 1)
            if length & 1 or stop > end:
                raise ProtocolError("a record reaches beyond its batch", path="records", offset=position)

            time = data[position + 1]  # after the attributes, which no reader looks at
            if time < 0x80:
                position += 2
            elif (second := data[position + 2]) < 0x80:
                time += (second << 7) - 0x80
                position += 3
            else:
                time, position = _long(data, position + 2, time)
            if time != before:
                before = time
                time = (time >> 1) ^ -(time & 1)
                latest = max(latest, time)
                earliest = min(earliest, time)

            place = data[position]
            if place < 0x80:
                position += 1
            elif (second := data[position + 1]) < 0x80:
                place += (second << 7) - 0x80
                position += 2
            else:
                place, position = _long(data, position + 1, place)
            if place != index << 1 and misplaced is None:
                misplaced = index

            key = data[position]
            position += 1
            if key > 0x7F:
                key, position = _long(data, position, key)
            if key & 1:
                if key != 1:
                    _null(key, position)
                keyless.append(index)
            else:
                position += key >> 1

            value = data[position]
            if value < 0x80:
                position += 1
            elif (second := data[position + 1]) < 0x80:
                value += (second << 7) - 0x80
                position += 2
            else:
                value, position = _long(data, position + 1, value)
            if value & 1:
                _null(value, position)
            else:
                position += value >> 1

            if data[position]:
                position = _after_headers(data, position, stop)
            else:
                position += 1
            if position != stop:
                raise ProtocolError("a record's length is not that of its fields", path="records", offset=position)
    except IndexError:
        raise ProtocolError("a record is cut off", path="records", offset=position) from None
    if position != end:
        raise ProtocolError(f"{end - position} bytes after the last record", path="records", offset=position)
    return Survey(earliest, latest, tuple(keyless), misplaced)


def _long(data: bytes, position: int, first: int) -> tuple[int, int]:
    """The raw (still zigzag) number whose first byte asked for more, and the position after it."""
    number = first & 0x7F
    for shift in range(7, 70, 7):
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80 and number < 1 << 64:
            return number, position
    raise ProtocolError("a varint of more than 64 bits", path="records", offset=position)


def _null(raw: int, position: int) -> None:
    """Of all negative lengths one is a null's: -1."""
    if raw != 1:
        raise ProtocolError(f"a length of {(raw >> 1) ^ -1}", path="records", offset=position)


def _after_headers(data: bytes, position: int, stop: int) -> int:
    """The position after a record's headers, whose names and values lie before `stop`."""
    raw, position = _number(data, position)
    count = raw >> 1
    if raw & 1 or 2 * count > stop - position:  # a header takes two bytes at least
        raise ProtocolError(f"{count} headers in {stop - position} bytes", path="records.headers", offset=position)
    for _ in range(count):
        raw, position = _number(data, position)
        if raw & 1:
            raise ProtocolError("a header without a name", path="records.headers", offset=position)
        position += raw >> 1
        raw, position = _number(data, position)
        if raw & 1:
            _null(raw, position)
        else:
            position += raw >> 1
        if position > stop:
            raise ProtocolError("a header reaches beyond its record", path="records.headers", offset=position)
    return position


def _number(data: bytes, position: int) -> tuple[int, int]:
    raw = data[position]
    return _long(data, position + 1, raw) if raw > 0x7F else (raw, position + 1)
