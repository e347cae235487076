"""OffsetForLeaderEpoch: where a leader epoch ended, so that a consumer notices a truncated log."""

from protocol.schema import Field, Message, Schema
from protocol.wire import INT16, INT32, INT64, STRING, Array

CHANGES = {
    0: "KIP-101: the first version, between replicas",
    1: "KIP-279: the epoch that the answer speaks of",
    2: "KIP-320: consumers ask too, with the leader epoch they believe in",
    3: "the id of the requesting replica; a consumer sends -1",
    4: "KIP-482: flexible, so compact lengths and tagged fields",
}


class OffsetForLeaderEpochRequestPartition(Message):
    partition: int = 0
    current_leader_epoch: int = -1
    leader_epoch: int = 0


REQUEST_PARTITION = Schema(
    OffsetForLeaderEpochRequestPartition,
    (
        Field("partition", INT32),
        Field("current_leader_epoch", INT32, since=2),
        Field("leader_epoch", INT32),
    ),
)


class OffsetForLeaderEpochRequestTopic(Message):
    topic: str = ""
    partitions: tuple[OffsetForLeaderEpochRequestPartition, ...] = ()


REQUEST_TOPIC = Schema(
    OffsetForLeaderEpochRequestTopic,
    (
        Field("topic", STRING),
        Field("partitions", Array(REQUEST_PARTITION)),
    ),
)


class OffsetForLeaderEpochRequest(Message):
    replica_id: int = -2  # -1: a consumer, -2: a debugging consumer
    topics: tuple[OffsetForLeaderEpochRequestTopic, ...] = ()


REQUEST = Schema(
    OffsetForLeaderEpochRequest,
    (
        Field("replica_id", INT32, since=3),
        Field("topics", Array(REQUEST_TOPIC)),
    ),
)


class OffsetForLeaderEpochResponseEpochEndOffset(Message):
    error_code: int = 0
    partition: int = 0
    leader_epoch: int = -1
    end_offset: int = -1  # -1: unknown epoch


RESPONSE_EPOCH_END_OFFSET = Schema(
    OffsetForLeaderEpochResponseEpochEndOffset,
    (
        Field("error_code", INT16),
        Field("partition", INT32),
        Field("leader_epoch", INT32, since=1),
        Field("end_offset", INT64),
    ),
)


class OffsetForLeaderEpochResponseTopicResult(Message):
    topic: str = ""
    partitions: tuple[OffsetForLeaderEpochResponseEpochEndOffset, ...] = ()


RESPONSE_TOPIC_RESULT = Schema(
    OffsetForLeaderEpochResponseTopicResult,
    (
        Field("topic", STRING),
        Field("partitions", Array(RESPONSE_EPOCH_END_OFFSET)),
    ),
)


class OffsetForLeaderEpochResponse(Message):
    throttle_time_ms: int = 0
    topics: tuple[OffsetForLeaderEpochResponseTopicResult, ...] = ()


RESPONSE = Schema(
    OffsetForLeaderEpochResponse,
    (
        Field("throttle_time_ms", INT32, since=2),
        Field("topics", Array(RESPONSE_TOPIC_RESULT)),
    ),
)
