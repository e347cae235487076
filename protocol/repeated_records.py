"""A Produce that a client sends again with other records: of its frame, nothing but these and their partition is read.

│ key, version │ correlation id │ client id, acks, ..., topic │ partition, size, records │ tags ┆
└── the same ──┴───── own ──────┴───────── the same ──────────┴────────── own ───────────┴ the same
"""

from __future__ import annotations

from struct import Struct as Layout
from typing import Final, final

from msgspec import Struct
from msgspec.structs import replace

from protocol.apis import BY_NAME
from protocol.header import Request
from protocol.messages.produce import ProduceRequest, ProduceRequestPartitionData, ProduceRequestTopicData
from protocol.slow_paths import long_uvarint

_PRODUCE: Final = BY_NAME["Produce"]
_NUMBER: Final = Layout(">i")
_INDEX_AND_SIZE: Final = Layout(">ii")
_INDEX_BYTES: Final = 4
_FOUND_BY_BYTES: Final = 64  # of the records: the header of a batch, and more


@final
class RepeatedRecords(Struct, frozen=True, gc=False):
    """What a Produce to one partition has beside its records: the message, and the bytes."""

    request: Request  # without topics
    topic: ProduceRequestTopicData  # without partitions
    head: bytes  # API key and version
    before: bytes  # from the client id to the partition
    start: int  # of the partition
    after: bytes
    is_flexible: bool

    def read(self, frame: bytes) -> Request | None:
        """Return the request of a frame that differs in its correlation id, partition and records alone, else None."""
        start, after = self.start, self.after
        if frame[:4] != self.head or frame[8:start] != self.before or not frame.endswith(after):
            return None
        end = len(frame) - len(after)
        if end < start + 2 * _INDEX_BYTES:
            return None
        index, size = _INDEX_AND_SIZE.unpack_from(frame, start)
        if self.is_flexible:
            at = start + _INDEX_BYTES + 1
            size = frame[at - 1]
            if size > 0x7F:
                try:
                    size, at = long_uvarint(frame, at, size)
                except (ValueError, IndexError):
                    return None
            size -= 1
        else:
            at = start + _INDEX_AND_SIZE.size
        if size < 0 or at + size != end:
            return None
        (correlation_id,) = _NUMBER.unpack_from(frame, 4)
        same, topic = self.request, self.topic
        partition = ProduceRequestPartitionData(index, frame[at:end])
        body = ProduceRequest(
            same.body.transactional_id,
            same.body.acks,
            same.body.timeout_ms,
            (ProduceRequestTopicData(topic.name, topic.topic_id, (partition,)),),
        )
        return Request(same.api_key, same.version, correlation_id, same.client_id, body)


def find_records(request: Request, frame: bytes, bytes_max: int) -> RepeatedRecords | None:
    """Return what a Produce that was read has beside its records.

    None unless it has records of one partition, and at most so many bytes beside them.
    """
    body: ProduceRequest = request.body
    if len(body.topic_data) != 1 or len(body.topic_data[0].partition_data) != 1:
        return None
    topic, partition = body.topic_data[0], body.topic_data[0].partition_data[0]
    records = partition.records
    if not records or len(frame) - len(records) > bytes_max:
        return None
    at = frame.find(records[:_FOUND_BY_BYTES], 8, bytes_max + _FOUND_BY_BYTES)
    is_flexible = _PRODUCE.is_flexible(request.version)
    size_bytes = -(-(len(records) + 1).bit_length() // 7) if is_flexible else 4
    start, end = at - size_bytes - _INDEX_BYTES, at + len(records)
    of_all = ProduceRequest(body.transactional_id, body.acks, body.timeout_ms)
    found = RepeatedRecords(
        replace(request, body=of_all),
        ProduceRequestTopicData(topic.name, topic.topic_id),
        frame[:4],
        frame[8:start],
        start,
        frame[end:],
        is_flexible,
    )
    return found if found.read(frame) == request else None
