"""Decompression of what clients send, never past a bound: a kilobyte on the wire may claim to be a gigabyte.

The output buffer is made by us and grows towards the bound; a library that would write past it fails instead. Muster
writes its own batches uncompressed, so there is no other direction here. The library is loaded for the first batch that
is compressed: most coordinators never see one, and it takes 1.5 MiB.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from enum import IntEnum
from functools import cache

from protocol.errors import ProtocolError

DECOMPRESSED_BYTES_MAX = 64 * 1024 * 1024
"""What one batch may decompress to. Kafka's default for a batch on the wire is 1 MiB; 64 times that is plain JSON."""


class Compression(IntEnum):
    """The low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class DecompressionTooLargeError(ProtocolError):
    """A batch that would decompress to more than the bound."""


def decompress(compression: int, data: bytes, limit: int = DECOMPRESSED_BYTES_MAX) -> bytes:
    """Return the plain bytes of `data`, at most `limit` of them.

    Raises `DecompressionTooLargeError` past the limit and `ProtocolError` for bytes that are not of that compression.
    """
    if compression == Compression.NONE:
        return data
    if compression == Compression.SNAPPY and data.startswith(_XERIAL):
        return _xerial(data, limit)
    codec = _codecs().get(compression)
    if codec is None:
        raise ProtocolError(f"compression {compression} is none that Kafka has")
    return _grow(codec, data, limit)


_Codec = Callable[[bytes, bytearray], int]
_FULL = ("failed to write whole buffer", "is smaller than required")  # how cramjam says that the output did not fit


@cache
def _codecs() -> Mapping[int, _Codec]:
    """Return how each compression is undone."""
    import cramjam

    return {
        Compression.GZIP: cramjam.gzip.decompress_into,
        Compression.SNAPPY: cramjam.snappy.decompress_raw_into,
        Compression.LZ4: cramjam.lz4.decompress_into,
        Compression.ZSTD: cramjam.zstd.decompress_into,
    }


def _grow(codec: _Codec, data: bytes, limit: int) -> bytes:
    """Decompress into a buffer that is doubled until the output fits or the limit is passed."""
    import cramjam

    size = min(limit, max(4096, 4 * len(data)))
    while True:
        output = bytearray(size)
        try:
            written = codec(data, output)
        except cramjam.DecompressionError as error:
            if not any(sign in str(error) for sign in _FULL):
                raise ProtocolError(f"the records do not decompress: {error}") from None
        else:
            return bytes(memoryview(output)[:written])
        if size >= limit:
            raise _too_large(limit)
        size = min(limit, 4 * size)


def _too_large(limit: int) -> DecompressionTooLargeError:
    return DecompressionTooLargeError(f"the records decompress to more than {limit} bytes")


#   xerial framing, which Java's snappy writes:   82 'SNAPPY' 00 | version i32 | lowest reader i32 | blocks
#   a block:                                      length i32 | that many bytes of raw snappy
_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
XERIAL_BLOCKS_MAX = 32_768
"""Java's blocks hold 32 KiB and can be set to 1 KiB, but a block without any bytes takes only five on the wire."""


def _xerial(data: bytes, limit: int) -> bytes:
    blocks: list[bytes] = []
    codec = _codecs()[Compression.SNAPPY]
    total = 0
    position = _XERIAL_HEADER_BYTES
    while position < len(data):
        if len(blocks) == XERIAL_BLOCKS_MAX:
            raise ProtocolError(f"more than {XERIAL_BLOCKS_MAX} snappy blocks", offset=position)
        if position + 4 > len(data):
            raise ProtocolError("a snappy block's length is cut off", offset=position)
        (length,) = struct.unpack_from(">i", data, position)
        position += 4
        if not 0 <= length <= len(data) - position:
            raise ProtocolError(f"a snappy block of {length} bytes, {len(data) - position} are left", offset=position)
        block = data[position : position + length]
        try:
            blocks.append(_grow(codec, block, limit - total))
        except DecompressionTooLargeError:
            raise _too_large(limit) from None
        total += len(blocks[-1])
        position += length
    return b"".join(blocks)
