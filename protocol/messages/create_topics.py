"""CreateTopics: new topics with their partitions and configs.

Partitions and replicas are numbers, or assignments of brokers to partitions, never both; -1 takes the server's
default (KIP-464).
"""

from protocol.schema import Field, Message, Schema
from protocol.wire import BOOLEAN, INT8, INT16, INT32, NULLABLE_STRING, STRING, UUID, ZERO_UUID, Array, NullableArray

CHANGES = {
    0: "KIP-4: the first version",
    1: "KIP-4: only check; an error message for each topic",
    2: "KIP-124: the answer says how long the client was throttled",
    3: "KIP-219: same bytes; a throttled client gets its answer at once and waits by itself",
    4: "KIP-464: same bytes; -1 takes the server's defaults",
    5: "KIP-482: flexible; KIP-525: the answer shows the topic's configs",
    6: "KIP-599: same bytes; THROTTLING_QUOTA_EXCEEDED may be answered",
    7: "KIP-516: the new topic's id",
}


class CreateTopicsRequestCreatableReplicaAssignment(Message):
    partition_index: int = 0
    broker_ids: tuple[int, ...] = ()


REQUEST_CREATABLE_REPLICA_ASSIGNMENT = Schema(
    CreateTopicsRequestCreatableReplicaAssignment,
    (
        Field("partition_index", INT32),
        Field("broker_ids", Array(INT32)),
    ),
)


class CreateTopicsRequestCreatableTopicConfig(Message):
    name: str = ""
    value: str | None = ""


REQUEST_CREATABLE_TOPIC_CONFIG = Schema(
    CreateTopicsRequestCreatableTopicConfig,
    (
        Field("name", STRING),
        Field("value", NULLABLE_STRING),
    ),
)


class CreateTopicsRequestCreatableTopic(Message):
    name: str = ""
    num_partitions: int = 0  # -1: the default, or the number of assignments
    replication_factor: int = 0  # -1: the default, or as assigned
    assignments: tuple[CreateTopicsRequestCreatableReplicaAssignment, ...] = ()
    configs: tuple[CreateTopicsRequestCreatableTopicConfig, ...] = ()


REQUEST_CREATABLE_TOPIC = Schema(
    CreateTopicsRequestCreatableTopic,
    (
        Field("name", STRING),
        Field("num_partitions", INT32),
        Field("replication_factor", INT16),
        Field("assignments", Array(REQUEST_CREATABLE_REPLICA_ASSIGNMENT)),
        Field("configs", Array(REQUEST_CREATABLE_TOPIC_CONFIG)),
    ),
)


class CreateTopicsRequest(Message):
    topics: tuple[CreateTopicsRequestCreatableTopic, ...] = ()
    timeout_ms: int = 60000
    validate_only: bool = False


REQUEST = Schema(
    CreateTopicsRequest,
    (
        Field("topics", Array(REQUEST_CREATABLE_TOPIC)),
        Field("timeout_ms", INT32),
        Field("validate_only", BOOLEAN, since=1),
    ),
)


class CreateTopicsResponseCreatableTopicConfigs(Message):
    name: str = ""
    value: str | None = ""
    read_only: bool = False
    config_source: int = -1
    is_sensitive: bool = False


RESPONSE_CREATABLE_TOPIC_CONFIGS = Schema(
    CreateTopicsResponseCreatableTopicConfigs,
    (
        Field("name", STRING, since=5),
        Field("value", NULLABLE_STRING, since=5),
        Field("read_only", BOOLEAN, since=5),
        Field("config_source", INT8, since=5),
        Field("is_sensitive", BOOLEAN, since=5),
    ),
)


class CreateTopicsResponseCreatableTopicResult(Message):
    name: str = ""
    topic_id: bytes = ZERO_UUID
    error_code: int = 0
    error_message: str | None = ""
    topic_config_error_code: int = 0
    num_partitions: int = -1
    replication_factor: int = -1
    configs: tuple[CreateTopicsResponseCreatableTopicConfigs, ...] | None = ()  # None: the client may not see them


RESPONSE_CREATABLE_TOPIC_RESULT = Schema(
    CreateTopicsResponseCreatableTopicResult,
    (
        Field("name", STRING),
        Field("topic_id", UUID, since=7),
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING, since=1),
        Field("topic_config_error_code", INT16, since=5, tag=0),
        Field("num_partitions", INT32, since=5),
        Field("replication_factor", INT16, since=5),
        Field("configs", NullableArray(RESPONSE_CREATABLE_TOPIC_CONFIGS), since=5),
    ),
)


class CreateTopicsResponse(Message):
    throttle_time_ms: int = 0
    topics: tuple[CreateTopicsResponseCreatableTopicResult, ...] = ()


RESPONSE = Schema(
    CreateTopicsResponse,
    (
        Field("throttle_time_ms", INT32, since=2),
        Field("topics", Array(RESPONSE_CREATABLE_TOPIC_RESULT)),
    ),
)
