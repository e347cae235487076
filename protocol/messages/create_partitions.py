"""CreatePartitions: more partitions for topics that are there; never fewer."""

from protocol.schema import Field, Message, Schema
from protocol.wire import BOOLEAN, INT16, INT32, NULLABLE_STRING, STRING, Array, NullableArray

CHANGES = {
    0: "KIP-195: the first version",
    1: "KIP-219: same bytes; a throttled client gets its answer at once and waits by itself",
    2: "KIP-482: flexible, so compact lengths and tagged fields",
    3: "KIP-599: same bytes; THROTTLING_QUOTA_EXCEEDED may be answered",
}


class CreatePartitionsRequestAssignment(Message):
    broker_ids: tuple[int, ...] = ()


REQUEST_ASSIGNMENT = Schema(
    CreatePartitionsRequestAssignment,
    (Field("broker_ids", Array(INT32)),),
)


class CreatePartitionsRequestTopic(Message):
    name: str = ""
    count: int = 0  # of all partitions, the old ones counted in
    assignments: tuple[CreatePartitionsRequestAssignment, ...] | None = ()  # of the new ones; None: the server's choice


REQUEST_TOPIC = Schema(
    CreatePartitionsRequestTopic,
    (
        Field("name", STRING),
        Field("count", INT32),
        Field("assignments", NullableArray(REQUEST_ASSIGNMENT)),
    ),
)


class CreatePartitionsRequest(Message):
    topics: tuple[CreatePartitionsRequestTopic, ...] = ()
    timeout_ms: int = 0
    validate_only: bool = False


REQUEST = Schema(
    CreatePartitionsRequest,
    (
        Field("topics", Array(REQUEST_TOPIC)),
        Field("timeout_ms", INT32),
        Field("validate_only", BOOLEAN),
    ),
)


class CreatePartitionsResponseTopicResult(Message):
    name: str = ""
    error_code: int = 0
    error_message: str | None = None


RESPONSE_TOPIC_RESULT = Schema(
    CreatePartitionsResponseTopicResult,
    (
        Field("name", STRING),
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
    ),
)


class CreatePartitionsResponse(Message):
    throttle_time_ms: int = 0
    results: tuple[CreatePartitionsResponseTopicResult, ...] = ()


RESPONSE = Schema(
    CreatePartitionsResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("results", Array(RESPONSE_TOPIC_RESULT)),
    ),
)
