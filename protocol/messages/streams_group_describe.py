"""StreamsGroupDescribe: streams groups (KIP-1071) with epochs, topology, members, current and target tasks."""

from protocol.schema import Field, Message, Schema
from protocol.wire import BOOLEAN, INT16, INT32, INT64, NULLABLE_STRING, STRING, UINT16, Array, Nullable, NullableArray

CHANGES = {0: "KIP-1071: the first version"}


class StreamsGroupDescribeRequest(Message):
    group_ids: tuple[str, ...] = ()
    include_authorized_operations: bool = False


REQUEST = Schema(
    StreamsGroupDescribeRequest,
    (
        Field("group_ids", Array(STRING)),
        Field("include_authorized_operations", BOOLEAN),
    ),
)


class StreamsGroupDescribeResponseKeyValue(Message):
    key: str = ""
    value: str = ""


RESPONSE_KEY_VALUE = Schema(
    StreamsGroupDescribeResponseKeyValue,
    (
        Field("key", STRING),
        Field("value", STRING),
    ),
)


class StreamsGroupDescribeResponseTopicInfo(Message):
    name: str = ""
    partitions: int = 0  # 0 until the topology is configured
    replication_factor: int = 0
    topic_configs: tuple[StreamsGroupDescribeResponseKeyValue, ...] = ()


RESPONSE_TOPIC_INFO = Schema(
    StreamsGroupDescribeResponseTopicInfo,
    (
        Field("name", STRING),
        Field("partitions", INT32),
        Field("replication_factor", INT16),
        Field("topic_configs", Array(RESPONSE_KEY_VALUE)),
    ),
)


class StreamsGroupDescribeResponseSubtopology(Message):
    subtopology_id: str = ""
    source_topics: tuple[str, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    state_changelog_topics: tuple[StreamsGroupDescribeResponseTopicInfo, ...] = ()
    repartition_source_topics: tuple[StreamsGroupDescribeResponseTopicInfo, ...] = ()


RESPONSE_SUBTOPOLOGY = Schema(
    StreamsGroupDescribeResponseSubtopology,
    (
        Field("subtopology_id", STRING),
        Field("source_topics", Array(STRING)),
        Field("repartition_sink_topics", Array(STRING)),
        Field("state_changelog_topics", Array(RESPONSE_TOPIC_INFO)),
        Field("repartition_source_topics", Array(RESPONSE_TOPIC_INFO)),
    ),
)


class StreamsGroupDescribeResponseTopology(Message):
    epoch: int = 0
    subtopologies: tuple[StreamsGroupDescribeResponseSubtopology, ...] | None = None


RESPONSE_TOPOLOGY = Schema(
    StreamsGroupDescribeResponseTopology,
    (
        Field("epoch", INT32),
        Field("subtopologies", NullableArray(RESPONSE_SUBTOPOLOGY)),
    ),
)


class StreamsGroupDescribeResponseEndpoint(Message):
    host: str = ""
    port: int = 0


RESPONSE_ENDPOINT = Schema(
    StreamsGroupDescribeResponseEndpoint,
    (
        Field("host", STRING),
        Field("port", UINT16),
    ),
)


class StreamsGroupDescribeResponseTaskOffset(Message):
    subtopology_id: str = ""
    partition: int = 0
    offset: int = 0


RESPONSE_TASK_OFFSET = Schema(
    StreamsGroupDescribeResponseTaskOffset,
    (
        Field("subtopology_id", STRING),
        Field("partition", INT32),
        Field("offset", INT64),
    ),
)


class StreamsGroupDescribeResponseTaskIds(Message):
    subtopology_id: str = ""
    partitions: tuple[int, ...] = ()


RESPONSE_TASK_IDS = Schema(
    StreamsGroupDescribeResponseTaskIds,
    (
        Field("subtopology_id", STRING),
        Field("partitions", Array(INT32)),
    ),
)


class StreamsGroupDescribeResponseAssignment(Message):
    active_tasks: tuple[StreamsGroupDescribeResponseTaskIds, ...] = ()
    standby_tasks: tuple[StreamsGroupDescribeResponseTaskIds, ...] = ()
    warmup_tasks: tuple[StreamsGroupDescribeResponseTaskIds, ...] = ()


RESPONSE_ASSIGNMENT = Schema(
    StreamsGroupDescribeResponseAssignment,
    (
        Field("active_tasks", Array(RESPONSE_TASK_IDS)),
        Field("standby_tasks", Array(RESPONSE_TASK_IDS)),
        Field("warmup_tasks", Array(RESPONSE_TASK_IDS)),
    ),
)


class StreamsGroupDescribeResponseMember(Message):
    member_id: str = ""
    member_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topology_epoch: int = 0
    process_id: str = ""
    user_endpoint: StreamsGroupDescribeResponseEndpoint | None = None
    client_tags: tuple[StreamsGroupDescribeResponseKeyValue, ...] = ()
    task_offsets: tuple[StreamsGroupDescribeResponseTaskOffset, ...] = ()
    task_end_offsets: tuple[StreamsGroupDescribeResponseTaskOffset, ...] = ()
    assignment: StreamsGroupDescribeResponseAssignment = StreamsGroupDescribeResponseAssignment()
    target_assignment: StreamsGroupDescribeResponseAssignment = StreamsGroupDescribeResponseAssignment()
    is_classic: bool = False  # always false: no group has members of both protocols


RESPONSE_MEMBER = Schema(
    StreamsGroupDescribeResponseMember,
    (
        Field("member_id", STRING),
        Field("member_epoch", INT32),
        Field("instance_id", NULLABLE_STRING),
        Field("rack_id", NULLABLE_STRING),
        Field("client_id", STRING),
        Field("client_host", STRING),
        Field("topology_epoch", INT32),
        Field("process_id", STRING),
        Field("user_endpoint", Nullable(RESPONSE_ENDPOINT)),
        Field("client_tags", Array(RESPONSE_KEY_VALUE)),
        Field("task_offsets", Array(RESPONSE_TASK_OFFSET)),
        Field("task_end_offsets", Array(RESPONSE_TASK_OFFSET)),
        Field("assignment", RESPONSE_ASSIGNMENT),
        Field("target_assignment", RESPONSE_ASSIGNMENT),
        Field("is_classic", BOOLEAN),
    ),
)


class StreamsGroupDescribeResponseDescribedGroup(Message):
    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    topology: StreamsGroupDescribeResponseTopology | None = None  # None beside an error
    members: tuple[StreamsGroupDescribeResponseMember, ...] = ()
    authorized_operations: int = -(2**31)  # bits by operation; the default: not asked for


RESPONSE_DESCRIBED_GROUP = Schema(
    StreamsGroupDescribeResponseDescribedGroup,
    (
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
        Field("group_id", STRING),
        Field("group_state", STRING),
        Field("group_epoch", INT32),
        Field("assignment_epoch", INT32),
        Field("topology", Nullable(RESPONSE_TOPOLOGY)),
        Field("members", Array(RESPONSE_MEMBER)),
        Field("authorized_operations", INT32),
    ),
)


class StreamsGroupDescribeResponse(Message):
    throttle_time_ms: int = 0
    groups: tuple[StreamsGroupDescribeResponseDescribedGroup, ...] = ()


RESPONSE = Schema(
    StreamsGroupDescribeResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("groups", Array(RESPONSE_DESCRIBED_GROUP)),
    ),
)
