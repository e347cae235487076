"""Inflate a batch's records: gzip, snappy (plain and as Java frames it), lz4 frames, zstd, by pyarrow's codecs.

The inflated size is bounded before anything is believed: a batch of a few bytes may claim to hold terabytes.
"""

import struct

import pyarrow as pa

NAMES = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
INFLATED_MAX = 64 << 20
_XERIAL = b"\x82SNAPPY\x00"


class InflateError(ValueError):
    """The bytes are not what the codec makes, or they grow beyond the bound."""


def inflate(codec: int, data: bytes, limit: int = INFLATED_MAX) -> bytes:
    """Return the records of a batch as plain bytes, at most `limit` of them."""
    if codec not in NAMES:
        raise InflateError(f"codec {codec} is not known")
    try:
        if codec == 2:
            return _unsnap(data, limit)
        with pa.CompressedInputStream(pa.BufferReader(data), NAMES[codec]) as stream:
            result = bytes(stream.read(limit + 1))
    except (OSError, pa.ArrowException, struct.error, IndexError) as error:
        raise InflateError(str(error)) from error
    if len(result) > limit:
        raise InflateError(f"inflates to more than {limit} bytes")
    return result


def _unsnap(data: bytes, limit: int) -> bytes:
    if not data.startswith(_XERIAL):
        return _unsnap_block(data, limit)
    parts: list[bytes] = []
    pos = 16
    while pos < len(data):
        (length,) = struct.unpack_from(">i", data, pos)
        if length < 0 or pos + 4 + length > len(data):
            raise InflateError("a snappy block reaches past the batch")
        parts.append(_unsnap_block(data[pos + 4 : pos + 4 + length], limit - sum(map(len, parts))))
        pos += 4 + length
    return b"".join(parts)


def _unsnap_block(data: bytes, limit: int) -> bytes:
    size = shift = 0
    for byte in data[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > limit:
        raise InflateError(f"inflates to more than {limit} bytes")
    return pa.Codec("snappy").decompress(data, decompressed_size=size, asbytes=True) if data else b""
