"""Fetch: records from an offset on, waiting up to `max_wait_ms` for `min_bytes` of them.

From version 7 a client may hold a fetch session and send only what has changed since its last request (KIP-227).
"""

from protocol.schema import Field, Message, Schema
from protocol.wire import (
    INT8,
    INT16,
    INT32,
    INT64,
    NULLABLE_STRING,
    RECORDS,
    STRING,
    UUID,
    ZERO_UUID,
    Array,
    NullableArray,
)

CHANGES = {
    0: "the first version",
    1: "KIP-13: the answer says how long the client was throttled",
    2: "KIP-32: same bytes; message format 1 may come",
    3: "KIP-74: a limit for the whole answer; the order of the partitions counts",
    4: "KIP-98: record batches, isolation level, aborted transactions",
    5: "KIP-107: the log's first offset",
    6: "KIP-112: same bytes; KAFKA_STORAGE_ERROR may be answered",
    7: "KIP-227: fetch sessions",
    8: "KIP-219: same bytes; a throttled client gets its answer at once and waits by itself",
    9: "KIP-320: the leader epoch that the client believes in",
    10: "KIP-110: same bytes; zstd may come",
    11: "KIP-392: the client's rack, and a nearer replica to read from",
    12: "KIP-482: flexible; KIP-595: where the logs diverge, and who leads now",
    13: "KIP-516: topics by id, no longer by name",
    14: "KIP-405: same bytes; OFFSET_MOVED_TO_TIERED_STORAGE may be answered",
    15: "KIP-903: a replica's epoch beside its id",
    16: "KIP-951: the endpoint of the new leader",
    17: "KIP-853: a replica's directory id",
    18: "KIP-1166: a replica's high watermark",
}


class FetchRequestReplicaState(Message):
    replica_id: int = -1
    replica_epoch: int = -1


REQUEST_REPLICA_STATE = Schema(
    FetchRequestReplicaState,
    (
        Field("replica_id", INT32, since=15),
        Field("replica_epoch", INT64, since=15),
    ),
)


class FetchRequestPartition(Message):
    partition: int = 0
    current_leader_epoch: int = -1  # -1: not checked
    fetch_offset: int = 0
    last_fetched_epoch: int = -1
    log_start_offset: int = -1
    partition_max_bytes: int = 0
    replica_directory_id: bytes = ZERO_UUID
    high_watermark: int = 2**63 - 1


REQUEST_PARTITION = Schema(
    FetchRequestPartition,
    (
        Field("partition", INT32),
        Field("current_leader_epoch", INT32, since=9),
        Field("fetch_offset", INT64),
        Field("last_fetched_epoch", INT32, since=12),
        Field("log_start_offset", INT64, since=5),
        Field("partition_max_bytes", INT32),
        Field("replica_directory_id", UUID, since=17, tag=0),
        Field("high_watermark", INT64, since=18, tag=1),
    ),
)


class FetchRequestTopic(Message):
    topic: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: tuple[FetchRequestPartition, ...] = ()


REQUEST_TOPIC = Schema(
    FetchRequestTopic,
    (
        Field("topic", STRING, until=12),
        Field("topic_id", UUID, since=13),
        Field("partitions", Array(REQUEST_PARTITION)),
    ),
)


class FetchRequestForgottenTopic(Message):
    topic: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: tuple[int, ...] = ()


REQUEST_FORGOTTEN_TOPIC = Schema(
    FetchRequestForgottenTopic,
    (
        Field("topic", STRING, since=7, until=12),
        Field("topic_id", UUID, since=13),
        Field("partitions", Array(INT32), since=7),
    ),
)


class FetchRequest(Message):
    cluster_id: str | None = None
    replica_id: int = -1  # -1: a consumer
    replica_state: FetchRequestReplicaState = FetchRequestReplicaState()
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 2**31 - 1
    isolation_level: int = 0  # 0 read uncommitted, 1 read committed
    session_id: int = 0  # 0: none yet
    session_epoch: int = -1  # -1: no session; 0: make one
    topics: tuple[FetchRequestTopic, ...] = ()
    forgotten_topics_data: tuple[FetchRequestForgottenTopic, ...] = ()
    rack_id: str = ""


REQUEST = Schema(
    FetchRequest,
    (
        Field("cluster_id", NULLABLE_STRING, since=12, tag=0),
        Field("replica_id", INT32, until=14),
        Field("replica_state", REQUEST_REPLICA_STATE, since=15, tag=1),
        Field("max_wait_ms", INT32),
        Field("min_bytes", INT32),
        Field("max_bytes", INT32, since=3),
        Field("isolation_level", INT8, since=4),
        Field("session_id", INT32, since=7),
        Field("session_epoch", INT32, since=7),
        Field("topics", Array(REQUEST_TOPIC)),
        Field("forgotten_topics_data", Array(REQUEST_FORGOTTEN_TOPIC), since=7),
        Field("rack_id", STRING, since=11),
    ),
)


class FetchResponseEpochEndOffset(Message):
    epoch: int = -1
    end_offset: int = -1


RESPONSE_EPOCH_END_OFFSET = Schema(
    FetchResponseEpochEndOffset,
    (
        Field("epoch", INT32, since=12),
        Field("end_offset", INT64, since=12),
    ),
)


class FetchResponseLeaderIdAndEpoch(Message):
    leader_id: int = -1
    leader_epoch: int = -1


RESPONSE_LEADER_ID_AND_EPOCH = Schema(
    FetchResponseLeaderIdAndEpoch,
    (
        Field("leader_id", INT32, since=12),
        Field("leader_epoch", INT32, since=12),
    ),
)


class FetchResponseSnapshotId(Message):
    end_offset: int = -1
    epoch: int = -1


RESPONSE_SNAPSHOT_ID = Schema(
    FetchResponseSnapshotId,
    (
        Field("end_offset", INT64),
        Field("epoch", INT32),
    ),
)


class FetchResponseAbortedTransaction(Message):
    producer_id: int = 0
    first_offset: int = 0


RESPONSE_ABORTED_TRANSACTION = Schema(
    FetchResponseAbortedTransaction,
    (
        Field("producer_id", INT64, since=4),
        Field("first_offset", INT64, since=4),
    ),
)


class FetchResponsePartitionData(Message):
    partition_index: int = 0
    error_code: int = 0
    high_watermark: int = 0
    last_stable_offset: int = -1  # end of what read committed may see
    log_start_offset: int = -1
    diverging_epoch: FetchResponseEpochEndOffset = FetchResponseEpochEndOffset()
    current_leader: FetchResponseLeaderIdAndEpoch = FetchResponseLeaderIdAndEpoch()
    snapshot_id: FetchResponseSnapshotId = FetchResponseSnapshotId()
    aborted_transactions: tuple[FetchResponseAbortedTransaction, ...] | None = ()  # None: read uncommitted
    preferred_read_replica: int = -1  # -1: read here
    records: bytes | None = None  # b"" where there are none: librdkafka rejects None


RESPONSE_PARTITION_DATA = Schema(
    FetchResponsePartitionData,
    (
        Field("partition_index", INT32),
        Field("error_code", INT16),
        Field("high_watermark", INT64),
        Field("last_stable_offset", INT64, since=4),
        Field("log_start_offset", INT64, since=5),
        Field("diverging_epoch", RESPONSE_EPOCH_END_OFFSET, since=12, tag=0),
        Field("current_leader", RESPONSE_LEADER_ID_AND_EPOCH, since=12, tag=1),
        Field("snapshot_id", RESPONSE_SNAPSHOT_ID, since=12, tag=2),
        Field("aborted_transactions", NullableArray(RESPONSE_ABORTED_TRANSACTION), since=4),
        Field("preferred_read_replica", INT32, since=11),
        Field("records", RECORDS),
    ),
)


class FetchResponseableTopic(Message):
    topic: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: tuple[FetchResponsePartitionData, ...] = ()


RESPONSE_ABLE_TOPIC = Schema(
    FetchResponseableTopic,
    (
        Field("topic", STRING, until=12),
        Field("topic_id", UUID, since=13),
        Field("partitions", Array(RESPONSE_PARTITION_DATA)),
    ),
)


class FetchResponseNodeEndpoint(Message):
    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


RESPONSE_NODE_ENDPOINT = Schema(
    FetchResponseNodeEndpoint,
    (
        Field("node_id", INT32, since=16),
        Field("host", STRING, since=16),
        Field("port", INT32, since=16),
        Field("rack", NULLABLE_STRING, since=16),
    ),
)


class FetchResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    session_id: int = 0
    responses: tuple[FetchResponseableTopic, ...] = ()
    node_endpoints: tuple[FetchResponseNodeEndpoint, ...] = ()


RESPONSE = Schema(
    FetchResponse,
    (
        Field("throttle_time_ms", INT32, since=1),
        Field("error_code", INT16, since=7),
        Field("session_id", INT32, since=7),
        Field("responses", Array(RESPONSE_ABLE_TOPIC)),
        Field("node_endpoints", Array(RESPONSE_NODE_ENDPOINT), since=16, tag=0),
    ),
)
