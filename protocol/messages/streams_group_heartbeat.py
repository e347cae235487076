"""StreamsGroupHeartbeat: the one request of a member in a streams group (KIP-1071).

It joins with epoch 0 and the topology of its application, leaves with -1, reports the tasks that it owns and is told
the tasks that it shall own. Null fields have not changed since the last request; null tasks of the response likewise.
A task is a partition of a subtopology.
"""

from enum import IntEnum

from protocol.schema import Field, Message, Schema
from protocol.wire import (
    BOOLEAN,
    INT8,
    INT16,
    INT32,
    INT64,
    NULLABLE_STRING,
    STRING,
    UINT16,
    Array,
    Nullable,
    NullableArray,
)

CHANGES = {0: "KIP-1071: the first version"}


class StreamsGroupHeartbeatRequestKeyValue(Message):
    key: str = ""
    value: str = ""


REQUEST_KEY_VALUE = Schema(
    StreamsGroupHeartbeatRequestKeyValue,
    (
        Field("key", STRING),
        Field("value", STRING),
    ),
)


class StreamsGroupHeartbeatRequestTopicInfo(Message):
    name: str = ""
    partitions: int = 0  # 0: for the broker to decide; always 0 for changelogs
    replication_factor: int = 0  # 0: the broker's default
    topic_configs: tuple[StreamsGroupHeartbeatRequestKeyValue, ...] = ()


REQUEST_TOPIC_INFO = Schema(
    StreamsGroupHeartbeatRequestTopicInfo,
    (
        Field("name", STRING),
        Field("partitions", INT32),
        Field("replication_factor", INT16),
        Field("topic_configs", Array(REQUEST_KEY_VALUE)),
    ),
)


class StreamsGroupHeartbeatRequestCopartitionGroup(Message):
    source_topics: tuple[int, ...] = ()  # indices into the lists of the subtopology
    source_topic_regex: tuple[int, ...] = ()
    repartition_source_topics: tuple[int, ...] = ()


REQUEST_COPARTITION_GROUP = Schema(
    StreamsGroupHeartbeatRequestCopartitionGroup,
    (
        Field("source_topics", Array(INT16)),
        Field("source_topic_regex", Array(INT16)),
        Field("repartition_source_topics", Array(INT16)),
    ),
)


class StreamsGroupHeartbeatRequestSubtopology(Message):
    subtopology_id: str = ""
    source_topics: tuple[str, ...] = ()
    source_topic_regex: tuple[str, ...] = ()
    state_changelog_topics: tuple[StreamsGroupHeartbeatRequestTopicInfo, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    repartition_source_topics: tuple[StreamsGroupHeartbeatRequestTopicInfo, ...] = ()
    copartition_groups: tuple[StreamsGroupHeartbeatRequestCopartitionGroup, ...] = ()


REQUEST_SUBTOPOLOGY = Schema(
    StreamsGroupHeartbeatRequestSubtopology,
    (
        Field("subtopology_id", STRING),
        Field("source_topics", Array(STRING)),
        Field("source_topic_regex", Array(STRING)),
        Field("state_changelog_topics", Array(REQUEST_TOPIC_INFO)),
        Field("repartition_sink_topics", Array(STRING)),
        Field("repartition_source_topics", Array(REQUEST_TOPIC_INFO)),
        Field("copartition_groups", Array(REQUEST_COPARTITION_GROUP)),
    ),
)


class StreamsGroupHeartbeatRequestTopology(Message):
    epoch: int = 0
    subtopologies: tuple[StreamsGroupHeartbeatRequestSubtopology, ...] = ()


REQUEST_TOPOLOGY = Schema(
    StreamsGroupHeartbeatRequestTopology,
    (
        Field("epoch", INT32),
        Field("subtopologies", Array(REQUEST_SUBTOPOLOGY)),
    ),
)


class StreamsGroupHeartbeatRequestTaskIds(Message):
    subtopology_id: str = ""
    partitions: tuple[int, ...] = ()


REQUEST_TASK_IDS = Schema(
    StreamsGroupHeartbeatRequestTaskIds,
    (
        Field("subtopology_id", STRING),
        Field("partitions", Array(INT32)),
    ),
)


class StreamsGroupHeartbeatRequestEndpoint(Message):
    host: str = ""
    port: int = 0


REQUEST_ENDPOINT = Schema(
    StreamsGroupHeartbeatRequestEndpoint,
    (
        Field("host", STRING),
        Field("port", UINT16),
    ),
)


class StreamsGroupHeartbeatRequestTaskOffset(Message):
    subtopology_id: str = ""
    partition: int = 0
    offset: int = 0


REQUEST_TASK_OFFSET = Schema(
    StreamsGroupHeartbeatRequestTaskOffset,
    (
        Field("subtopology_id", STRING),
        Field("partition", INT32),
        Field("offset", INT64),
    ),
)


class StreamsGroupHeartbeatRequest(Message):
    group_id: str = ""
    member_id: str = ""
    member_epoch: int = 0  # 0 joins, -1 leaves
    endpoint_information_epoch: int = 0  # the latest one that the member was told
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1  # -1: unchanged
    topology: StreamsGroupHeartbeatRequestTopology | None = None  # only in a join
    active_tasks: tuple[StreamsGroupHeartbeatRequestTaskIds, ...] | None = None
    standby_tasks: tuple[StreamsGroupHeartbeatRequestTaskIds, ...] | None = None
    warmup_tasks: tuple[StreamsGroupHeartbeatRequestTaskIds, ...] | None = None
    process_id: str | None = None  # of the instance, which may have several members
    user_endpoint: StreamsGroupHeartbeatRequestEndpoint | None = None  # for interactive queries
    client_tags: tuple[StreamsGroupHeartbeatRequestKeyValue, ...] | None = None
    task_offsets: tuple[StreamsGroupHeartbeatRequestTaskOffset, ...] | None = None
    task_end_offsets: tuple[StreamsGroupHeartbeatRequestTaskOffset, ...] | None = None
    shutdown_application: bool = False


REQUEST = Schema(
    StreamsGroupHeartbeatRequest,
    (
        Field("group_id", STRING),
        Field("member_id", STRING),
        Field("member_epoch", INT32),
        Field("endpoint_information_epoch", INT32),
        Field("instance_id", NULLABLE_STRING),
        Field("rack_id", NULLABLE_STRING),
        Field("rebalance_timeout_ms", INT32),
        Field("topology", Nullable(REQUEST_TOPOLOGY)),
        Field("active_tasks", NullableArray(REQUEST_TASK_IDS)),
        Field("standby_tasks", NullableArray(REQUEST_TASK_IDS)),
        Field("warmup_tasks", NullableArray(REQUEST_TASK_IDS)),
        Field("process_id", NULLABLE_STRING),
        Field("user_endpoint", Nullable(REQUEST_ENDPOINT)),
        Field("client_tags", NullableArray(REQUEST_KEY_VALUE)),
        Field("task_offsets", NullableArray(REQUEST_TASK_OFFSET)),
        Field("task_end_offsets", NullableArray(REQUEST_TASK_OFFSET)),
        Field("shutdown_application", BOOLEAN),
    ),
)


class StatusCode(IntEnum):
    """What a member is told beside its tasks."""

    STALE_TOPOLOGY = 0  # the member's topology epoch is behind the group's
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3  # the coordinator has them created
    SHUTDOWN_APPLICATION = 4  # a member asked all of them to stop
    ASSIGNMENT_DELAYED = 5  # by the initial delay, or by the assignment interval


class StreamsGroupHeartbeatResponseStatus(Message):
    status_code: int = 0  # a `StatusCode`
    status_detail: str = ""


RESPONSE_STATUS = Schema(
    StreamsGroupHeartbeatResponseStatus,
    (
        Field("status_code", INT8),
        Field("status_detail", STRING),
    ),
)


class StreamsGroupHeartbeatResponseTaskIds(Message):
    subtopology_id: str = ""
    partitions: tuple[int, ...] = ()


RESPONSE_TASK_IDS = Schema(
    StreamsGroupHeartbeatResponseTaskIds,
    (
        Field("subtopology_id", STRING),
        Field("partitions", Array(INT32)),
    ),
)


class StreamsGroupHeartbeatResponseEndpoint(Message):
    host: str = ""
    port: int = 0


RESPONSE_ENDPOINT = Schema(
    StreamsGroupHeartbeatResponseEndpoint,
    (
        Field("host", STRING),
        Field("port", UINT16),
    ),
)


class StreamsGroupHeartbeatResponseTopicPartition(Message):
    topic: str = ""
    partitions: tuple[int, ...] = ()


RESPONSE_TOPIC_PARTITION = Schema(
    StreamsGroupHeartbeatResponseTopicPartition,
    (
        Field("topic", STRING),
        Field("partitions", Array(INT32)),
    ),
)


class StreamsGroupHeartbeatResponseEndpointToPartitions(Message):
    user_endpoint: StreamsGroupHeartbeatResponseEndpoint = StreamsGroupHeartbeatResponseEndpoint()
    active_partitions: tuple[StreamsGroupHeartbeatResponseTopicPartition, ...] = ()
    standby_partitions: tuple[StreamsGroupHeartbeatResponseTopicPartition, ...] = ()


RESPONSE_ENDPOINT_TO_PARTITIONS = Schema(
    StreamsGroupHeartbeatResponseEndpointToPartitions,
    (
        Field("user_endpoint", RESPONSE_ENDPOINT),
        Field("active_partitions", Array(RESPONSE_TOPIC_PARTITION)),
        Field("standby_partitions", Array(RESPONSE_TOPIC_PARTITION)),
    ),
)


class StreamsGroupHeartbeatResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    member_id: str = ""
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    acceptable_recovery_lag: int = 0
    task_offset_interval_ms: int = 0
    status: tuple[StreamsGroupHeartbeatResponseStatus, ...] | None = ()
    active_tasks: tuple[StreamsGroupHeartbeatResponseTaskIds, ...] | None = None
    standby_tasks: tuple[StreamsGroupHeartbeatResponseTaskIds, ...] | None = None
    warmup_tasks: tuple[StreamsGroupHeartbeatResponseTaskIds, ...] | None = None
    endpoint_information_epoch: int = 0
    partitions_by_user_endpoint: tuple[StreamsGroupHeartbeatResponseEndpointToPartitions, ...] | None = None


RESPONSE = Schema(
    StreamsGroupHeartbeatResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
        Field("member_id", STRING),
        Field("member_epoch", INT32),
        Field("heartbeat_interval_ms", INT32),
        Field("acceptable_recovery_lag", INT32),
        Field("task_offset_interval_ms", INT32),
        Field("status", NullableArray(RESPONSE_STATUS)),
        Field("active_tasks", NullableArray(RESPONSE_TASK_IDS)),
        Field("standby_tasks", NullableArray(RESPONSE_TASK_IDS)),
        Field("warmup_tasks", NullableArray(RESPONSE_TASK_IDS)),
        Field("endpoint_information_epoch", INT32),
        Field("partitions_by_user_endpoint", NullableArray(RESPONSE_ENDPOINT_TO_PARTITIONS)),
    ),
)
