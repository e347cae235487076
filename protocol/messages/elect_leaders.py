"""ElectLeaders: elect the preferred replica, or any, as leader."""

from protocol.schema import Field, Message, Schema
from protocol.wire import INT8, INT16, INT32, NULLABLE_STRING, STRING, Array, NullableArray

CHANGES = {
    0: "KIP-183: the first version, for the preferred replica alone",
    1: "KIP-460: unclean elections",
    2: "KIP-482: flexible",
}


class ElectLeadersRequestTopicPartitions(Message):
    topic: str = ""
    partitions: tuple[int, ...] = ()


REQUEST_TOPIC_PARTITIONS = Schema(
    ElectLeadersRequestTopicPartitions,
    (
        Field("topic", STRING),
        Field("partitions", Array(INT32)),
    ),
)


class ElectLeadersRequest(Message):
    election_type: int = 0  # 0 the preferred replica, 1 any replica if none is in sync
    topic_partitions: tuple[ElectLeadersRequestTopicPartitions, ...] | None = ()  # null: all
    timeout_ms: int = 60000


REQUEST = Schema(
    ElectLeadersRequest,
    (
        Field("election_type", INT8, since=1),
        Field("topic_partitions", NullableArray(REQUEST_TOPIC_PARTITIONS)),
        Field("timeout_ms", INT32),
    ),
)


class ElectLeadersResponsePartitionResult(Message):
    partition_id: int = 0
    error_code: int = 0
    error_message: str | None = None


RESPONSE_PARTITION_RESULT = Schema(
    ElectLeadersResponsePartitionResult,
    (
        Field("partition_id", INT32),
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
    ),
)


class ElectLeadersResponseReplicaElectionResult(Message):
    topic: str = ""
    partition_result: tuple[ElectLeadersResponsePartitionResult, ...] = ()


RESPONSE_REPLICA_ELECTION_RESULT = Schema(
    ElectLeadersResponseReplicaElectionResult,
    (
        Field("topic", STRING),
        Field("partition_result", Array(RESPONSE_PARTITION_RESULT)),
    ),
)


class ElectLeadersResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    replica_election_results: tuple[ElectLeadersResponseReplicaElectionResult, ...] = ()


RESPONSE = Schema(
    ElectLeadersResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("error_code", INT16, since=1),
        Field("replica_election_results", Array(RESPONSE_REPLICA_ELECTION_RESULT)),
    ),
)
