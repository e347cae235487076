"""ShareGroupHeartbeat: the one request of a member of a share group (KIP-932).

It joins with epoch 0 and leaves with -1. A subscription that is null has not changed since the last request; an
assignment that is null in the response likewise.
"""

from protocol.schema import Field, Message, Schema
from protocol.wire import INT16, INT32, NULLABLE_STRING, STRING, UUID, ZERO_UUID, Array, Nullable, NullableArray

CHANGES = {
    1: "KIP-932: the first version that is not a preview",
}


class ShareGroupHeartbeatRequest(Message):
    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0  # 0 joins, -1 leaves
    rack_id: str | None = None
    subscribed_topic_names: tuple[str, ...] | None = None  # None: unchanged


REQUEST = Schema(
    ShareGroupHeartbeatRequest,
    (
        Field("group_id", STRING),
        Field("member_id", STRING),
        Field("member_epoch", INT32),
        Field("rack_id", NULLABLE_STRING),
        Field("subscribed_topic_names", NullableArray(STRING)),
    ),
)


class ShareGroupHeartbeatResponseTopicPartitions(Message):
    topic_id: bytes = ZERO_UUID
    partitions: tuple[int, ...] = ()


RESPONSE_TOPIC_PARTITIONS = Schema(
    ShareGroupHeartbeatResponseTopicPartitions,
    (
        Field("topic_id", UUID),
        Field("partitions", Array(INT32)),
    ),
)


class ShareGroupHeartbeatResponseAssignment(Message):
    topic_partitions: tuple[ShareGroupHeartbeatResponseTopicPartitions, ...] = ()


RESPONSE_ASSIGNMENT = Schema(
    ShareGroupHeartbeatResponseAssignment,
    (Field("topic_partitions", Array(RESPONSE_TOPIC_PARTITIONS)),),
)


class ShareGroupHeartbeatResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: ShareGroupHeartbeatResponseAssignment | None = None  # None: unchanged


RESPONSE = Schema(
    ShareGroupHeartbeatResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
        Field("member_id", NULLABLE_STRING),
        Field("member_epoch", INT32),
        Field("heartbeat_interval_ms", INT32),
        Field("assignment", Nullable(RESPONSE_ASSIGNMENT)),
    ),
)
