"""ShareFetch: acquire records for a member of a share group (KIP-932), and acknowledge those of before."""

from protocol.schema import Field, Message, Schema
from protocol.wire import BOOLEAN, INT8, INT16, INT32, INT64, NULLABLE_STRING, RECORDS, STRING, UUID, ZERO_UUID, Array

CHANGES = {
    1: "KIP-932: the first version that is not a preview",
    2: "KIP-1206: `share_acquire_mode`; KIP-1222: acknowledgements that renew a lock, which `is_renew_ack` announces",
}


class ShareFetchRequestAcknowledgementBatch(Message):
    first_offset: int = 0
    last_offset: int = 0  # inclusive
    acknowledge_types: tuple[int, ...] = ()  # 0 gap, 1 accept, 2 release, 3 reject, 4 renew: one for all, or for each


REQUEST_ACKNOWLEDGEMENT_BATCH = Schema(
    ShareFetchRequestAcknowledgementBatch,
    (
        Field("first_offset", INT64),
        Field("last_offset", INT64),
        Field("acknowledge_types", Array(INT8)),
    ),
)


class ShareFetchRequestPartition(Message):
    partition_index: int = 0
    acknowledgement_batches: tuple[ShareFetchRequestAcknowledgementBatch, ...] = ()


REQUEST_PARTITION = Schema(
    ShareFetchRequestPartition,
    (
        Field("partition_index", INT32),
        Field("acknowledgement_batches", Array(REQUEST_ACKNOWLEDGEMENT_BATCH)),
    ),
)


class ShareFetchRequestTopic(Message):
    topic_id: bytes = ZERO_UUID
    partitions: tuple[ShareFetchRequestPartition, ...] = ()


REQUEST_TOPIC = Schema(
    ShareFetchRequestTopic,
    (
        Field("topic_id", UUID),
        Field("partitions", Array(REQUEST_PARTITION)),
    ),
)


class ShareFetchRequestForgottenTopic(Message):
    topic_id: bytes = ZERO_UUID
    partitions: tuple[int, ...] = ()


REQUEST_FORGOTTEN_TOPIC = Schema(
    ShareFetchRequestForgottenTopic,
    (
        Field("topic_id", UUID),
        Field("partitions", Array(INT32)),
    ),
)


class ShareFetchRequest(Message):
    group_id: str | None = None
    member_id: str | None = None
    share_session_epoch: int = 0  # 0 opens a session, -1 closes it
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = 2**31 - 1
    max_records: int = 0
    batch_size: int = 0  # of acquired records and acknowledgements, as the client likes it best
    share_acquire_mode: int = 0  # 0: whole batches, 1: not more than `max_records`
    is_renew_ack: bool = False
    topics: tuple[ShareFetchRequestTopic, ...] = ()
    forgotten_topics_data: tuple[ShareFetchRequestForgottenTopic, ...] = ()


REQUEST = Schema(
    ShareFetchRequest,
    (
        Field("group_id", NULLABLE_STRING),
        Field("member_id", NULLABLE_STRING),
        Field("share_session_epoch", INT32),
        Field("max_wait_ms", INT32),
        Field("min_bytes", INT32),
        Field("max_bytes", INT32),
        Field("max_records", INT32),
        Field("batch_size", INT32),
        Field("share_acquire_mode", INT8, since=2),
        Field("is_renew_ack", BOOLEAN, since=2),
        Field("topics", Array(REQUEST_TOPIC)),
        Field("forgotten_topics_data", Array(REQUEST_FORGOTTEN_TOPIC)),
    ),
)


class ShareFetchResponseLeader(Message):
    leader_id: int = 0  # -1: not known
    leader_epoch: int = 0


RESPONSE_LEADER = Schema(
    ShareFetchResponseLeader,
    (
        Field("leader_id", INT32),
        Field("leader_epoch", INT32),
    ),
)


class ShareFetchResponseAcquiredRecords(Message):
    first_offset: int = 0
    last_offset: int = 0  # inclusive
    delivery_count: int = 0


RESPONSE_ACQUIRED_RECORDS = Schema(
    ShareFetchResponseAcquiredRecords,
    (
        Field("first_offset", INT64),
        Field("last_offset", INT64),
        Field("delivery_count", INT16),
    ),
)


class ShareFetchResponsePartition(Message):
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    acknowledge_error_code: int = 0
    acknowledge_error_message: str | None = None
    current_leader: ShareFetchResponseLeader = ShareFetchResponseLeader()
    records: bytes | None = None
    acquired_records: tuple[ShareFetchResponseAcquiredRecords, ...] = ()


RESPONSE_PARTITION = Schema(
    ShareFetchResponsePartition,
    (
        Field("partition_index", INT32),
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
        Field("acknowledge_error_code", INT16),
        Field("acknowledge_error_message", NULLABLE_STRING),
        Field("current_leader", RESPONSE_LEADER),
        Field("records", RECORDS),
        Field("acquired_records", Array(RESPONSE_ACQUIRED_RECORDS)),
    ),
)


class ShareFetchResponseTopic(Message):
    topic_id: bytes = ZERO_UUID
    partitions: tuple[ShareFetchResponsePartition, ...] = ()


RESPONSE_TOPIC = Schema(
    ShareFetchResponseTopic,
    (
        Field("topic_id", UUID),
        Field("partitions", Array(RESPONSE_PARTITION)),
    ),
)


class ShareFetchResponseNodeEndpoint(Message):
    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


RESPONSE_NODE_ENDPOINT = Schema(
    ShareFetchResponseNodeEndpoint,
    (
        Field("node_id", INT32),
        Field("host", STRING),
        Field("port", INT32),
        Field("rack", NULLABLE_STRING),
    ),
)


class ShareFetchResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: int = 0
    responses: tuple[ShareFetchResponseTopic, ...] = ()
    node_endpoints: tuple[ShareFetchResponseNodeEndpoint, ...] = ()


RESPONSE = Schema(
    ShareFetchResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
        Field("acquisition_lock_timeout_ms", INT32),
        Field("responses", Array(RESPONSE_TOPIC)),
        Field("node_endpoints", Array(RESPONSE_NODE_ENDPOINT)),
    ),
)
