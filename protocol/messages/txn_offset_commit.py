"""TxnOffsetCommit: offsets that count when the transaction commits, and never if it aborts."""

from protocol.schema import Field, Message, Schema
from protocol.wire import INT16, INT32, INT64, NULLABLE_STRING, STRING, Array

CHANGES = {
    0: "KIP-98: the first version",
    1: "KIP-219: same bytes; a throttled client gets its answer at once and waits by itself",
    2: "KIP-320: the leader epoch",
    3: "KIP-482: flexible; KIP-447: member, generation and instance id, so that zombies are fenced",
    4: "KIP-890: same bytes; TRANSACTION_ABORTABLE may be answered",
    5: "KIP-890: same bytes; committing adds the group to the transaction",
}


class TxnOffsetCommitRequestPartition(Message):
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1  # -1: unknown
    committed_metadata: str | None = ""


REQUEST_PARTITION = Schema(
    TxnOffsetCommitRequestPartition,
    (
        Field("partition_index", INT32),
        Field("committed_offset", INT64),
        Field("committed_leader_epoch", INT32, since=2),
        Field("committed_metadata", NULLABLE_STRING),
    ),
)


class TxnOffsetCommitRequestTopic(Message):
    name: str = ""
    partitions: tuple[TxnOffsetCommitRequestPartition, ...] = ()


REQUEST_TOPIC = Schema(
    TxnOffsetCommitRequestTopic,
    (
        Field("name", STRING),
        Field("partitions", Array(REQUEST_PARTITION)),
    ),
)


class TxnOffsetCommitRequest(Message):
    transactional_id: str = ""
    group_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    generation_id: int = -1  # -1: not as a member
    member_id: str = ""
    group_instance_id: str | None = None
    topics: tuple[TxnOffsetCommitRequestTopic, ...] = ()


REQUEST = Schema(
    TxnOffsetCommitRequest,
    (
        Field("transactional_id", STRING),
        Field("group_id", STRING),
        Field("producer_id", INT64),
        Field("producer_epoch", INT16),
        Field("generation_id", INT32, since=3),
        Field("member_id", STRING, since=3),
        Field("group_instance_id", NULLABLE_STRING, since=3),
        Field("topics", Array(REQUEST_TOPIC)),
    ),
)


class TxnOffsetCommitResponsePartition(Message):
    partition_index: int = 0
    error_code: int = 0


RESPONSE_PARTITION = Schema(
    TxnOffsetCommitResponsePartition,
    (
        Field("partition_index", INT32),
        Field("error_code", INT16),
    ),
)


class TxnOffsetCommitResponseTopic(Message):
    name: str = ""
    partitions: tuple[TxnOffsetCommitResponsePartition, ...] = ()


RESPONSE_TOPIC = Schema(
    TxnOffsetCommitResponseTopic,
    (
        Field("name", STRING),
        Field("partitions", Array(RESPONSE_PARTITION)),
    ),
)


class TxnOffsetCommitResponse(Message):
    throttle_time_ms: int = 0
    topics: tuple[TxnOffsetCommitResponseTopic, ...] = ()


RESPONSE = Schema(
    TxnOffsetCommitResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("topics", Array(RESPONSE_TOPIC)),
    ),
)
