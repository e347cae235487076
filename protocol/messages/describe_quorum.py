"""DescribeQuorum: the voters of the metadata log (KIP-595)."""

from protocol.schema import Field, Message, Schema
from protocol.wire import INT16, INT32, INT64, NULLABLE_STRING, STRING, UINT16, UUID, ZERO_UUID, Array

CHANGES = {
    0: "KIP-595: the first version",
    1: "KIP-836: when each replica last fetched, and was caught up",
    2: "KIP-853: directories, listeners and messages",
}


class DescribeQuorumRequestPartitionData(Message):
    partition_index: int = 0


REQUEST_PARTITION_DATA = Schema(
    DescribeQuorumRequestPartitionData,
    (Field("partition_index", INT32),),
)


class DescribeQuorumRequestTopicData(Message):
    topic_name: str = ""
    partitions: tuple[DescribeQuorumRequestPartitionData, ...] = ()


REQUEST_TOPIC_DATA = Schema(
    DescribeQuorumRequestTopicData,
    (
        Field("topic_name", STRING),
        Field("partitions", Array(REQUEST_PARTITION_DATA)),
    ),
)


class DescribeQuorumRequest(Message):
    topics: tuple[DescribeQuorumRequestTopicData, ...] = ()


REQUEST = Schema(
    DescribeQuorumRequest,
    (Field("topics", Array(REQUEST_TOPIC_DATA)),),
)


class DescribeQuorumResponseReplicaState(Message):
    replica_id: int = 0
    replica_directory_id: bytes = ZERO_UUID
    log_end_offset: int = 0  # -1: unknown
    last_fetch_timestamp: int = -1  # -1: unknown
    last_caught_up_timestamp: int = -1  # -1: unknown


RESPONSE_REPLICA_STATE = Schema(
    DescribeQuorumResponseReplicaState,
    (
        Field("replica_id", INT32),
        Field("replica_directory_id", UUID, since=2),
        Field("log_end_offset", INT64),
        Field("last_fetch_timestamp", INT64, since=1),
        Field("last_caught_up_timestamp", INT64, since=1),
    ),
)


class DescribeQuorumResponsePartitionData(Message):
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    leader_id: int = 0  # -1: unknown
    leader_epoch: int = 0
    high_watermark: int = 0
    current_voters: tuple[DescribeQuorumResponseReplicaState, ...] = ()
    observers: tuple[DescribeQuorumResponseReplicaState, ...] = ()


RESPONSE_PARTITION_DATA = Schema(
    DescribeQuorumResponsePartitionData,
    (
        Field("partition_index", INT32),
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING, since=2),
        Field("leader_id", INT32),
        Field("leader_epoch", INT32),
        Field("high_watermark", INT64),
        Field("current_voters", Array(RESPONSE_REPLICA_STATE)),
        Field("observers", Array(RESPONSE_REPLICA_STATE)),
    ),
)


class DescribeQuorumResponseTopicData(Message):
    topic_name: str = ""
    partitions: tuple[DescribeQuorumResponsePartitionData, ...] = ()


RESPONSE_TOPIC_DATA = Schema(
    DescribeQuorumResponseTopicData,
    (
        Field("topic_name", STRING),
        Field("partitions", Array(RESPONSE_PARTITION_DATA)),
    ),
)


class DescribeQuorumResponseListener(Message):
    name: str = ""
    host: str = ""
    port: int = 0


RESPONSE_LISTENER = Schema(
    DescribeQuorumResponseListener,
    (
        Field("name", STRING, since=2),
        Field("host", STRING, since=2),
        Field("port", UINT16, since=2),
    ),
)


class DescribeQuorumResponseNode(Message):
    node_id: int = 0
    listeners: tuple[DescribeQuorumResponseListener, ...] = ()


RESPONSE_NODE = Schema(
    DescribeQuorumResponseNode,
    (
        Field("node_id", INT32, since=2),
        Field("listeners", Array(RESPONSE_LISTENER), since=2),
    ),
)


class DescribeQuorumResponse(Message):
    error_code: int = 0
    error_message: str | None = None
    topics: tuple[DescribeQuorumResponseTopicData, ...] = ()
    nodes: tuple[DescribeQuorumResponseNode, ...] = ()


RESPONSE = Schema(
    DescribeQuorumResponse,
    (
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING, since=2),
        Field("topics", Array(RESPONSE_TOPIC_DATA)),
        Field("nodes", Array(RESPONSE_NODE), since=2),
    ),
)
