"""OffsetCommit: a group remembers how far it has read.

A commit from outside of a group has an empty member id and generation -1.
"""

from collections.abc import Sequence

from protocol.schema import Field, Message, Schema
from protocol.wire import INT16, INT32, INT64, NULLABLE_STRING, STRING, UUID, ZERO_UUID, Array

CHANGES = {
    0: "the first version; offsets went to ZooKeeper",
    1: "offsets in Kafka, with member, generation and a time for each",
    2: "a retention time for all of the request instead of a time for each",
    3: "KIP-124: the answer says how long the client was throttled",
    4: "KIP-219: same bytes; a throttled client gets its answer at once and waits by itself",
    5: "KIP-211: the retention time is the server's alone",
    6: "KIP-320: the leader epoch of the last record read",
    7: "KIP-345: a static member names itself by its group instance id",
    8: "KIP-482: flexible, so compact lengths and tagged fields",
    9: "KIP-848: same bytes; the generation may be a member epoch, and STALE_MEMBER_EPOCH answers one of the past",
    10: "KIP-848: topics by id, no longer by name",
}


class OffsetCommitRequestPartition(Message):
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1  # -1: unknown
    commit_timestamp: int = -1  # ms since the epoch; -1: now
    committed_metadata: str | None = ""


REQUEST_PARTITION = Schema(
    OffsetCommitRequestPartition,
    (
        Field("partition_index", INT32),
        Field("committed_offset", INT64),
        Field("committed_leader_epoch", INT32, since=6),
        Field("commit_timestamp", INT64, since=1, until=1),
        Field("committed_metadata", NULLABLE_STRING),
    ),
)


class OffsetCommitRequestTopic(Message):
    name: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: Sequence[OffsetCommitRequestPartition] = ()


REQUEST_TOPIC = Schema(
    OffsetCommitRequestTopic,
    (
        Field("name", STRING, until=9),
        Field("topic_id", UUID, since=10),
        Field("partitions", Array(REQUEST_PARTITION, in_columns=True)),
    ),
)


class OffsetCommitRequest(Message):
    group_id: str = ""
    generation_id_or_member_epoch: int = -1  # -1: not as a member
    member_id: str = ""
    group_instance_id: str | None = None
    retention_time_ms: int = -1  # -1: as the server is set
    topics: tuple[OffsetCommitRequestTopic, ...] = ()


REQUEST = Schema(
    OffsetCommitRequest,
    (
        Field("group_id", STRING),
        Field("generation_id_or_member_epoch", INT32, since=1),
        Field("member_id", STRING, since=1),
        Field("group_instance_id", NULLABLE_STRING, since=7),
        Field("retention_time_ms", INT64, since=2, until=4),
        Field("topics", Array(REQUEST_TOPIC)),
    ),
)


class OffsetCommitResponsePartition(Message):
    partition_index: int = 0
    error_code: int = 0


RESPONSE_PARTITION = Schema(
    OffsetCommitResponsePartition,
    (
        Field("partition_index", INT32),
        Field("error_code", INT16),
    ),
)


class OffsetCommitResponseTopic(Message):
    name: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: tuple[OffsetCommitResponsePartition, ...] = ()


RESPONSE_TOPIC = Schema(
    OffsetCommitResponseTopic,
    (
        Field("name", STRING, until=9),
        Field("topic_id", UUID, since=10),
        Field("partitions", Array(RESPONSE_PARTITION)),
    ),
)


class OffsetCommitResponse(Message):
    throttle_time_ms: int = 0
    topics: tuple[OffsetCommitResponseTopic, ...] = ()


RESPONSE = Schema(
    OffsetCommitResponse,
    (
        Field("throttle_time_ms", INT32, since=3),
        Field("topics", Array(RESPONSE_TOPIC)),
    ),
)
