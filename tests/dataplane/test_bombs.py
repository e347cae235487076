"""Batches that unpack to much more than they take on the wire: no step unpacks more than a few chunks of them, whatever
becomes of them in the end, and a request no more than its allowance."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import partial
from typing import Any

import cramjam
import lz4.frame
import msgspec
import pytest

from coordinator.core.decision import PARKED
from protocol import compression, record_batch
from protocol.batch_validation import BATCH_UNPACKED_BYTES_MAX, REQUEST_UNPACKED_BYTES_MAX
from protocol.compression import CHUNK_BYTES, STEP_BYTES, Compression, Meter
from protocol.errors import ErrorCode
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestDeleteTopicState
from protocol.messages.produce import ProduceRequest, ProduceRequestPartitionData, ProduceRequestTopicData
from protocol.records import varint
from tests.dataplane.broker import NODES, Broker, call
from tests.dataplane.stepping import ask_in_steps
from tests.requests import list_offsets

STEP_MAX = STEP_BYTES + 2 * CHUNK_BYTES
PACK: dict[Compression, Callable[[bytes], Any]] = {
    Compression.GZIP: gzip.compress,
    Compression.LZ4: partial(lz4.frame.compress, block_linked=False),
    Compression.ZSTD: cramjam.zstd.compress,
}


def record(place: int, value_bytes: int, time: int = 0) -> bytes:
    body = b"\0" + varint(time) + varint(place) + b"\1" + varint(value_bytes) + bytes(value_bytes) + b"\0"
    return varint(len(body)) + body


def batch(codec: Compression, *value_bytes: int, tail: bytes = b"", cut: int = 0) -> bytes:
    body = b"".join([record(place, size, time=place) for place, size in enumerate(value_bytes)])
    count = len(value_bytes)
    header = record_batch.BatchHeader(0, 0, 0, 2, 0, codec, count - 1, 1000, 999 + count, -1, -1, -1, count)
    packed = bytes(PACK[codec](body + tail))
    return record_batch.seal(header, packed[: len(packed) - cut])


def produce(data: bytes, times: int) -> ProduceRequest:
    entries = tuple([ProduceRequestPartitionData(0, data)] * times)
    return ProduceRequest(acks=-1, timeout_ms=1, topic_data=(ProduceRequestTopicData("t", partition_data=entries),))


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes that each step unpacks, where a step begins with a zero."""
    unpacked = [0]
    charge = Meter.charge

    def noting(meter: Meter, size: int, overhead: int = 0) -> None:
        unpacked[-1] += size
        charge(meter, size, overhead)

    monkeypatch.setattr(Meter, "charge", noting)
    return unpacked


def ask(broker: Broker, api_key: int, request: Any, unpacked: list[int]) -> Any:
    step = broker.node.engine.long_requests.step

    def next_step() -> None:
        unpacked.append(0)
        step()

    broker.node.engine.long_requests.step = next_step
    return ask_in_steps(broker, api_key, request)[0]


@pytest.mark.parametrize("codec", PACK)
@pytest.mark.parametrize("fault", ["too large", "bytes behind the records", "cut off"])
def test_what_is_refused_is_unpacked_in_steps_and_on_the_requests_account(
    codec: Compression, fault: str, steps: list[int]
) -> None:
    """The same partition is named again and again, which Kafka's clients never do."""
    size = BATCH_UNPACKED_BYTES_MAX + 1_000_000 if fault == "too large" else 8_000_000
    tail = b"more" if fault == "bytes behind the records" else b""
    data = batch(codec, size, tail=tail, cut=3 if fault == "cut off" else 0)
    response = ask(Broker(topics={"t": 1}), 0, produce(data, 20), steps)
    errors = [one.error_code for one in response.responses[0].partition_responses]
    assert len(errors) == 20 and ErrorCode.NONE not in errors
    assert errors[-1] == ErrorCode.MESSAGE_TOO_LARGE
    assert max(steps) <= STEP_MAX
    assert sum(steps) <= REQUEST_UNPACKED_BYTES_MAX + CHUNK_BYTES


@pytest.mark.parametrize("codec", PACK)
def test_offsets_by_time_are_looked_up_in_steps_and_no_further_than_needed(
    codec: Compression, steps: list[int]
) -> None:
    broker = Broker(topics={"t": 1})
    data = batch(codec, 10, 20_000_000, 10)
    assert broker.ask(produce(data, 1)).responses[0].partition_responses[0].error_code == 0
    steps[:] = [0]
    (found,) = ask(broker, 2, list_offsets("t", {0: 1000}), steps).topics[0].partitions
    assert (found.offset, found.timestamp) == (0, 1000)
    assert sum(steps) <= CHUNK_BYTES
    steps[:] = [0]
    (found,) = ask(broker, 2, list_offsets("t", {0: -3}), steps).topics[0].partitions
    assert (found.offset, found.timestamp) == (2, 1002)
    assert max(steps) <= STEP_MAX
    assert sum(steps) >= 20_000_000


def test_a_partition_that_goes_between_two_steps_of_a_lookup_has_no_offset() -> None:
    broker = Broker(topics={"t": 1})
    broker.ask(produce(batch(Compression.ZSTD, 20_000_000, 10), 1))
    request = list_offsets("t", {0: -3})

    assert broker.node.engine.handle(2, request, call(request), NODES) is PARKED
    broker.node.engine.long_requests.step()
    broker.ask(DeleteTopicsRequest((DeleteTopicsRequestDeleteTopicState("t"),)), ticket=2)
    while broker.node.engine.unfinished:
        broker.node.engine.long_requests.step()
        broker.node.engine.flush()
    ((_, response),) = broker.replies()
    assert response.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_tiny_frames_are_paid_for() -> None:
    empty = cramjam.zstd.compress(b"")
    meter = Meter()
    steps = compression.unpack_in_steps(Compression.ZSTD, bytes(empty) * 1000, 10, meter)
    assert sum(1 for _ in steps) >= 3


def test_headers_are_walked_over_in_steps() -> None:
    """A record may have 65,536 headers, and a request two million."""
    headers = varint(60_000) + b"\0\1" * 60_000
    body = b"\0\0\0\1\1" + headers
    one = varint(len(body)) + body
    plain = b"".join([one] * 30)
    header = msgspec.structs.replace(record_batch.header_at(batch(Compression.ZSTD, 1)), count=30, last_offset_delta=29)
    data = record_batch.seal(header, bytes(cramjam.zstd.compress(plain)))
    _, calls = ask_in_steps(Broker(topics={"t": 1}), 0, produce(data, 1))
    assert len(calls) >= 30
