"""FindCoordinator: which broker coordinates a group, a transactional id or a share partition.

One key a request up to version 3, many from version 4 on. The key's type is 0 for groups, 1 for transactions and
2 for share partitions, whose key has the form `groupId:topicId:partition`.
"""

from protocol.schema import Field, Message, Schema
from protocol.wire import INT8, INT16, INT32, NULLABLE_STRING, STRING, Array

CHANGES = {
    0: "the first version, for groups only",
    1: "KIP-98: key types, transactions; KIP-124: throttle time; an error message",
    2: "KIP-219: same bytes; a throttled client gets its answer at once and waits by itself",
    3: "KIP-482: flexible, so compact lengths and tagged fields",
    4: "KIP-699: many keys at once, each with its own result",
    5: "KIP-890: same bytes; TRANSACTION_ABORTABLE may be answered",
    6: "KIP-932: same bytes; share partitions have coordinators",
}


class FindCoordinatorRequest(Message):
    key: str = ""
    key_type: int = 0  # 0 group, 1 transaction, 2 share
    coordinator_keys: tuple[str, ...] = ()


REQUEST = Schema(
    FindCoordinatorRequest,
    (
        Field("key", STRING, until=3),
        Field("key_type", INT8, since=1),
        Field("coordinator_keys", Array(STRING), since=4),
    ),
)


class FindCoordinatorResponseCoordinator(Message):
    key: str = ""
    node_id: int = 0
    host: str = ""
    port: int = 0
    error_code: int = 0
    error_message: str | None = ""


RESPONSE_COORDINATOR = Schema(
    FindCoordinatorResponseCoordinator,
    (
        Field("key", STRING, since=4),
        Field("node_id", INT32, since=4),
        Field("host", STRING, since=4),
        Field("port", INT32, since=4),
        Field("error_code", INT16, since=4),
        Field("error_message", NULLABLE_STRING, since=4),
    ),
)


class FindCoordinatorResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = ""
    node_id: int = 0  # -1 beside an error
    host: str = ""
    port: int = 0
    coordinators: tuple[FindCoordinatorResponseCoordinator, ...] = ()


RESPONSE = Schema(
    FindCoordinatorResponse,
    (
        Field("throttle_time_ms", INT32, since=1),
        Field("error_code", INT16, until=3),
        Field("error_message", NULLABLE_STRING, since=1, until=3),
        Field("node_id", INT32, until=3),
        Field("host", STRING, until=3),
        Field("port", INT32, until=3),
        Field("coordinators", Array(RESPONSE_COORDINATOR), since=4),
    ),
)
