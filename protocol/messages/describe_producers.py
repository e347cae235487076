"""DescribeProducers: which producers write to a partition, for finding hanging transactions."""

from protocol.schema import Field, Message, Schema
from protocol.wire import INT16, INT32, INT64, NULLABLE_STRING, STRING, Array

CHANGES = {
    0: "KIP-664: the first version",
}


class DescribeProducersRequestTopic(Message):
    name: str = ""
    partition_indexes: tuple[int, ...] = ()


REQUEST_TOPIC = Schema(
    DescribeProducersRequestTopic,
    (
        Field("name", STRING),
        Field("partition_indexes", Array(INT32)),
    ),
)


class DescribeProducersRequest(Message):
    topics: tuple[DescribeProducersRequestTopic, ...] = ()


REQUEST = Schema(
    DescribeProducersRequest,
    (Field("topics", Array(REQUEST_TOPIC)),),
)


class DescribeProducersResponseProducerState(Message):
    producer_id: int = 0
    producer_epoch: int = 0
    last_sequence: int = -1
    last_timestamp: int = -1  # ms since the epoch
    coordinator_epoch: int = 0
    current_txn_start_offset: int = -1  # -1: no transaction open


RESPONSE_PRODUCER_STATE = Schema(
    DescribeProducersResponseProducerState,
    (
        Field("producer_id", INT64),
        Field("producer_epoch", INT32),
        Field("last_sequence", INT32),
        Field("last_timestamp", INT64),
        Field("coordinator_epoch", INT32),
        Field("current_txn_start_offset", INT64),
    ),
)


class DescribeProducersResponsePartition(Message):
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    active_producers: tuple[DescribeProducersResponseProducerState, ...] = ()


RESPONSE_PARTITION = Schema(
    DescribeProducersResponsePartition,
    (
        Field("partition_index", INT32),
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
        Field("active_producers", Array(RESPONSE_PRODUCER_STATE)),
    ),
)


class DescribeProducersResponseTopic(Message):
    name: str = ""
    partitions: tuple[DescribeProducersResponsePartition, ...] = ()


RESPONSE_TOPIC = Schema(
    DescribeProducersResponseTopic,
    (
        Field("name", STRING),
        Field("partitions", Array(RESPONSE_PARTITION)),
    ),
)


class DescribeProducersResponse(Message):
    throttle_time_ms: int = 0
    topics: tuple[DescribeProducersResponseTopic, ...] = ()


RESPONSE = Schema(
    DescribeProducersResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("topics", Array(RESPONSE_TOPIC)),
    ),
)
