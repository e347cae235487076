"""Batches that clients compress: read in all four codecs, and never past a bound."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable

import cramjam
import msgspec
import pytest

from protocol import record_batch
from protocol.compression import XERIAL_BLOCKS_MAX, Compression, DecompressionTooLargeError, decompress
from protocol.errors import ProtocolError
from protocol.record_batch import encode, header_at, read, seal
from protocol.records import Record

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
    assert read(raw, 0, header) == FACTS


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


def test_a_claimed_size_is_not_believed() -> None:
    claims_a_gigabyte = b"\x80\x80\x80\x80\x04" + b"\x00a"
    with pytest.raises(ProtocolError):
        decompress(Compression.SNAPPY, claims_a_gigabyte, 100_000)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("damage", ["cut", "garbage", "nothing"])
def test_bytes_that_do_not_decompress_are_a_protocol_error(form: str, damage: str) -> None:
    codec, compress = FORMS[form]
    data = compress(encode(FACTS)[61:])
    bad = {"cut": data[: len(data) // 2], "garbage": b"\x07" * 40, "nothing": b""}[damage]
    raw = seal(msgspec.structs.replace(header_at(encode(FACTS)), attributes=codec), bad)
    with pytest.raises(ProtocolError):
        read(raw, 0, header_at(raw))


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
    assert record_batch.read(raw, 0, header_at(raw)) == []
