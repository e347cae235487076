"""OffsetFetch: how far a group, from version 8 several groups, had read.

Null topics ask for all that the group ever committed. An offset that is not there is -1 without an error.
"""

from collections.abc import Sequence

from protocol.schema import Field, Message, Schema
from protocol.wire import BOOLEAN, INT16, INT32, INT64, NULLABLE_STRING, STRING, UUID, ZERO_UUID, Array, NullableArray

CHANGES = {
    0: "the first version; offsets came from ZooKeeper",
    1: "same bytes; offsets come from Kafka",
    2: "KIP-88: null means all topics; an error of the whole answer",
    3: "KIP-124: the answer says how long the client was throttled",
    4: "KIP-219: same bytes; a throttled client gets its answer at once and waits by itself",
    5: "KIP-320: the leader epoch",
    6: "KIP-482: flexible, so compact lengths and tagged fields",
    7: "KIP-447: `require_stable` answers UNSTABLE_OFFSET_COMMIT while a transaction has offsets pending",
    8: "KIP-709: several groups in one request",
    9: "KIP-848: member id and epoch, checked where they are given",
    10: "KIP-848: topics by id, no longer by name",
}


class OffsetFetchRequestTopic(Message):
    """Of versions 0-7, which ask for one group."""

    name: str = ""
    partition_indexes: tuple[int, ...] = ()


REQUEST_TOPIC = Schema(
    OffsetFetchRequestTopic,
    (
        Field("name", STRING, until=7),
        Field("partition_indexes", Array(INT32), until=7),
    ),
)


class OffsetFetchRequestTopics(Message):
    """Of version 8 on, which ask for several groups."""

    name: str = ""
    topic_id: bytes = ZERO_UUID
    partition_indexes: tuple[int, ...] = ()


REQUEST_TOPICS = Schema(
    OffsetFetchRequestTopics,
    (
        Field("name", STRING, since=8, until=9),
        Field("topic_id", UUID, since=10),
        Field("partition_indexes", Array(INT32), since=8),
    ),
)


class OffsetFetchRequestGroup(Message):
    group_id: str = ""
    member_id: str | None = None
    member_epoch: int = -1  # -1: not checked
    topics: tuple[OffsetFetchRequestTopics, ...] | None = ()  # None: all


REQUEST_GROUP = Schema(
    OffsetFetchRequestGroup,
    (
        Field("group_id", STRING, since=8),
        Field("member_id", NULLABLE_STRING, since=9),
        Field("member_epoch", INT32, since=9),
        Field("topics", NullableArray(REQUEST_TOPICS), since=8),
    ),
)


class OffsetFetchRequest(Message):
    group_id: str = ""
    topics: tuple[OffsetFetchRequestTopic, ...] | None = ()  # None: all, from version 2
    groups: tuple[OffsetFetchRequestGroup, ...] = ()
    require_stable: bool = False


REQUEST = Schema(
    OffsetFetchRequest,
    (
        Field("group_id", STRING, until=7),
        Field("topics", Array(REQUEST_TOPIC), until=7, nullable_since=2),
        Field("groups", Array(REQUEST_GROUP), since=8),
        Field("require_stable", BOOLEAN, since=7),
    ),
)


class OffsetFetchResponsePartition(Message):
    partition_index: int = 0
    committed_offset: int = 0  # -1: none
    committed_leader_epoch: int = -1
    metadata: str | None = ""  # "" where nothing is committed
    error_code: int = 0


RESPONSE_PARTITION = Schema(
    OffsetFetchResponsePartition,
    (
        Field("partition_index", INT32, until=7),
        Field("committed_offset", INT64, until=7),
        Field("committed_leader_epoch", INT32, since=5, until=7),
        Field("metadata", NULLABLE_STRING, until=7),
        Field("error_code", INT16, until=7),
    ),
)


class OffsetFetchResponseTopic(Message):
    """Of versions 0-7, which answer for one group."""

    name: str = ""
    partitions: Sequence[OffsetFetchResponsePartition] = ()  # `Rows` of what was committed together


RESPONSE_TOPIC = Schema(
    OffsetFetchResponseTopic,
    (
        Field("name", STRING, until=7),
        Field("partitions", Array(RESPONSE_PARTITION), until=7),
    ),
)


class OffsetFetchResponsePartitions(Message):
    partition_index: int = 0
    committed_offset: int = 0  # -1: none
    committed_leader_epoch: int = -1
    metadata: str | None = ""  # "" where nothing is committed
    error_code: int = 0


RESPONSE_PARTITIONS = Schema(
    OffsetFetchResponsePartitions,
    (
        Field("partition_index", INT32, since=8),
        Field("committed_offset", INT64, since=8),
        Field("committed_leader_epoch", INT32, since=8),
        Field("metadata", NULLABLE_STRING, since=8),
        Field("error_code", INT16, since=8),
    ),
)


class OffsetFetchResponseTopics(Message):
    """Of version 8 on, which answer for several groups."""

    name: str = ""
    topic_id: bytes = ZERO_UUID
    partitions: Sequence[OffsetFetchResponsePartitions] = ()  # `Rows` of what was committed together


RESPONSE_TOPICS = Schema(
    OffsetFetchResponseTopics,
    (
        Field("name", STRING, since=8, until=9),
        Field("topic_id", UUID, since=10),
        Field("partitions", Array(RESPONSE_PARTITIONS), since=8),
    ),
)


class OffsetFetchResponseGroup(Message):
    group_id: str = ""
    topics: tuple[OffsetFetchResponseTopics, ...] = ()
    error_code: int = 0


RESPONSE_GROUP = Schema(
    OffsetFetchResponseGroup,
    (
        Field("group_id", STRING, since=8),
        Field("topics", Array(RESPONSE_TOPICS), since=8),
        Field("error_code", INT16, since=8),
    ),
)


class OffsetFetchResponse(Message):
    throttle_time_ms: int = 0
    topics: tuple[OffsetFetchResponseTopic, ...] = ()
    error_code: int = 0
    groups: tuple[OffsetFetchResponseGroup, ...] = ()


RESPONSE = Schema(
    OffsetFetchResponse,
    (
        Field("throttle_time_ms", INT32, since=3),
        Field("topics", Array(RESPONSE_TOPIC), until=7),
        Field("error_code", INT16, since=2, until=7),
        Field("groups", Array(RESPONSE_GROUP), since=8),
    ),
)
