"""DescribeTransactions: the state of transactional ids."""

from protocol.schema import Field, Message, Schema
from protocol.wire import INT16, INT32, INT64, STRING, Array

CHANGES = {
    0: "KIP-664: the first version",
}


class DescribeTransactionsRequest(Message):
    transactional_ids: tuple[str, ...] = ()


REQUEST = Schema(
    DescribeTransactionsRequest,
    (Field("transactional_ids", Array(STRING)),),
)


class DescribeTransactionsResponseTopicData(Message):
    topic: str = ""
    partitions: tuple[int, ...] = ()


RESPONSE_TOPIC_DATA = Schema(
    DescribeTransactionsResponseTopicData,
    (
        Field("topic", STRING),
        Field("partitions", Array(INT32)),
    ),
)


class DescribeTransactionsResponseTransactionState(Message):
    error_code: int = 0
    transactional_id: str = ""
    transaction_state: str = ""
    transaction_timeout_ms: int = 0
    transaction_start_time_ms: int = 0  # since the epoch; -1: none open
    producer_id: int = 0
    producer_epoch: int = 0
    topics: tuple[DescribeTransactionsResponseTopicData, ...] = ()


RESPONSE_TRANSACTION_STATE = Schema(
    DescribeTransactionsResponseTransactionState,
    (
        Field("error_code", INT16),
        Field("transactional_id", STRING),
        Field("transaction_state", STRING),
        Field("transaction_timeout_ms", INT32),
        Field("transaction_start_time_ms", INT64),
        Field("producer_id", INT64),
        Field("producer_epoch", INT16),
        Field("topics", Array(RESPONSE_TOPIC_DATA)),
    ),
)


class DescribeTransactionsResponse(Message):
    throttle_time_ms: int = 0
    transaction_states: tuple[DescribeTransactionsResponseTransactionState, ...] = ()


RESPONSE = Schema(
    DescribeTransactionsResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("transaction_states", Array(RESPONSE_TRANSACTION_STATE)),
    ),
)
