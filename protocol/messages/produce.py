"""Produce: records to append, a batch or none for each partition.

Apache Kafka 4 advertises version 0 but reads none below 3: some librdkafka choose their message format by the
lowest version they see (KAFKA-18659). Below version 3 the records are message sets of the old formats.
"""

from protocol.schema import Field, Message, Schema
from protocol.wire import INT16, INT32, INT64, NULLABLE_STRING, RECORDS, STRING, UUID, ZERO_UUID, Array

CHANGES = {
    0: "the first version",
    1: "KIP-13: the answer says how long the client was throttled",
    2: "KIP-32: message format 1; the time of the append",
    3: "KIP-98: record batches, transactions",
    4: "KIP-112: same bytes; KAFKA_STORAGE_ERROR may be answered",
    5: "the log's first offset, to tell lost batches from deleted ones",
    6: "KIP-219: same bytes; a throttled client gets its answer at once and waits by itself",
    7: "KIP-110: same bytes; zstd is allowed",
    8: "KIP-467: which records were at fault, and a message",
    9: "KIP-482: flexible, so compact lengths and tagged fields",
    10: "KIP-951: NOT_LEADER_OR_FOLLOWER tells who leads now",
    11: "KIP-890: same bytes; TRANSACTION_ABORTABLE may be answered",
    12: "KIP-890: same bytes; producing adds the partition to the transaction",
    13: "KIP-516: topics by id, no longer by name",
}


class ProduceRequestPartitionData(Message):
    index: int = 0
    records: bytes | None = None


REQUEST_PARTITION_DATA = Schema(
    ProduceRequestPartitionData,
    (
        Field("index", INT32),
        Field("records", RECORDS),
    ),
)


class ProduceRequestTopicData(Message):
    name: str = ""
    topic_id: bytes = ZERO_UUID
    partition_data: tuple[ProduceRequestPartitionData, ...] = ()


REQUEST_TOPIC_DATA = Schema(
    ProduceRequestTopicData,
    (
        Field("name", STRING, until=12),
        Field("topic_id", UUID, since=13),
        Field("partition_data", Array(REQUEST_PARTITION_DATA)),
    ),
)


class ProduceRequest(Message):
    transactional_id: str | None = None
    acks: int = 0  # 0: no answer is sent; 1: the leader has it; -1: all in-sync replicas have it
    timeout_ms: int = 0
    topic_data: tuple[ProduceRequestTopicData, ...] = ()


REQUEST = Schema(
    ProduceRequest,
    (
        Field("transactional_id", NULLABLE_STRING, since=3),
        Field("acks", INT16),
        Field("timeout_ms", INT32),
        Field("topic_data", Array(REQUEST_TOPIC_DATA)),
    ),
)


class ProduceResponseBatchIndexAndErrorMessage(Message):
    batch_index: int = 0
    batch_index_error_message: str | None = None


RESPONSE_BATCH_INDEX_AND_ERROR_MESSAGE = Schema(
    ProduceResponseBatchIndexAndErrorMessage,
    (
        Field("batch_index", INT32, since=8),
        Field("batch_index_error_message", NULLABLE_STRING, since=8),
    ),
)


class ProduceResponseLeaderIdAndEpoch(Message):
    leader_id: int = -1
    leader_epoch: int = -1


RESPONSE_LEADER_ID_AND_EPOCH = Schema(
    ProduceResponseLeaderIdAndEpoch,
    (
        Field("leader_id", INT32, since=10),
        Field("leader_epoch", INT32, since=10),
    ),
)


class ProduceResponsePartition(Message):
    index: int = 0
    error_code: int = 0
    base_offset: int = 0
    log_append_time_ms: int = -1  # -1: the topic keeps the producer's times
    log_start_offset: int = -1
    record_errors: tuple[ProduceResponseBatchIndexAndErrorMessage, ...] = ()
    error_message: str | None = None
    current_leader: ProduceResponseLeaderIdAndEpoch = ProduceResponseLeaderIdAndEpoch()


RESPONSE_PARTITION = Schema(
    ProduceResponsePartition,
    (
        Field("index", INT32),
        Field("error_code", INT16),
        Field("base_offset", INT64),
        Field("log_append_time_ms", INT64, since=2),
        Field("log_start_offset", INT64, since=5),
        Field("record_errors", Array(RESPONSE_BATCH_INDEX_AND_ERROR_MESSAGE), since=8),
        Field("error_message", NULLABLE_STRING, since=8),
        Field("current_leader", RESPONSE_LEADER_ID_AND_EPOCH, since=10, tag=0),
    ),
)


class ProduceResponseTopic(Message):
    name: str = ""
    topic_id: bytes = ZERO_UUID
    partition_responses: tuple[ProduceResponsePartition, ...] = ()


RESPONSE_TOPIC = Schema(
    ProduceResponseTopic,
    (
        Field("name", STRING, until=12),
        Field("topic_id", UUID, since=13),
        Field("partition_responses", Array(RESPONSE_PARTITION)),
    ),
)


class ProduceResponseNodeEndpoint(Message):
    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


RESPONSE_NODE_ENDPOINT = Schema(
    ProduceResponseNodeEndpoint,
    (
        Field("node_id", INT32, since=10),
        Field("host", STRING, since=10),
        Field("port", INT32, since=10),
        Field("rack", NULLABLE_STRING, since=10),
    ),
)


class ProduceResponse(Message):
    responses: tuple[ProduceResponseTopic, ...] = ()
    throttle_time_ms: int = 0
    node_endpoints: tuple[ProduceResponseNodeEndpoint, ...] = ()


RESPONSE = Schema(
    ProduceResponse,
    (
        Field("responses", Array(RESPONSE_TOPIC)),
        Field("throttle_time_ms", INT32, since=1),
        Field("node_endpoints", Array(RESPONSE_NODE_ENDPOINT), since=10, tag=0),
    ),
)
