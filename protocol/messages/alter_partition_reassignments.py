"""AlterPartitionReassignments: begin or cancel moves of replicas."""

from protocol.schema import Field, Message, Schema
from protocol.wire import BOOLEAN, INT16, INT32, NULLABLE_STRING, STRING, Array, NullableArray

CHANGES = {
    0: "KIP-455: the first version",
    1: "KIP-860: changes of the number of replicas can be ruled out",
}


class AlterPartitionReassignmentsRequestReassignablePartition(Message):
    partition_index: int = 0
    replicas: tuple[int, ...] | None = None  # null: cancel the reassignment


REQUEST_REASSIGNABLE_PARTITION = Schema(
    AlterPartitionReassignmentsRequestReassignablePartition,
    (
        Field("partition_index", INT32),
        Field("replicas", NullableArray(INT32)),
    ),
)


class AlterPartitionReassignmentsRequestReassignableTopic(Message):
    name: str = ""
    partitions: tuple[AlterPartitionReassignmentsRequestReassignablePartition, ...] = ()


REQUEST_REASSIGNABLE_TOPIC = Schema(
    AlterPartitionReassignmentsRequestReassignableTopic,
    (
        Field("name", STRING),
        Field("partitions", Array(REQUEST_REASSIGNABLE_PARTITION)),
    ),
)


class AlterPartitionReassignmentsRequest(Message):
    timeout_ms: int = 60000
    allow_replication_factor_change: bool = True
    topics: tuple[AlterPartitionReassignmentsRequestReassignableTopic, ...] = ()


REQUEST = Schema(
    AlterPartitionReassignmentsRequest,
    (
        Field("timeout_ms", INT32),
        Field("allow_replication_factor_change", BOOLEAN, since=1),
        Field("topics", Array(REQUEST_REASSIGNABLE_TOPIC)),
    ),
)


class AlterPartitionReassignmentsResponseReassignablePartitionResponse(Message):
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None


RESPONSE_REASSIGNABLE_PARTITION_RESPONSE = Schema(
    AlterPartitionReassignmentsResponseReassignablePartitionResponse,
    (
        Field("partition_index", INT32),
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
    ),
)


class AlterPartitionReassignmentsResponseReassignableTopicResponse(Message):
    name: str = ""
    partitions: tuple[AlterPartitionReassignmentsResponseReassignablePartitionResponse, ...] = ()


RESPONSE_REASSIGNABLE_TOPIC_RESPONSE = Schema(
    AlterPartitionReassignmentsResponseReassignableTopicResponse,
    (
        Field("name", STRING),
        Field("partitions", Array(RESPONSE_REASSIGNABLE_PARTITION_RESPONSE)),
    ),
)


class AlterPartitionReassignmentsResponse(Message):
    throttle_time_ms: int = 0
    allow_replication_factor_change: bool = True
    error_code: int = 0
    error_message: str | None = None
    responses: tuple[AlterPartitionReassignmentsResponseReassignableTopicResponse, ...] = ()


RESPONSE = Schema(
    AlterPartitionReassignmentsResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("allow_replication_factor_change", BOOLEAN, since=1),
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
        Field("responses", Array(RESPONSE_REASSIGNABLE_TOPIC_RESPONSE)),
    ),
)
