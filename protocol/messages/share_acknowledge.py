"""ShareAcknowledge: what a member of a share group (KIP-932) made of the records that it has acquired."""

from protocol.schema import Field, Message, Schema
from protocol.wire import BOOLEAN, INT8, INT16, INT32, INT64, NULLABLE_STRING, STRING, UUID, ZERO_UUID, Array

CHANGES = {
    1: "KIP-932: the first version that is not a preview",
    2: "KIP-1222: acknowledgements that renew a lock, which `is_renew_ack` announces, and how long a lock lasts",
}


class ShareAcknowledgeRequestAcknowledgementBatch(Message):
    first_offset: int = 0
    last_offset: int = 0  # inclusive
    acknowledge_types: tuple[int, ...] = ()  # 0 gap, 1 accept, 2 release, 3 reject, 4 renew: one for all, or for each


REQUEST_ACKNOWLEDGEMENT_BATCH = Schema(
    ShareAcknowledgeRequestAcknowledgementBatch,
    (
        Field("first_offset", INT64),
        Field("last_offset", INT64),
        Field("acknowledge_types", Array(INT8)),
    ),
)


class ShareAcknowledgeRequestPartition(Message):
    partition_index: int = 0
    acknowledgement_batches: tuple[ShareAcknowledgeRequestAcknowledgementBatch, ...] = ()


REQUEST_PARTITION = Schema(
    ShareAcknowledgeRequestPartition,
    (
        Field("partition_index", INT32),
        Field("acknowledgement_batches", Array(REQUEST_ACKNOWLEDGEMENT_BATCH)),
    ),
)


class ShareAcknowledgeRequestTopic(Message):
    topic_id: bytes = ZERO_UUID
    partitions: tuple[ShareAcknowledgeRequestPartition, ...] = ()


REQUEST_TOPIC = Schema(
    ShareAcknowledgeRequestTopic,
    (
        Field("topic_id", UUID),
        Field("partitions", Array(REQUEST_PARTITION)),
    ),
)


class ShareAcknowledgeRequest(Message):
    group_id: str | None = None
    member_id: str | None = None
    share_session_epoch: int = 0  # -1 closes the session
    is_renew_ack: bool = False
    topics: tuple[ShareAcknowledgeRequestTopic, ...] = ()


REQUEST = Schema(
    ShareAcknowledgeRequest,
    (
        Field("group_id", NULLABLE_STRING),
        Field("member_id", NULLABLE_STRING),
        Field("share_session_epoch", INT32),
        Field("is_renew_ack", BOOLEAN, since=2),
        Field("topics", Array(REQUEST_TOPIC)),
    ),
)


class ShareAcknowledgeResponseLeader(Message):
    leader_id: int = 0  # -1: not known
    leader_epoch: int = 0


RESPONSE_LEADER = Schema(
    ShareAcknowledgeResponseLeader,
    (
        Field("leader_id", INT32),
        Field("leader_epoch", INT32),
    ),
)


class ShareAcknowledgeResponsePartition(Message):
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    current_leader: ShareAcknowledgeResponseLeader = ShareAcknowledgeResponseLeader()


RESPONSE_PARTITION = Schema(
    ShareAcknowledgeResponsePartition,
    (
        Field("partition_index", INT32),
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
        Field("current_leader", RESPONSE_LEADER),
    ),
)


class ShareAcknowledgeResponseTopic(Message):
    topic_id: bytes = ZERO_UUID
    partitions: tuple[ShareAcknowledgeResponsePartition, ...] = ()


RESPONSE_TOPIC = Schema(
    ShareAcknowledgeResponseTopic,
    (
        Field("topic_id", UUID),
        Field("partitions", Array(RESPONSE_PARTITION)),
    ),
)


class ShareAcknowledgeResponseNodeEndpoint(Message):
    node_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None


RESPONSE_NODE_ENDPOINT = Schema(
    ShareAcknowledgeResponseNodeEndpoint,
    (
        Field("node_id", INT32),
        Field("host", STRING),
        Field("port", INT32),
        Field("rack", NULLABLE_STRING),
    ),
)


class ShareAcknowledgeResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    acquisition_lock_timeout_ms: int = 0
    responses: tuple[ShareAcknowledgeResponseTopic, ...] = ()
    node_endpoints: tuple[ShareAcknowledgeResponseNodeEndpoint, ...] = ()


RESPONSE = Schema(
    ShareAcknowledgeResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
        Field("acquisition_lock_timeout_ms", INT32, since=2),
        Field("responses", Array(RESPONSE_TOPIC)),
        Field("node_endpoints", Array(RESPONSE_NODE_ENDPOINT)),
    ),
)
