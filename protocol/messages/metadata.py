"""Metadata: the brokers, and who leads which partition of which topics.

The question for all topics is an empty array in version 0 and a null one from version 1 on, where an empty array
asks for no topic at all, only for the brokers.
"""

from protocol.schema import Field, Message, Schema
from protocol.wire import BOOLEAN, INT16, INT32, NULLABLE_STRING, STRING, UUID, ZERO_UUID, Array

CHANGES = {
    0: "the first version; an empty array of topics means all",
    1: "KIP-4: null means all topics, the controller, internal topics; KIP-36: the rack of a broker",
    2: "KIP-78: the cluster id",
    3: "KIP-124: the answer says how long the client was throttled",
    4: "KAFKA-5291: a client may forbid that asking creates the topic",
    5: "KIP-112: replicas whose log directory is offline",
    6: "KIP-219: same bytes; a throttled client gets its answer at once and waits by itself",
    7: "KIP-320: the leader epoch",
    8: "KIP-430: authorized operations, if asked",
    9: "KIP-482: flexible, so compact lengths and tagged fields",
    10: "KIP-516: topic ids in the answer; the fields of the request are there, but servers ignored them",
    11: "KIP-700: the cluster's authorized operations moved to DescribeCluster",
    12: "KIP-516: topics may be asked by id",
    13: "KIP-1102: an error of the whole answer, for REBOOTSTRAP_REQUIRED",
}


class MetadataRequestTopic(Message):
    topic_id: bytes = ZERO_UUID  # used where name is None
    name: str | None = ""


REQUEST_TOPIC = Schema(
    MetadataRequestTopic,
    (
        Field("topic_id", UUID, since=10),
        Field("name", STRING, nullable_since=10),
    ),
)


class MetadataRequest(Message):
    topics: tuple[MetadataRequestTopic, ...] | None = ()  # None: all topics
    allow_auto_topic_creation: bool = True
    include_cluster_authorized_operations: bool = False
    include_topic_authorized_operations: bool = False


REQUEST = Schema(
    MetadataRequest,
    (
        Field("topics", Array(REQUEST_TOPIC), nullable_since=1),
        Field("allow_auto_topic_creation", BOOLEAN, since=4),
        Field("include_cluster_authorized_operations", BOOLEAN, since=8, until=10),
        Field("include_topic_authorized_operations", BOOLEAN, since=8),
    ),
)


class MetadataResponseBroker(Message):
    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


RESPONSE_BROKER = Schema(
    MetadataResponseBroker,
    (
        Field("node_id", INT32),
        Field("host", STRING),
        Field("port", INT32),
        Field("rack", NULLABLE_STRING, since=1),
    ),
)


class MetadataResponsePartition(Message):
    error_code: int = 0
    partition_index: int = 0
    leader_id: int = 0  # -1: no leader
    leader_epoch: int = -1
    replica_nodes: tuple[int, ...] = ()
    isr_nodes: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()


RESPONSE_PARTITION = Schema(
    MetadataResponsePartition,
    (
        Field("error_code", INT16),
        Field("partition_index", INT32),
        Field("leader_id", INT32),
        Field("leader_epoch", INT32, since=7),
        Field("replica_nodes", Array(INT32)),
        Field("isr_nodes", Array(INT32)),
        Field("offline_replicas", Array(INT32), since=5),
    ),
)


class MetadataResponseTopic(Message):
    error_code: int = 0
    name: str | None = ""  # None: asked by an id that nobody has
    topic_id: bytes = ZERO_UUID
    is_internal: bool = False
    partitions: tuple[MetadataResponsePartition, ...] = ()
    topic_authorized_operations: int = -(2**31)  # bits by operation; the default: not asked for


RESPONSE_TOPIC = Schema(
    MetadataResponseTopic,
    (
        Field("error_code", INT16),
        Field("name", STRING, nullable_since=12),
        Field("topic_id", UUID, since=10),
        Field("is_internal", BOOLEAN, since=1),
        Field("partitions", Array(RESPONSE_PARTITION)),
        Field("topic_authorized_operations", INT32, since=8),
    ),
)


class MetadataResponse(Message):
    throttle_time_ms: int = 0
    brokers: tuple[MetadataResponseBroker, ...] = ()
    cluster_id: str | None = None
    controller_id: int = -1  # -1: none
    topics: tuple[MetadataResponseTopic, ...] = ()
    cluster_authorized_operations: int = -(2**31)  # bits by operation; the default: not asked for
    error_code: int = 0


RESPONSE = Schema(
    MetadataResponse,
    (
        Field("throttle_time_ms", INT32, since=3),
        Field("brokers", Array(RESPONSE_BROKER)),
        Field("cluster_id", NULLABLE_STRING, since=2),
        Field("controller_id", INT32, since=1),
        Field("topics", Array(RESPONSE_TOPIC)),
        Field("cluster_authorized_operations", INT32, since=8, until=10),
        Field("error_code", INT16, since=13),
    ),
)
