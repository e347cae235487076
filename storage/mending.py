"""What a damaged batch was: proved by its checksum once a header field, or a single bit, is put right.

A crash leaves the beginning of a write, or zeros or garbage in its place, and never a batch of which one bit is wrong:
where a repair of that kind makes the checksum fit, the batch was whole once, and may have been acknowledged.
"""

from __future__ import annotations

import zlib
from typing import Final

import msgspec

from protocol import record_batch
from protocol.checksum import crc32c
from protocol.record_batch import HEADER_BYTES, HEADER_FAST, MAGIC, PREFIX_BYTES, BatchHeader, crc_of

_LENGTH_AT, _MAGIC_AT, _CRC_AT, _CHECKED_FROM = 8, 16, 17, 21
_POLYNOMIAL: Final = 0x82F63B78  # CRC-32C, its bits in reverse order


class MendedHeader(msgspec.Struct, frozen=True):
    """A batch as it was, and what had changed in it."""

    batch: bytes
    what: str


def mend(data: bytes) -> MendedHeader | None:
    """Return the one batch that `data` was, or None if it cannot be proved to have been one."""
    if len(data) < HEADER_BYTES:
        return None
    header = BatchHeader(*HEADER_FAST.unpack_from(data))
    if header.magic == MAGIC and header.size == len(data):
        return _with_bit_flipped_back(data, header)
    batch = bytearray(data)
    batch[_LENGTH_AT : _LENGTH_AT + 4] = (len(data) - PREFIX_BYTES).to_bytes(4, "big")
    batch[_MAGIC_AT] = MAGIC
    if not record_batch.is_intact(batch, 0, header := record_batch.header_at(batch)):
        return None
    return MendedHeader(bytes(batch), f"length and magic: now {header.length} and {MAGIC}")


def _with_bit_flipped_back(data: bytes, header: BatchHeader) -> MendedHeader | None:
    difference = crc_of(data, 0, len(data)) ^ header.crc
    if difference == 0:
        return None
    batch = bytearray(data)
    if difference.bit_count() == 1:
        at, mask = _CRC_AT + 3 - (difference.bit_length() - 1) // 8, 1 << (difference.bit_length() - 1) % 8
    elif (found := find_flipped_bit(difference, len(data) - _CHECKED_FROM)) is not None:
        at, mask = _CHECKED_FROM + found[0], found[1]
    else:
        return None
    batch[at] ^= mask
    return MendedHeader(bytes(batch), f"bit {mask.bit_length() - 1} of byte {at} flipped back")


def find_flipped_bit(difference: int, size: int) -> tuple[int, int] | None:
    """Return the byte and the mask of the one bit that changes the CRC-32C of `size` bytes by `difference`, or None.

    The difference is followed backwards, a byte at a time: right behind the bit it was one of eight.
    """
    for following in range(size):
        if (mask := _AFTER_BIT.get(difference)) is not None:
            return size - 1 - following, mask
        index = _INDEX_BY_TOP[difference >> 24]
        difference = ((difference ^ _TABLE[index]) << 8 & 0xFFFFFFFF) | index
    return None


def old_format(data: bytes) -> int | None:
    """Return the magic, 0 or 1, of the message of Kafka before 0.11 that `data` begins with; None if it does not."""
    if len(data) <= _MAGIC_AT or data[_MAGIC_AT] not in (0, 1):
        return None
    end = PREFIX_BYTES + int.from_bytes(data[_LENGTH_AT : _LENGTH_AT + 4], "big")
    if not _MAGIC_AT < end <= len(data):
        return None
    is_whole = zlib.crc32(data[_MAGIC_AT:end]) == int.from_bytes(data[PREFIX_BYTES:_MAGIC_AT], "big")
    return data[_MAGIC_AT] if is_whole else None


def _table_entry(byte: int) -> int:
    value = byte
    for _ in range(8):
        value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
    return value


_TABLE: Final = [_table_entry(byte) for byte in range(256)]
_INDEX_BY_TOP: Final = {entry >> 24: index for index, entry in enumerate(_TABLE)}
_AFTER_BIT: Final = {_TABLE[1 << bit]: 1 << bit for bit in range(8)}
assert crc32c(b"\0") ^ crc32c(b"\1") == _TABLE[1], "the table is that of CRC-32C"
