"""ListPartitionReassignments: the partitions whose replicas are being moved."""

from protocol.schema import Field, Message, Schema
from protocol.wire import INT16, INT32, NULLABLE_STRING, STRING, Array, NullableArray

CHANGES = {
    0: "KIP-455: the first version",
}


class ListPartitionReassignmentsRequestListPartitionReassignmentsTopics(Message):
    name: str = ""
    partition_indexes: tuple[int, ...] = ()


REQUEST_LIST_PARTITION_REASSIGNMENTS_TOPICS = Schema(
    ListPartitionReassignmentsRequestListPartitionReassignmentsTopics,
    (
        Field("name", STRING),
        Field("partition_indexes", Array(INT32)),
    ),
)


class ListPartitionReassignmentsRequest(Message):
    timeout_ms: int = 60000
    topics: tuple[ListPartitionReassignmentsRequestListPartitionReassignmentsTopics, ...] | None = None  # null: all


REQUEST = Schema(
    ListPartitionReassignmentsRequest,
    (
        Field("timeout_ms", INT32),
        Field("topics", NullableArray(REQUEST_LIST_PARTITION_REASSIGNMENTS_TOPICS)),
    ),
)


class ListPartitionReassignmentsResponseOngoingPartitionReassignment(Message):
    partition_index: int = 0
    replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()


RESPONSE_ONGOING_PARTITION_REASSIGNMENT = Schema(
    ListPartitionReassignmentsResponseOngoingPartitionReassignment,
    (
        Field("partition_index", INT32),
        Field("replicas", Array(INT32)),
        Field("adding_replicas", Array(INT32)),
        Field("removing_replicas", Array(INT32)),
    ),
)


class ListPartitionReassignmentsResponseOngoingTopicReassignment(Message):
    name: str = ""
    partitions: tuple[ListPartitionReassignmentsResponseOngoingPartitionReassignment, ...] = ()


RESPONSE_ONGOING_TOPIC_REASSIGNMENT = Schema(
    ListPartitionReassignmentsResponseOngoingTopicReassignment,
    (
        Field("name", STRING),
        Field("partitions", Array(RESPONSE_ONGOING_PARTITION_REASSIGNMENT)),
    ),
)


class ListPartitionReassignmentsResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    topics: tuple[ListPartitionReassignmentsResponseOngoingTopicReassignment, ...] = ()  # those in progress


RESPONSE = Schema(
    ListPartitionReassignmentsResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
        Field("topics", Array(RESPONSE_ONGOING_TOPIC_REASSIGNMENT)),
    ),
)
