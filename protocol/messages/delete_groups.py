"""DeleteGroups: forget groups without members, and their offsets."""

from protocol.schema import Field, Message, Schema
from protocol.wire import INT16, INT32, STRING, Array

CHANGES = {
    0: "KIP-229: the first version",
    1: "KIP-219: same bytes; a throttled client gets its answer at once and waits by itself",
    2: "KIP-482: flexible, so compact lengths and tagged fields",
}


class DeleteGroupsRequest(Message):
    groups_names: tuple[str, ...] = ()  # Kafka's plural


REQUEST = Schema(
    DeleteGroupsRequest,
    (Field("groups_names", Array(STRING)),),
)


class DeleteGroupsResponseDeletableGroupResult(Message):
    group_id: str = ""
    error_code: int = 0


RESPONSE_DELETABLE_GROUP_RESULT = Schema(
    DeleteGroupsResponseDeletableGroupResult,
    (
        Field("group_id", STRING),
        Field("error_code", INT16),
    ),
)


class DeleteGroupsResponse(Message):
    throttle_time_ms: int = 0
    results: tuple[DeleteGroupsResponseDeletableGroupResult, ...] = ()


RESPONSE = Schema(
    DeleteGroupsResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("results", Array(RESPONSE_DELETABLE_GROUP_RESULT)),
    ),
)
