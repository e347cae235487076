"""Heartbeat: a member of a classic group is alive, and hears whether a rebalance has begun.

REBALANCE_IN_PROGRESS is how it hears of one. This is the request that a coordinator answers most.
"""

from protocol.schema import Field, Message, Schema
from protocol.wire import INT16, INT32, NULLABLE_STRING, STRING

CHANGES = {
    0: "the first version",
    1: "KIP-124: the answer says how long the client was throttled",
    2: "KIP-219: same bytes; a throttled client gets its answer at once and waits by itself",
    3: "KIP-345: a static member names itself by its group instance id",
    4: "KIP-482: flexible, so compact lengths and tagged fields",
}


class HeartbeatRequest(Message):
    group_id: str = ""
    generation_id: int = 0
    member_id: str = ""
    group_instance_id: str | None = None


REQUEST = Schema(
    HeartbeatRequest,
    (
        Field("group_id", STRING),
        Field("generation_id", INT32),
        Field("member_id", STRING),
        Field("group_instance_id", NULLABLE_STRING, since=3),
    ),
)


class HeartbeatResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0


RESPONSE = Schema(
    HeartbeatResponse,
    (
        Field("throttle_time_ms", INT32, since=1),
        Field("error_code", INT16),
    ),
)
