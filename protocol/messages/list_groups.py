"""ListGroups: the groups that this broker coordinates, filtered by state and type.

An empty filter lets all through.
"""

from protocol.schema import Field, Message, Schema
from protocol.wire import INT16, INT32, STRING, Array

CHANGES = {
    0: "the first version",
    1: "KIP-124: the answer says how long the client was throttled",
    2: "KIP-219: same bytes; a throttled client gets its answer at once and waits by itself",
    3: "KIP-482: flexible, so compact lengths and tagged fields",
    4: "KIP-518: states, and a filter by them",
    5: "KIP-848: types, and a filter by them",
}


class ListGroupsRequest(Message):
    states_filter: tuple[str, ...] = ()  # empty: all
    types_filter: tuple[str, ...] = ()  # empty: all


REQUEST = Schema(
    ListGroupsRequest,
    (
        Field("states_filter", Array(STRING), since=4),
        Field("types_filter", Array(STRING), since=5),
    ),
)


class ListGroupsResponseListedGroup(Message):
    group_id: str = ""
    protocol_type: str = ""
    group_state: str = ""  # as in `Stable`, `Empty`
    group_type: str = ""  # as in `classic`, `consumer`


RESPONSE_LISTED_GROUP = Schema(
    ListGroupsResponseListedGroup,
    (
        Field("group_id", STRING),
        Field("protocol_type", STRING),
        Field("group_state", STRING, since=4),
        Field("group_type", STRING, since=5),
    ),
)


class ListGroupsResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    groups: tuple[ListGroupsResponseListedGroup, ...] = ()


RESPONSE = Schema(
    ListGroupsResponse,
    (
        Field("throttle_time_ms", INT32, since=1),
        Field("error_code", INT16),
        Field("groups", Array(RESPONSE_LISTED_GROUP)),
    ),
)
