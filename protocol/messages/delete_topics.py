"""DeleteTopics: delete topics by name, from version 6 by name or id."""

from protocol.schema import Field, Message, Schema
from protocol.wire import INT16, INT32, NULLABLE_STRING, STRING, UUID, ZERO_UUID, Array

CHANGES = {
    0: "KIP-4: the first version",
    1: "KIP-124: the answer says how long the client was throttled",
    2: "KIP-219: same bytes; a throttled client gets its answer at once and waits by itself",
    3: "KIP-322: same bytes; TOPIC_DELETION_DISABLED may be answered",
    4: "KIP-482: flexible, so compact lengths and tagged fields",
    5: "KIP-599: an error message; THROTTLING_QUOTA_EXCEEDED may be answered",
    6: "KIP-516: topics by name or by id",
}


class DeleteTopicsRequestDeleteTopicState(Message):
    name: str | None = None  # None: by id
    topic_id: bytes = ZERO_UUID


REQUEST_DELETE_TOPIC_STATE = Schema(
    DeleteTopicsRequestDeleteTopicState,
    (
        Field("name", NULLABLE_STRING, since=6),
        Field("topic_id", UUID, since=6),
    ),
)


class DeleteTopicsRequest(Message):
    topics: tuple[DeleteTopicsRequestDeleteTopicState, ...] = ()
    topic_names: tuple[str, ...] = ()
    timeout_ms: int = 0


REQUEST = Schema(
    DeleteTopicsRequest,
    (
        Field("topics", Array(REQUEST_DELETE_TOPIC_STATE), since=6),
        Field("topic_names", Array(STRING), until=5),
        Field("timeout_ms", INT32),
    ),
)


class DeleteTopicsResponseDeletableTopicResult(Message):
    name: str | None = ""
    topic_id: bytes = ZERO_UUID
    error_code: int = 0
    error_message: str | None = None


RESPONSE_DELETABLE_TOPIC_RESULT = Schema(
    DeleteTopicsResponseDeletableTopicResult,
    (
        Field("name", STRING, nullable_since=6),
        Field("topic_id", UUID, since=6),
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING, since=5),
    ),
)


class DeleteTopicsResponse(Message):
    throttle_time_ms: int = 0
    responses: tuple[DeleteTopicsResponseDeletableTopicResult, ...] = ()


RESPONSE = Schema(
    DeleteTopicsResponse,
    (
        Field("throttle_time_ms", INT32, since=1),
        Field("responses", Array(RESPONSE_DELETABLE_TOPIC_RESULT)),
    ),
)
