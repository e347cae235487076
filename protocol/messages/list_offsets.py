"""ListOffsets: the offset at a time, or at an end of the log.

Times are milliseconds since the epoch; negative ones have a meaning of their own: -1 the end, -2 the beginning,
-3 the record of the highest time, -4 the first offset on the local disk, -5 the last in tiered storage, -6 the
first that waits for its upload.
"""

from protocol.schema import Field, Message, Schema
from protocol.wire import INT8, INT16, INT32, INT64, STRING, Array

CHANGES = {
    0: "the first version; a list of offsets",
    1: "KIP-79: one offset, and its time",
    2: "KIP-98: isolation level; KIP-124: throttle time",
    3: "KIP-219: same bytes; a throttled client gets its answer at once and waits by itself",
    4: "KIP-320: leader epochs",
    5: "KIP-207: same bytes; OFFSET_NOT_AVAILABLE may be answered",
    6: "KIP-482: flexible, so compact lengths and tagged fields",
    7: "KIP-734: same bytes; -3 is understood",
    8: "KIP-405: same bytes; -4 is understood",
    9: "KIP-1005: same bytes; -5 is understood",
    10: "KIP-1075: how long to wait for remote storage",
    11: "KIP-1023: same bytes; -6 is understood",
}


class ListOffsetsRequestPartition(Message):
    partition_index: int = 0
    current_leader_epoch: int = -1  # -1: not checked
    timestamp: int = 0  # ms since the epoch, or one of the negative ones
    max_num_offsets: int = 1


REQUEST_PARTITION = Schema(
    ListOffsetsRequestPartition,
    (
        Field("partition_index", INT32),
        Field("current_leader_epoch", INT32, since=4),
        Field("timestamp", INT64),
        Field("max_num_offsets", INT32, until=0),
    ),
)


class ListOffsetsRequestTopic(Message):
    name: str = ""
    partitions: tuple[ListOffsetsRequestPartition, ...] = ()


REQUEST_TOPIC = Schema(
    ListOffsetsRequestTopic,
    (
        Field("name", STRING),
        Field("partitions", Array(REQUEST_PARTITION)),
    ),
)


class ListOffsetsRequest(Message):
    replica_id: int = 0  # -1: a consumer
    isolation_level: int = 0  # 0 read uncommitted, 1 read committed
    topics: tuple[ListOffsetsRequestTopic, ...] = ()
    timeout_ms: int = 0


REQUEST = Schema(
    ListOffsetsRequest,
    (
        Field("replica_id", INT32),
        Field("isolation_level", INT8, since=2),
        Field("topics", Array(REQUEST_TOPIC)),
        Field("timeout_ms", INT32, since=10),
    ),
)


class ListOffsetsResponsePartition(Message):
    partition_index: int = 0
    error_code: int = 0
    old_style_offsets: tuple[int, ...] = ()
    timestamp: int = -1  # ms since the epoch; -1: none
    offset: int = -1  # -1: none
    leader_epoch: int = -1


RESPONSE_PARTITION = Schema(
    ListOffsetsResponsePartition,
    (
        Field("partition_index", INT32),
        Field("error_code", INT16),
        Field("old_style_offsets", Array(INT64), until=0),
        Field("timestamp", INT64, since=1),
        Field("offset", INT64, since=1),
        Field("leader_epoch", INT32, since=4),
    ),
)


class ListOffsetsResponseTopic(Message):
    name: str = ""
    partitions: tuple[ListOffsetsResponsePartition, ...] = ()


RESPONSE_TOPIC = Schema(
    ListOffsetsResponseTopic,
    (
        Field("name", STRING),
        Field("partitions", Array(RESPONSE_PARTITION)),
    ),
)


class ListOffsetsResponse(Message):
    throttle_time_ms: int = 0
    topics: tuple[ListOffsetsResponseTopic, ...] = ()


RESPONSE = Schema(
    ListOffsetsResponse,
    (
        Field("throttle_time_ms", INT32, since=2),
        Field("topics", Array(RESPONSE_TOPIC)),
    ),
)
