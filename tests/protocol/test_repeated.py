"""A request that differs from the one before in its rows or records alone, read by these and read as a whole."""

from __future__ import annotations

import random
from typing import Any

import pytest

from protocol.apis import BY_NAME
from protocol.codec import decode_request, encode_request
from protocol.errors import ProtocolError
from protocol.header import Request
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.produce import ProduceRequest, ProduceRequestPartitionData, ProduceRequestTopicData
from protocol.repeated_records import find_records
from protocol.repeated_rows import find_rows

COMMIT, PRODUCE = BY_NAME["OffsetCommit"], BY_NAME["Produce"]


def commit(version: int, correlation_id: int, offsets: list[int]) -> bytes:
    partitions = tuple([OffsetCommitRequestPartition(at, offset) for at, offset in enumerate(offsets)])
    topic = OffsetCommitRequestTopic(
        "t" if version < 10 else "", b"\7" * 16 if version >= 10 else bytes(16), partitions
    )
    body = OffsetCommitRequest("group", 3, "member", topics=(topic,))
    return encode_request(COMMIT.key, version, correlation_id, "client", body)[4:]


def produce(version: int, correlation_id: int, records: bytes) -> bytes:
    partition = ProduceRequestPartitionData(correlation_id % 7, records)
    name, topic_id = ("t", bytes(16)) if version < 13 else ("", b"\7" * 16)
    body = ProduceRequest(None, -1, 30_000, (ProduceRequestTopicData(name, topic_id, (partition,)),))
    return encode_request(PRODUCE.key, version, correlation_id, "client", body)[4:]


def read_whole(frame: bytes) -> Request | None:
    try:
        return decode_request(frame)
    except ProtocolError:
        return None


def check(find: Any, first: bytes, again: bytes, dice: random.Random) -> None:
    """Compare what is read of the frame that comes again; one that is changed is never read as another request than
    the whole frame is."""
    found = find(decode_request(first), first, 1000)
    assert found is not None
    for frame in (again, first):
        assert found.read(frame) == read_whole(frame) is not None
    assert find(decode_request(first), first, 10) is None, "more than is to be kept"
    for _ in range(60):
        spoilt, at = bytearray(again), dice.randrange(4, len(again))
        match dice.randrange(4):
            case 0:
                spoilt[at] ^= 1 << dice.randrange(8)
            case 1:
                del spoilt[at:]
            case 2:
                del spoilt[at : at + dice.choice((1, 4, 14))]
            case _:
                spoilt[at:at] = dice.randbytes(dice.choice((1, 4, 14)))
        read = found.read(bytes(spoilt))
        assert read is None or read == read_whole(bytes(spoilt)), bytes(spoilt).hex()
    for at in range(4):
        spoilt = bytearray(again)
        spoilt[at] ^= 1
        assert found.read(bytes(spoilt)) is None, "of another API or version"


@pytest.mark.parametrize("version", range(2, COMMIT.versions[-1] + 1))
def test_a_commit_of_other_offsets_is_read_by_its_rows(version: int) -> None:
    dice = random.Random(version)
    for count in (1, 2, 5, 40):
        first, again = ([dice.randrange(2**40) for _ in range(count)] for _ in range(2))
        check(find_rows, commit(version, 1, first), commit(version, 2, again), dice)


@pytest.mark.parametrize("version", range(3, PRODUCE.versions[-1] + 1))
def test_a_produce_of_other_records_is_read_by_its_records(version: int) -> None:
    dice = random.Random(version)
    for size in (70, 126, 127, 128, 900, 16_383, 16_384):
        first, again = dice.randbytes(size), dice.randbytes(dice.choice((70, 127, 20_000)))
        check(find_records, produce(version, 1, first), produce(version, 9, again), dice)


@pytest.mark.parametrize("version", range(3, PRODUCE.versions[-1] + 1))
@pytest.mark.parametrize("shape", [[], [[]], [[None]], [[b""]], [[b"x" * 70] * 2], [[b"x" * 70]] * 2], ids=str)
def test_no_other_shape_of_a_produce_is_taken_for_one(shape: list[list[bytes | None]], version: int) -> None:
    topics = tuple(
        [
            ProduceRequestTopicData(partition_data=tuple([ProduceRequestPartitionData(at, one) for one in records]))
            for at, records in enumerate(shape)
        ]
    )
    frame = encode_request(PRODUCE.key, version, 1, "client", ProduceRequest(None, -1, 30_000, topics))[4:]
    assert find_records(decode_request(frame), frame, 1000) is None


@pytest.mark.parametrize("version", range(2, COMMIT.versions[-1] + 1))
@pytest.mark.parametrize("counts", [[], [0], [1, 1]], ids=str)
def test_no_other_shape_of_a_commit_is_taken_for_one(counts: list[int], version: int) -> None:
    topics = tuple([OffsetCommitRequestTopic(partitions=(OffsetCommitRequestPartition(),) * one) for one in counts])
    frame = encode_request(COMMIT.key, version, 1, "client", OffsetCommitRequest("group", topics=topics))[4:]
    assert find_rows(decode_request(frame), frame, 1000) is None
