"""What is wrong with the records of a Produce request, in Kafka's order and with Kafka's error codes.

A broker keeps the client's bytes as they are: whatever it lets in, every consumer and every later start-up must read.
So it walks over each record (`protocol/record_walk.py`), and an `Allowance` bounds how much a request may hold.
Sources: ProduceRequest.validateRecords, UnifiedLog.analyzeAndValidateRecords and LogValidator of Apache Kafka 4.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

import msgspec

from protocol import record_batch
from protocol.compression import Compression, DecompressionTooLargeError, Meter
from protocol.errors import ErrorCode, ProtocolError
from protocol.record_batch import HEADER_BYTES, MAGIC, PREFIX_BYTES, BatchHeader, PlainRecords
from protocol.record_walk import NAMED_MAX, RecordWalk
from protocol.steps import finish_steps

MAGIC_AT: Final = 16
_ATTRIBUTES_AT: Final = 22  # the lower byte
_COMPRESSION: Final = 7
LEGACY_BYTES_MIN: Final = 14
"""What a message of the oldest format counts at least, from byte 12 on; less is no message of any."""
ZSTD_SINCE: Final = 7
"""The first version of Produce whose readers must know zstd (KIP-110)."""
BATCH_UNPACKED_BYTES_MAX: Final = 32 * 1024 * 1024
"""Of one batch. A batch has 1 MiB on the wire by default, and JSON unpacks to ten or twenty times that."""
REQUEST_UNPACKED_BYTES_MAX: Final = 128 * 1024 * 1024
REQUEST_RECORDS_MAX: Final = 2_000_000
"""Records and headers of the batches of one request. A MiB of records without a key and a value has 150,000."""
REQUEST_NAMED_MAX: Final = 20_000
"""Records at fault that the response to one request names one by one, which takes some 200 bytes each."""
_LZ4_FLAGS_AT: Final = HEADER_BYTES + 4  # behind the magic number of a frame
_LZ4_INDEPENDENT: Final = 0x20
_ALL_TIMES: Final = (-(2**63), 2**63 - 1)
_STEP: Final = 4_000  # records to walk over in one step, some two milliseconds
_BYTES_A_RECORD: Final = 256  # to unpack them costs what it costs to walk over a record


class Refusal(msgspec.Struct, frozen=True):
    """Why nothing of the batch is appended. The message is for people; clients are told it where `is_told` is set."""

    error: ErrorCode
    message: str
    records: tuple[tuple[int, str], ...] = ()  # the first records at fault, where single ones are: index and reason
    is_told: bool = False
    is_of_log: bool = False  # found when it was to be appended: the answer then says where the log begins


class AcceptedBatch(msgspec.Struct, frozen=True, gc=False):
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
    decompressed_bytes_max: int = BATCH_UNPACKED_BYTES_MAX


class Allowance(Meter):
    """What the batches of one Produce request may still hold together, and the work since its last step."""

    left: int = REQUEST_UNPACKED_BYTES_MAX
    records: int = REQUEST_RECORDS_MAX  # and headers
    named: int = REQUEST_NAMED_MAX
    work: int = 0  # since the last step, counted in records to walk over, beside what was unpacked
    steps: int = 0  # that are over: others have had their turn after each

    def end_step(self) -> bool:
        """Return whether other requests should have their turn, and begin the next step then."""
        if self.work + self.used // _BYTES_A_RECORD < _STEP:
            return False
        self.begin_step()
        return True

    def begin_step(self) -> None:
        """Forget the work of the step that is over."""
        self.work = self.used = 0
        self.steps += 1


class TooManyRecords(ProtocolError):  # noqa: N818 - reads as the fact that it is, like DecompressionTooLargeError
    """More records and headers than a request may hold."""


Steps = Generator[None, None, Refusal | AcceptedBatch]


def validate(data: bytes | None, version: int, rules: Rules, now_ms: int) -> Refusal | AcceptedBatch:
    """Validate one batch in one go."""
    return finish_steps(validate_in_steps(data, version, rules, now_ms, Allowance()))


def validate_in_steps(data: bytes | None, version: int, rules: Rules, now_ms: int, allowance: Allowance) -> Steps:
    """Return whether the records of one partition in Produce `version` can be appended, or why not.

    A request holds exactly one batch of magic 2 a partition. Its records are decompressed and looked at, but not kept.
    """
    if (refusal := check_frame(data, version)) is not None:
        return refusal
    assert data is not None, "null is no frame"
    header = record_batch.header_at(data)
    if (refusal := _check_header(data, header, rules)) is not None:
        return refusal
    bounds = _time_bounds(rules, now_ms)
    code = ErrorCode.UNKNOWN_SERVER_ERROR  # for what does not unpack
    try:
        plain, start, end = yield from _unpack(data, header, rules, allowance)
        code, is_behind = ErrorCode.INVALID_RECORD, False
        walk = RecordWalk(plain, start, end, header.count, _allowed_times(header, bounds))
        while not is_behind:
            if walk.index:
                allowance.begin_step()
                yield
            allowance.work += min(_STEP, header.count - walk.index)  # paid for, even if one of them cannot be read
            is_behind = walk.advance(_STEP)
            _take_headers(walk, allowance)
    except (DecompressionTooLargeError, TooManyRecords) as error:
        return Refusal(ErrorCode.MESSAGE_TOO_LARGE, str(error))  # clients answer this by splitting the batch
    except ProtocolError as error:
        return Refusal(code, str(error), is_of_log=True)
    refusal = _check_records(header, walk, rules, bounds, allowance.named)
    if refusal is not None:
        allowance.named -= len(refusal.records)
        return refusal
    return AcceptedBatch(header, header.base_timestamp + walk.latest)


def _unpack(
    data: bytes, header: BatchHeader, rules: Rules, allowance: Allowance
) -> Generator[None, None, PlainRecords]:
    """Return the plain records. Raises ProtocolError if they do not unpack, here or where Java's consumers do it."""
    if header.count > allowance.records:
        raise TooManyRecords(f"the request holds more than {REQUEST_RECORDS_MAX} records")
    allowance.records -= header.count
    flags = data[_LZ4_FLAGS_AT] if header.compression == Compression.LZ4 and len(data) > _LZ4_FLAGS_AT else None
    if flags is not None and not flags & _LZ4_INDEPENDENT:
        raise ProtocolError("the blocks of lz4 refer to each other, which Java's reader does not know")
    return (yield from record_batch.plain_in_steps(data, 0, header, allowance, rules.decompressed_bytes_max))


def _allowed_times(header: BatchHeader, bounds: tuple[int, int]) -> tuple[int, int, int]:
    """Return the least and the greatest difference of time that a record may have, and the one that is no time."""
    # Where another time stands for those of the records, they need only be times: they are kept, and count some day.
    first, last = bounds if header.append_time_ms is None else _ALL_TIMES
    base = header.base_timestamp
    return first - base, last - base, record_batch.NO_TIMESTAMP - base


def _take_headers(walk: RecordWalk, allowance: Allowance) -> None:
    """Count the headers of the last step against the allowance."""
    allowance.records -= walk.headers
    allowance.work += walk.headers // 2
    if allowance.records < 0:
        raise TooManyRecords(f"the request holds more than {REQUEST_RECORDS_MAX} records and headers")
    walk.headers = 0


def _time_bounds(rules: Rules, now_ms: int) -> tuple[int, int]:
    """Return the first and the last time that a record may have."""
    first, last = _ALL_TIMES
    if rules.before_max_ms is not None:
        first = now_ms - rules.before_max_ms
    if rules.after_max_ms is not None:
        last = min(now_ms + rules.after_max_ms, last)
    return first, last


def _invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_RECORD, message, is_of_log=True)


def check_frame(data: bytes | None, version: int) -> Refusal | None:
    """Check that there is one batch of magic 2, whole, and no other after it. The beginning of one is cut off when the
    batch is appended. Kafka: `ProduceRequest.validateRecords`."""
    size = -1 if data is None or len(data) < PREFIX_BYTES else int.from_bytes(data[8:12], "big", signed=True)
    if data is None or len(data) < PREFIX_BYTES:
        return _refuse_count(version, "at least")
    if size < LEGACY_BYTES_MIN:
        return _corrupt(f"Record size {size} is less than the minimum record overhead ({LEGACY_BYTES_MIN})")
    if len(data) > MAGIC_AT and data[MAGIC_AT] > MAGIC:
        return _corrupt(f"Invalid magic found in record: {data[MAGIC_AT]}")
    if len(data) < size + PREFIX_BYTES:
        return _refuse_count(version, "at least")
    if data[MAGIC_AT] != MAGIC:
        message = (
            f"Produce requests with version {version} are only allowed to contain record batches with magic version 2"
        )
        return Refusal(ErrorCode.INVALID_RECORD, message)
    if len(data) < HEADER_BYTES or size + PREFIX_BYTES < HEADER_BYTES:
        return _corrupt(f"A record batch of {size + PREFIX_BYTES} bytes")
    if (behind := data[size + PREFIX_BYTES :]) and (refusal := _check_rest(behind, version)) is not None:
        return refusal
    if data[_ATTRIBUTES_AT] & _COMPRESSION == Compression.ZSTD and version < ZSTD_SINCE:
        message = f"Produce requests with version {version} are not allowed to use ZStandard compression"
        return Refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, message)
    return None


def _check_rest(data: bytes, version: int) -> Refusal | None:
    """Check that the bytes behind a batch are no other one, but at most the beginning of one."""
    if len(data) < PREFIX_BYTES:
        return None
    size = int.from_bytes(data[8:12], "big", signed=True)
    if size < LEGACY_BYTES_MIN:
        return _corrupt(f"Record size {size} is less than the minimum record overhead ({LEGACY_BYTES_MIN})")
    if len(data) > MAGIC_AT and data[MAGIC_AT] > MAGIC:
        return _corrupt(f"Invalid magic found in record: {data[MAGIC_AT]}")
    return None if len(data) < size + PREFIX_BYTES else _refuse_count(version, "exactly")


def _refuse_count(version: int, how: str) -> Refusal:
    message = f"Produce requests with version {version} must have {how} one record batch per partition"
    return Refusal(ErrorCode.INVALID_RECORD, message)


def _corrupt(message: str) -> Refusal:
    return Refusal(ErrorCode.CORRUPT_MESSAGE, message, is_told=True)


def _check_header(data: bytes, header: BatchHeader, rules: Rules) -> Refusal | None:
    compression = header.compression
    if header.base_offset != 0:
        return _invalid(f"The base offset of a produced record batch is 0, not {header.base_offset}")
    if header.size > rules.batch_bytes_max:
        message = f"The record batch size of {header.size} bytes exceeds the maximum of {rules.batch_bytes_max}"
        return Refusal(ErrorCode.MESSAGE_TOO_LARGE, message)
    if not record_batch.is_intact(data, 0, header):
        return Refusal(ErrorCode.CORRUPT_MESSAGE, f"Record is corrupt (stored crc = {header.crc})")
    if compression > Compression.ZSTD:
        # What Kafka says, which does not expect it; its clients give up on it as they should.
        return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"Unknown compression type id {compression}", is_of_log=True)
    if header.count <= 0 or header.last_offset_delta + 1 != header.count:
        return _invalid(f"Inconsistent counts: {header.count} records from offset 0 to {header.last_offset_delta}")
    if header.is_control:
        return _invalid("Clients are not allowed to write control records")
    if header.producer_id > record_batch.NO_PRODUCER and header.base_sequence < 0:
        return _invalid(f"Invalid sequence number {header.base_sequence} with producer id {header.producer_id}")
    return None


def _check_records(
    header: BatchHeader, walk: RecordWalk, rules: Rules, bounds: tuple[int, int], named_max: int
) -> Refusal | None:
    """Return offsets without holes, keys where the topic is compacted, times near now where they count."""
    if walk.misplaced is not None:
        return _invalid(f"Record {walk.misplaced} does not have its place as its offset")
    if rules.compacted and walk.keyless:
        reason = f"Compacted topic cannot accept message without key in topic partition {rules.topic}"
        message = f"One or more records have been rejected due to {walk.keyless_count} record errors"
        return _refuse_records(
            ErrorCode.INVALID_RECORD, message, [(index, reason) for index in walk.keyless[:named_max]]
        )
    message = "One or more records have been rejected due to invalid timestamp"
    is_stamped = header.append_time_ms is not None
    if is_stamped and (rules.is_log_append_time or header.append_time_ms == record_batch.NO_TIMESTAMP):
        reason = "The producer should not set the type of timestamps to LogAppendTime"
        every = range(min(header.count, NAMED_MAX, named_max))
        return _refuse_records(ErrorCode.INVALID_TIMESTAMP, message, [(index, reason) for index in every])
    if rules.is_log_append_time:
        return None
    first, last = bounds
    untimely = walk.untimely
    if (time_ms := header.append_time_ms) is not None:  # which stands for the times of all records, as in Kafka
        is_timely = first <= time_ms <= last
        every = range(min(header.count, NAMED_MAX))
        untimely = walk.untimely if is_timely else [(index, time_ms - header.base_timestamp) for index in every]
    if not untimely:
        return None
    named = [
        (
            index,
            f"Timestamp {header.base_timestamp + time} of message with offset {index} is out of range. "
            f"The timestamp should be within [{first}, {last}]",
        )
        for index, time in untimely[:named_max]
    ]
    return _refuse_records(ErrorCode.INVALID_TIMESTAMP, message, named)


def _refuse_records(error: ErrorCode, message: str, found: list[tuple[int, str]]) -> Refusal:
    return Refusal(error, message, tuple(found), is_told=True, is_of_log=True)
