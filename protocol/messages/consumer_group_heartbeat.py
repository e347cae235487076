"""ConsumerGroupHeartbeat: the one request of a member in a consumer group (KIP-848).

It joins with epoch 0, leaves with -1 (a static member that means to come back: -2), reports what it owns and hears
what it shall own. Null fields have not changed since the last request; the answer's assignment is null likewise.
"""

from protocol.schema import Field, Message, Schema
from protocol.wire import INT16, INT32, NULLABLE_STRING, STRING, UUID, ZERO_UUID, Array, Nullable, NullableArray

CHANGES = {
    0: "KIP-848: the first version",
    1: "KIP-848: a subscription by regular expression; KIP-1082: members make their own ids",
}


class ConsumerGroupHeartbeatRequestTopicPartitions(Message):
    topic_id: bytes = ZERO_UUID
    partitions: tuple[int, ...] = ()


REQUEST_TOPIC_PARTITIONS = Schema(
    ConsumerGroupHeartbeatRequestTopicPartitions,
    (
        Field("topic_id", UUID),
        Field("partitions", Array(INT32)),
    ),
)


class ConsumerGroupHeartbeatRequest(Message):
    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0  # 0 joins, -1 leaves, -2 leaves for a while
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1  # -1: unchanged
    subscribed_topic_names: tuple[str, ...] | None = None
    subscribed_topic_regex: str | None = None  # RE2 syntax
    server_assignor: str | None = None  # None: the server's first, or unchanged
    topic_partitions: tuple[ConsumerGroupHeartbeatRequestTopicPartitions, ...] | None = None  # what the member owns


REQUEST = Schema(
    ConsumerGroupHeartbeatRequest,
    (
        Field("group_id", STRING),
        Field("member_id", STRING),
        Field("member_epoch", INT32),
        Field("instance_id", NULLABLE_STRING),
        Field("rack_id", NULLABLE_STRING),
        Field("rebalance_timeout_ms", INT32),
        Field("subscribed_topic_names", NullableArray(STRING)),
        Field("subscribed_topic_regex", NULLABLE_STRING, since=1),
        Field("server_assignor", NULLABLE_STRING),
        Field("topic_partitions", NullableArray(REQUEST_TOPIC_PARTITIONS)),
    ),
)


class ConsumerGroupHeartbeatResponseTopicPartitions(Message):
    topic_id: bytes = ZERO_UUID
    partitions: tuple[int, ...] = ()


RESPONSE_TOPIC_PARTITIONS = Schema(
    ConsumerGroupHeartbeatResponseTopicPartitions,
    (
        Field("topic_id", UUID),
        Field("partitions", Array(INT32)),
    ),
)


class ConsumerGroupHeartbeatResponseAssignment(Message):
    topic_partitions: tuple[ConsumerGroupHeartbeatResponseTopicPartitions, ...] = ()


RESPONSE_ASSIGNMENT = Schema(
    ConsumerGroupHeartbeatResponseAssignment,
    (Field("topic_partitions", Array(RESPONSE_TOPIC_PARTITIONS)),),
)


class ConsumerGroupHeartbeatResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: ConsumerGroupHeartbeatResponseAssignment | None = None  # None: unchanged


RESPONSE = Schema(
    ConsumerGroupHeartbeatResponse,
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
