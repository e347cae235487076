"""The one place where packed bytes become plain ones, a chunk at a time: a kilobyte on the wire may hold a gigabyte.

`unpack` gives chunks. Each is charged to the caller's `Meter` before the next one is asked for, so that what is refused
in the end has been paid for as far as it was read. A caller may stop between two chunks, go on in a later step, or not
go on. No other module may unpack (`tests/protocol/test_unpacking_doors.py`).

Each codec is the one whose output can be bounded: zlib of the standard library, `lz4`, and `compression.zstd` of Python
3.14, or its backport. Raw snappy cannot be left half way: it says its size first, which is charged before it is read.
They are loaded for the first batch that needs them, which is never in most coordinators.
"""

from __future__ import annotations

import struct
import sys
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from enum import IntEnum
from functools import cache
from io import BytesIO
from typing import Any, Final, Protocol

import msgspec

from protocol.errors import ProtocolError

DECOMPRESSED_BYTES_MAX: Final = 64 * 1024 * 1024
"""What one batch may decompress to. Kafka's default for a batch on the wire is 1 MiB; 64 times that is plain JSON."""
CHUNK_BYTES: Final = 256 * 1024
"""At most so much is unpacked between two charges, in some 0.2 ms. Raw snappy and a block of lz4 may be more."""
FEED_BYTES: Final = 32 * 1024
"""Packed bytes that a decompressor is given at once: some copy what they have not used each time."""
FRAME_BYTES: Final = 4 * 1024
"""What it costs to begin a frame (gzip calls it a member, Java's snappy a block), counted in bytes to unpack."""
FRAMES_MAX: Final = 1024
"""Frames of one batch. Clients write one; an empty one takes ten bytes and costs more than a page of records."""
STEP_BYTES: Final = 1024 * 1024
"""What a meter allows in one step unless it is told otherwise: some two milliseconds."""


UNBOUNDED: Final = 1 << 62


class Compression(IntEnum):
    """The low three bits of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class DecompressionTooLargeError(ProtocolError):
    """A batch that would decompress to more than the bound."""


class Meter(msgspec.Struct):
    """What a reader may still unpack, and what it has used since its last step, in bytes."""

    left: int = UNBOUNDED
    used: int = 0
    step: int = STEP_BYTES

    def charge(self, unpacked: int, overhead: int = 0) -> None:
        """Charge bytes that were unpacked, and work that is worth as much as `overhead` more."""
        self.left -= unpacked
        self.used += unpacked + overhead

    def end_step(self) -> bool:
        """End the step if it has used its bytes. Returns whether it did: other work should have its turn then."""
        if self.used < self.step:
            return False
        self.used = 0
        return True


def unpack(compression: int, data: bytes, limit: int, meter: Meter) -> Iterator[bytes]:
    """Yield the plain bytes of `data` in chunks, at most `limit` and what the meter has left; some chunks are empty.

    Raises `DecompressionTooLargeError` past that and `ProtocolError` for bytes that are not of that compression.
    """
    limit = min(limit, meter.left)
    if limit <= 0 and compression != Compression.NONE:
        raise _too_large(max(limit, 0))
    if compression == Compression.NONE:
        return iter((data,))
    if compression == Compression.SNAPPY:
        return _unpack_snappy(data, limit, meter)
    frame = _frames().get(compression)
    if frame is None:
        raise ProtocolError(f"compression {compression} is none that Kafka has")
    return _unpack_frames(frame, data, limit, meter)


def unpack_in_steps(compression: int, data: bytes, limit: int, meter: Meter) -> Generator[None, None, bytes]:
    """Return all plain bytes of `data`, as `unpack` gives them. Yields where the meter's step is over."""
    first, whole = b"", None
    for chunk in unpack(compression, data, limit, meter):
        if not first:
            first = chunk
        else:
            if whole is None:
                whole = BytesIO(first)
                whole.seek(len(first))
            whole.write(chunk)  # each in its step: to join them in the end would take 15 ms for 24 MiB
        if meter.end_step():
            yield
    return first if whole is None else whole.getvalue()  # which copies nothing


class _Frame(Protocol):
    """A decompressor of one frame, as `lzma` and `bz2` have them."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes | None: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _GzipMember:
    """Makes a decompressor of zlib look like the others."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(16 + zlib.MAX_WBITS)
        self.needs_input = True

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int) -> bytes:
        chunk = self._inner.decompress(self._inner.unconsumed_tail + data, max_length)
        self.needs_input = len(chunk) < max_length and not self._inner.unconsumed_tail
        return chunk


@cache
def _zstd() -> Any:
    """Return the module of zstd: the standard library's, where it has one."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


@cache
def _frames() -> Mapping[int, Callable[[], _Frame]]:
    """Return what decompresses a frame of each compression that has frames."""
    from lz4.frame import LZ4FrameDecompressor

    return {
        Compression.GZIP: _GzipMember,
        Compression.LZ4: LZ4FrameDecompressor,
        Compression.ZSTD: _zstd().ZstdDecompressor,
    }


@cache
def _frame_errors() -> tuple[type[Exception], ...]:
    """Return what decompressors raise for bytes that are not theirs."""
    return zlib.error, RuntimeError, EOFError, _zstd().ZstdError


def _unpack_frames(begin: Callable[[], _Frame], data: bytes, limit: int, meter: Meter) -> Iterator[bytes]:
    """Yield the chunks of one frame after the other. Each must be whole, and nothing may follow the last one."""
    position = total = 0
    for _ in range(FRAMES_MAX):
        meter.charge(0, FRAME_BYTES)
        frame = begin()
        while not frame.eof:
            piece = data[position : position + FEED_BYTES] if frame.needs_input else b""
            if not piece and frame.needs_input:
                raise ProtocolError("the records do not decompress: they are cut off")
            position += len(piece)
            try:
                chunk = frame.decompress(piece, min(CHUNK_BYTES, limit - total + 1))
            except _frame_errors() as error:
                raise ProtocolError(f"the records do not decompress: {error}") from None
            total += len(chunk)
            meter.charge(len(chunk))
            if total > limit:
                raise _too_large(limit)
            yield chunk
        position -= len(frame.unused_data or b"")
        if position == len(data):
            return
    raise ProtocolError(f"the records are in more than {FRAMES_MAX} frames")


def _too_large(limit: int) -> DecompressionTooLargeError:
    return DecompressionTooLargeError(f"the records decompress to more than {limit} bytes")


#   xerial framing, which Java's snappy writes:   82 'SNAPPY' 00 | version i32 | lowest reader i32 | blocks
#   a block:                                      length i32 | that many bytes of raw snappy
_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER_BYTES = 16
_XERIAL_BLOCK_BYTES = 32 * 1024  # what Java's snappy takes
XERIAL_BLOCKS_MAX = 32_768
"""Java's blocks hold 32 KiB and can be set to 1 KiB, but a block without any bytes takes only five on the wire."""


def _unpack_snappy(data: bytes, limit: int, meter: Meter) -> Iterator[bytes]:
    """Yield what each block holds. Raw snappy, as librdkafka sends it, is one block."""
    if not data.startswith(_XERIAL):
        yield _unpack_block(data, limit, limit, meter)
        return
    left, position, count = limit, _XERIAL_HEADER_BYTES, 0
    while position < len(data):
        count += 1
        if count > XERIAL_BLOCKS_MAX:
            raise ProtocolError(f"more than {XERIAL_BLOCKS_MAX} snappy blocks", offset=position)
        if position + 4 > len(data):
            raise ProtocolError("a snappy block's length is cut off", offset=position)
        (length,) = struct.unpack_from(">i", data, position)
        position += 4
        if not 0 <= length <= len(data) - position:
            raise ProtocolError(f"a snappy block of {length} bytes, {len(data) - position} are left", offset=position)
        chunk = _unpack_block(data[position : position + length], left, limit, meter)
        yield chunk
        left -= len(chunk)
        position += length


def _unpack_block(block: bytes, left: int, limit: int, meter: Meter) -> bytes:
    """Return what a block of raw snappy holds. The size that it claims is charged before it is believed."""
    import cramjam

    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > left:
            raise _too_large(limit)
        if size > _SNAPPY_RATIO_MAX * len(block):
            raise ProtocolError(f"{len(block)} bytes of snappy do not hold {size}")
        meter.charge(size, FRAME_BYTES)
        return bytes(cramjam.snappy.decompress_raw(block, output_len=size))
    except cramjam.DecompressionError as error:
        raise ProtocolError(f"the records do not decompress: {error}") from None


_SNAPPY_RATIO_MAX = 32
"""A copy of 64 bytes takes three, or two for eleven; so no block holds so many times its bytes."""


PACK_PRICE: Final = 8
"""To pack a byte costs as much as to unpack so many."""
_PACKED_PIECE_BYTES = 64 * 1024


def pack_in_steps(compression: int, pieces: Iterable[bytes], meter: Meter) -> Generator[None, None, bytes]:
    """Return the pieces, joined and packed, as Kafka's clients read them. Yields where the meter's step is over."""
    packer = _packers()[compression]()
    packed: list[bytes] = []
    for piece in pieces:
        for at in range(0, len(piece), _PACKED_PIECE_BYTES):
            part = piece[at : at + _PACKED_PIECE_BYTES]
            packed.append(packer.compress(part))
            meter.charge(0, PACK_PRICE * len(part))
            if meter.end_step():
                yield
    packed.append(packer.flush())
    return b"".join(packed)


class _Packer(Protocol):
    def compress(self, data: bytes, /) -> bytes: ...
    def flush(self) -> bytes: ...


class _Lz4Packer:
    """Packs blocks that do not refer to each other: Java's reader knows no others."""

    def __init__(self) -> None:
        from lz4.frame import LZ4FrameCompressor

        self._inner = LZ4FrameCompressor(block_linked=False)
        self._head = self._inner.begin()

    def compress(self, data: bytes) -> bytes:
        head, self._head = self._head, b""
        packed: bytes = head + self._inner.compress(data)
        return packed

    def flush(self) -> bytes:
        packed: bytes = self._head + self._inner.flush()
        return packed


class _SnappyPacker:
    """Packs blocks as Java's snappy does."""

    def __init__(self) -> None:
        self._head = _XERIAL + struct.pack(">ii", 1, 1)

    def compress(self, data: bytes) -> bytes:
        import cramjam

        parts, self._head = [self._head], b""
        for at in range(0, len(data), _XERIAL_BLOCK_BYTES):
            block = bytes(cramjam.snappy.compress_raw(data[at : at + _XERIAL_BLOCK_BYTES]))
            parts += (struct.pack(">i", len(block)), block)
        return b"".join(parts)

    def flush(self) -> bytes:
        return self._head


@cache
def _packers() -> Mapping[int, Callable[[], _Packer]]:
    """Return what packs by each compression, at its default level."""
    return {
        Compression.GZIP: lambda: zlib.compressobj(wbits=16 + zlib.MAX_WBITS),
        Compression.SNAPPY: _SnappyPacker,
        Compression.LZ4: _Lz4Packer,
        Compression.ZSTD: _zstd().ZstdCompressor,
    }
