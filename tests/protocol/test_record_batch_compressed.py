"""Batches that clients compress: read in all four codecs, and never past a bound."""

from __future__ import annotations

import gzip
import random
import struct
from collections.abc import Callable

import cramjam
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol import record_batch
from protocol.compression import (
    CHUNK_BYTES,
    FEED_BYTES,
    FRAMES_MAX,
    STEP_BYTES,
    XERIAL_BLOCKS_MAX,
    Compression,
    DecompressionTooLargeError,
    Meter,
    pack_in_steps,
    unpack,
    unpack_in_steps,
)
from protocol.errors import ProtocolError
from protocol.record_batch import encode, header_at, read, seal
from protocol.records import Record
from protocol.steps import finish_steps
from tests.steps import count_steps


def decompress(compression: int, data: bytes, limit: int = 1 << 26) -> bytes:
    return finish_steps(unpack_in_steps(compression, data, limit, Meter()))


FACTS = [Record(b"key %d" % n, b"value " * n, (("h", b"x"),), n, 1000 + n) for n in range(50)]


def xerial(data: bytes, block: int = 100) -> bytes:
    blocks = [bytes(cramjam.snappy.compress_raw(data[at : at + block])) for at in range(0, len(data), block)]
    return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + b"".join(struct.pack(">i", len(b)) + b for b in blocks)


FORMS: dict[str, tuple[Compression, Callable[[bytes], bytes]]] = {
    "gzip": (Compression.GZIP, gzip.compress),
    "gzip in two members": (Compression.GZIP, lambda data: gzip.compress(data[:99]) + gzip.compress(data[99:])),
    "snappy as Java frames it": (Compression.SNAPPY, xerial),
    "snappy as librdkafka sends it": (Compression.SNAPPY, lambda data: bytes(cramjam.snappy.compress_raw(data))),
    "lz4": (Compression.LZ4, lambda data: bytes(cramjam.lz4.compress(data))),
    "zstd": (Compression.ZSTD, lambda data: bytes(cramjam.zstd.compress(data))),
}


def compressed(form: str, facts: list[Record] = FACTS) -> bytes:
    codec, compress = FORMS[form]
    plain = encode(facts)
    return seal(msgspec.structs.replace(header_at(plain), attributes=codec), compress(plain[61:]))


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_read(form: str) -> None:
    raw = compressed(form)
    header = header_at(raw)
    assert header.compression == FORMS[form][0]
    assert read(raw, 0, header, Meter()) == FACTS


@pytest.mark.parametrize("form", FORMS)
def test_a_bomb_is_refused_at_the_bound(form: str) -> None:
    _, compress = FORMS[form]
    data = bytes(3_000_000)
    bomb = compress(data) if form != "snappy as Java frames it" else xerial(data, 500_000)
    assert decompress(FORMS[form][0], bomb, 3_000_000) == data
    with pytest.raises(DecompressionTooLargeError, match="more than 2999999 bytes"):
        decompress(FORMS[form][0], bomb, 2_999_999)
    with pytest.raises(DecompressionTooLargeError, match="more than 10 bytes"):
        decompress(FORMS[form][0], bomb, 10)


SIZES = (0, 1, 100, FEED_BYTES, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES, 1_000_003)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("what", ["zeros", "noise"])
def test_chunks_are_charged_before_the_next_one(form: str, size: int, what: str) -> None:
    """Whatever is packed: nothing is unpacked that the meter does not know of when the next chunk is asked for."""
    data = bytes(size) if what == "zeros" else random.Random(size).randbytes(size)
    codec, compress = FORMS[form]
    meter, total = Meter(), 0
    if size == 0 and form == "gzip in two members":
        return
    for chunk in unpack(codec, compress(data), size or 1, meter):
        total += len(chunk)
        assert meter.used >= total
        assert len(chunk) <= CHUNK_BYTES or form == "snappy as librdkafka sends it"
    assert total == size
    assert (1 << 62) - meter.left == size


@pytest.mark.parametrize("form", FORMS)
def test_a_refusal_costs_what_was_read(form: str) -> None:
    """Neither a bomb nor a batch that is broken at its end is free, and the meter bounds all of them together."""
    codec, compress = FORMS[form]
    bomb = compress(bytes(4_000_000))
    meter = Meter(left=2_500_000, step=1 << 62)
    with pytest.raises(ProtocolError):
        finish_steps(unpack_in_steps(codec, bomb[:-1] + bytes((bomb[-1] ^ 0xFF,)), 3_000_000, meter))
    raw = form == "snappy as librdkafka sends it"  # refused by what it claims
    assert raw or meter.used >= 2_000_000
    assert meter.left <= (2_500_000 if raw else 500_000)
    meter.left = 0
    used = meter.used
    with pytest.raises(DecompressionTooLargeError, match="more than 0 bytes"):
        unpack(codec, bomb, 3_000_000, meter)
    assert meter.used == used


@pytest.mark.parametrize("form", FORMS)
def test_unpacking_is_left_and_resumed(form: str) -> None:
    codec, compress = FORMS[form]
    data = bytes(3_000_000)
    packed = compress(data) if form != "snappy as Java frames it" else xerial(data, 32_768)
    meter = Meter()
    steps = unpack_in_steps(codec, packed, 1 << 26, meter)
    for _ in range(0 if form == "snappy as librdkafka sends it" else 2):
        next(steps)
    assert finish_steps(steps) == data
    count, _ = count_steps(unpack_in_steps(codec, packed, 1 << 26, Meter()))
    assert count <= 1 + 3_400_000 // STEP_BYTES, "others have their turn after each step, and not after each chunk"
    half = unpack_in_steps(codec, packed, 1 << 26, Meter())
    next(half, None)
    half.close()


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_frames_are_counted_and_paid_for(codec: Compression) -> None:
    """An empty frame takes ten or twenty bytes and costs as much as some kilobytes of records."""
    empty = FORMS[codec.name.lower()][1](b"")
    meter = Meter(step=1 << 62)
    assert finish_steps(unpack_in_steps(codec, empty * FRAMES_MAX, 1, meter)) == b""
    assert meter.used >= FRAMES_MAX * 1024
    with pytest.raises(ProtocolError, match="more than 1024 frames"):
        decompress(codec, empty * (FRAMES_MAX + 1))


@pytest.mark.parametrize("codec", list(Compression)[1:])
@given(pieces=st.lists(st.binary(max_size=200) | st.integers(0, 200_000).map(bytes), max_size=5))
def test_what_is_packed_unpacks_to_the_same(codec: Compression, pieces: list[bytes]) -> None:
    packed = finish_steps(pack_in_steps(codec, pieces, Meter()))
    assert decompress(codec, packed) == b"".join(pieces)
    if codec == Compression.LZ4:
        assert packed[4] & 0x20, "Java reads no blocks that refer to each other"


def test_a_claimed_size_is_not_believed() -> None:
    claims_a_gigabyte = b"\x80\x80\x80\x80\x04" + b"\x00a"
    with pytest.raises(ProtocolError):
        decompress(Compression.SNAPPY, claims_a_gigabyte, 100_000)
    with pytest.raises(ProtocolError, match="7 bytes of snappy do not hold 1048576"):
        decompress(Compression.SNAPPY, b"\x80\x80\x40" + b"\x00abc")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("damage", ["cut", "garbage", "nothing"])
def test_bytes_that_do_not_decompress_are_a_protocol_error(form: str, damage: str) -> None:
    codec, compress = FORMS[form]
    data = compress(encode(FACTS)[61:])
    bad = {"cut": data[: len(data) // 2], "garbage": b"\x07" * 40, "nothing": b""}[damage]
    raw = seal(msgspec.structs.replace(header_at(encode(FACTS)), attributes=codec), bad)
    with pytest.raises(ProtocolError):
        read(raw, 0, header_at(raw), Meter())


@pytest.mark.parametrize("length", [-1, 2**31 - 1, 1000])
def test_a_snappy_block_must_fit_what_is_left(length: int) -> None:
    framed = xerial(b"hello")
    with pytest.raises(ProtocolError, match="a snappy block of"):
        decompress(Compression.SNAPPY, framed[:16] + struct.pack(">i", length) + framed[20:])
    with pytest.raises(ProtocolError, match="length is cut off"):
        decompress(Compression.SNAPPY, framed + b"\0\0")


def test_snappy_blocks_are_counted() -> None:
    """A block without any bytes takes five on the wire, and each costs a call."""
    empty = struct.pack(">i", 1) + b"\0"
    head = xerial(b"")[:16]
    assert decompress(Compression.SNAPPY, head + empty * XERIAL_BLOCKS_MAX) == b""
    with pytest.raises(ProtocolError, match="more than 32768 snappy blocks"):
        decompress(Compression.SNAPPY, head + empty * (XERIAL_BLOCKS_MAX + 1))


def test_no_compression_is_no_work_and_an_unknown_one_is_refused() -> None:
    data = b"plain"
    assert decompress(Compression.NONE, data) is data
    for unknown in (5, 6, 7):
        with pytest.raises(ProtocolError, match="none that Kafka has"):
            decompress(unknown, data)


def test_an_empty_compressed_batch_is_not_decompressed() -> None:
    header = msgspec.structs.replace(header_at(encode(FACTS)), attributes=4, count=0)
    raw = seal(header, b"")
    assert record_batch.read(raw, 0, header_at(raw), Meter()) == []
