"""DeleteShareGroupOffsets: forget the offsets of topics in an empty share group (KIP-932)."""

from protocol.schema import Field, Message, Schema
from protocol.wire import INT16, INT32, NULLABLE_STRING, STRING, UUID, ZERO_UUID, Array

CHANGES = {
    0: "KIP-932: the first version",
}


class DeleteShareGroupOffsetsRequestTopic(Message):
    topic_name: str = ""


REQUEST_TOPIC = Schema(
    DeleteShareGroupOffsetsRequestTopic,
    (Field("topic_name", STRING),),
)


class DeleteShareGroupOffsetsRequest(Message):
    group_id: str = ""
    topics: tuple[DeleteShareGroupOffsetsRequestTopic, ...] = ()


REQUEST = Schema(
    DeleteShareGroupOffsetsRequest,
    (
        Field("group_id", STRING),
        Field("topics", Array(REQUEST_TOPIC)),
    ),
)


class DeleteShareGroupOffsetsResponseTopic(Message):
    topic_name: str = ""
    topic_id: bytes = ZERO_UUID
    error_code: int = 0
    error_message: str | None = None


RESPONSE_TOPIC = Schema(
    DeleteShareGroupOffsetsResponseTopic,
    (
        Field("topic_name", STRING),
        Field("topic_id", UUID),
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
    ),
)


class DeleteShareGroupOffsetsResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    responses: tuple[DeleteShareGroupOffsetsResponseTopic, ...] = ()


RESPONSE = Schema(
    DeleteShareGroupOffsetsResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
        Field("responses", Array(RESPONSE_TOPIC)),
    ),
)
