"""What is wrong with the records of a Produce request, in Kafka's order and with Kafka's error codes.

A broker keeps the client's bytes as they are: whatever it lets in, every consumer and every later start-up must read.
Sources: ProduceRequest.validateRecords, UnifiedLog.analyzeAndValidateRecords and LogValidator of Apache Kafka 4.
"""

from __future__ import annotations

import msgspec

from protocol import record_batch
from protocol.compression import DECOMPRESSED_BYTES_MAX, Compression, DecompressedTooLarge
from protocol.errors import ErrorCode, ProtocolError
from protocol.record_batch import LOG_APPEND_TIME, MAGIC, BatchHeader
from protocol.records import Record

MAGIC_AT = 16
LEGACY_BYTES_MIN = MAGIC_AT + 1
ZSTD_SINCE = 7
"""The first version of Produce whose readers must know zstd (KIP-110)."""


class Refusal(msgspec.Struct, frozen=True):
    """Why nothing of the batch is appended; `record` is the index of the record at fault, where one is."""

    error: ErrorCode
    message: str
    record: int | None = None


class Rules(msgspec.Struct, frozen=True):
    """What the topic asks of a batch. Bytes and milliseconds; a difference of None is unbounded."""

    compacted: bool = False
    batch_bytes_max: int = 1_048_588
    before_max_ms: int | None = None
    after_max_ms: int | None = 3_600_000
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX


def refusal(data: bytes | None, version: int, rules: Rules, now_ms: int) -> Refusal | None:
    """Why the records of one partition in Produce `version` cannot be appended, or None when they can.

    A request holds exactly one batch of magic 2 a partition. Its records are decompressed and looked at, but not kept.
    """
    if data is None or len(data) < LEGACY_BYTES_MIN:
        return _invalid(f"Produce requests with version {version} must have at least one record batch per partition")
    if data[MAGIC_AT] != MAGIC:
        return _invalid(f"Produce requests with version {version} hold record batches of magic 2, not {data[MAGIC_AT]}")
    try:
        header = record_batch.header_at(data)
    except ProtocolError as error:
        return Refusal(ErrorCode.CORRUPT_MESSAGE, str(error))
    return (
        _of_frame(data, header, version, rules) or _of_header(data, header) or _of_records(data, header, rules, now_ms)
    )


def _invalid(message: str, record: int | None = None) -> Refusal:
    return Refusal(ErrorCode.INVALID_RECORD, message, record)


def _of_frame(data: bytes, header: BatchHeader, version: int, rules: Rules) -> Refusal | None:
    """One batch, whole, of a size that the topic takes and a compression that this version may carry."""
    if header.size > len(data):
        return Refusal(ErrorCode.CORRUPT_MESSAGE, f"a record batch of {header.size} bytes in {len(data)}")
    if header.size < len(data):
        return _invalid(f"Produce requests with version {version} hold exactly one record batch per partition")
    if header.compression == Compression.ZSTD and version < ZSTD_SINCE:
        message = f"Produce requests with version {version} may not use zstd"
        return Refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, message)
    if header.size > rules.batch_bytes_max:
        message = f"The record batch size of {header.size} bytes exceeds the maximum of {rules.batch_bytes_max}"
        return Refusal(ErrorCode.MESSAGE_TOO_LARGE, message)
    return None


def _of_header(data: bytes, header: BatchHeader) -> Refusal | None:
    if header.base_offset != 0:
        return _invalid(f"The base offset of a produced record batch is 0, not {header.base_offset}")
    if not record_batch.is_intact(data, 0, header):
        return Refusal(ErrorCode.CORRUPT_MESSAGE, f"The record batch does not have the checksum {header.crc:#010x}")
    if header.compression > Compression.ZSTD:
        return Refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"Unknown compression {header.compression}")
    if header.count <= 0 or header.last_offset_delta + 1 != header.count:
        message = f"Inconsistent counts: {header.count} records from offset 0 to {header.last_offset_delta}"
        return _invalid(message)
    if header.is_control:
        return _invalid("Clients are not allowed to write control records")
    if header.producer_id != record_batch.NO_PRODUCER and header.base_sequence < 0:
        message = (
            f"Invalid sequence number {header.base_sequence} in record batch with producer id {header.producer_id}"
        )
        return _invalid(message)
    if header.is_transactional and header.producer_id == record_batch.NO_PRODUCER:
        return _invalid("A transactional record batch has a producer id")
    return None


def _of_records(data: bytes, header: BatchHeader, rules: Rules, now_ms: int) -> Refusal | None:
    """Every record readable, offsets without holes, keys where the topic is compacted, timestamps near now."""
    try:
        records = record_batch.read(data, 0, header, rules.decompressed_bytes_max)
    except DecompressedTooLarge as error:
        return Refusal(ErrorCode.MESSAGE_TOO_LARGE, str(error))  # clients answer this by splitting the batch
    except ProtocolError as error:
        code = ErrorCode.CORRUPT_MESSAGE if header.compression else ErrorCode.INVALID_RECORD
        return Refusal(code, str(error))
    for index, record in enumerate(records):
        if record.offset != index:
            return _invalid(f"Record {index} has the offset {record.offset}", index)
        if rules.compacted and record.key is None:
            return _invalid("Compacted topic cannot accept message without key", index)
        if not header.attributes & LOG_APPEND_TIME and (wrong := _of_timestamp(record, index, rules, now_ms)):
            return wrong
    return None


def _of_timestamp(record: Record, index: int, rules: Rules, now_ms: int) -> Refusal | None:
    if record.timestamp == record_batch.NO_TIMESTAMP:
        return None
    before = rules.before_max_ms is not None and record.timestamp < now_ms - rules.before_max_ms
    after = rules.after_max_ms is not None and record.timestamp > now_ms + rules.after_max_ms
    if not before and not after:
        return None
    message = f"Timestamp {record.timestamp} of record {index} is out of the range that the topic allows"
    return Refusal(ErrorCode.INVALID_TIMESTAMP, message, index)
