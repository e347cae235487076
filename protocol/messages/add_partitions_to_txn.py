"""AddPartitionsToTxn: partitions that a producer will write to within its transaction.

Producers use versions 0-3, for one transaction; brokers use version 4 on among themselves, for many, to add or only
to verify (KIP-890).
"""

from protocol.schema import Field, Message, Schema
from protocol.wire import BOOLEAN, INT16, INT32, INT64, STRING, Array

CHANGES = {
    0: "KIP-98: the first version",
    1: "KIP-219: same bytes; a throttled client gets its answer at once and waits by itself",
    2: "KIP-588: same bytes; PRODUCER_FENCED may be answered",
    3: "KIP-482: flexible, so compact lengths and tagged fields",
    4: "KIP-890: many transactions at once, between brokers; or only verify",
    5: "KIP-890: same bytes; TRANSACTION_ABORTABLE may be answered",
}


class AddPartitionsToTxnRequestTopic(Message):
    name: str = ""
    partitions: tuple[int, ...] = ()


REQUEST_TOPIC = Schema(
    AddPartitionsToTxnRequestTopic,
    (
        Field("name", STRING),
        Field("partitions", Array(INT32)),
    ),
)


class AddPartitionsToTxnRequestTransaction(Message):
    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    verify_only: bool = False  # ask whether they are in it, add nothing
    topics: tuple[AddPartitionsToTxnRequestTopic, ...] = ()


REQUEST_TRANSACTION = Schema(
    AddPartitionsToTxnRequestTransaction,
    (
        Field("transactional_id", STRING, since=4),
        Field("producer_id", INT64, since=4),
        Field("producer_epoch", INT16, since=4),
        Field("verify_only", BOOLEAN, since=4),
        Field("topics", Array(REQUEST_TOPIC), since=4),
    ),
)


class AddPartitionsToTxnRequest(Message):
    transactions: tuple[AddPartitionsToTxnRequestTransaction, ...] = ()
    v3_and_below_transactional_id: str = ""
    v3_and_below_producer_id: int = 0
    v3_and_below_producer_epoch: int = 0
    v3_and_below_topics: tuple[AddPartitionsToTxnRequestTopic, ...] = ()


REQUEST = Schema(
    AddPartitionsToTxnRequest,
    (
        Field("transactions", Array(REQUEST_TRANSACTION), since=4),
        Field("v3_and_below_transactional_id", STRING, until=3),
        Field("v3_and_below_producer_id", INT64, until=3),
        Field("v3_and_below_producer_epoch", INT16, until=3),
        Field("v3_and_below_topics", Array(REQUEST_TOPIC), until=3),
    ),
)


class AddPartitionsToTxnResponsePartitionResult(Message):
    partition_index: int = 0
    partition_error_code: int = 0


RESPONSE_PARTITION_RESULT = Schema(
    AddPartitionsToTxnResponsePartitionResult,
    (
        Field("partition_index", INT32),
        Field("partition_error_code", INT16),
    ),
)


class AddPartitionsToTxnResponseTopicResult(Message):
    name: str = ""
    results_by_partition: tuple[AddPartitionsToTxnResponsePartitionResult, ...] = ()


RESPONSE_TOPIC_RESULT = Schema(
    AddPartitionsToTxnResponseTopicResult,
    (
        Field("name", STRING),
        Field("results_by_partition", Array(RESPONSE_PARTITION_RESULT)),
    ),
)


class AddPartitionsToTxnResponseResult(Message):
    transactional_id: str = ""
    topic_results: tuple[AddPartitionsToTxnResponseTopicResult, ...] = ()


RESPONSE_RESULT = Schema(
    AddPartitionsToTxnResponseResult,
    (
        Field("transactional_id", STRING, since=4),
        Field("topic_results", Array(RESPONSE_TOPIC_RESULT), since=4),
    ),
)


class AddPartitionsToTxnResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    results_by_transaction: tuple[AddPartitionsToTxnResponseResult, ...] = ()
    results_by_topic_v3_and_below: tuple[AddPartitionsToTxnResponseTopicResult, ...] = ()


RESPONSE = Schema(
    AddPartitionsToTxnResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("error_code", INT16, since=4),
        Field("results_by_transaction", Array(RESPONSE_RESULT), since=4),
        Field("results_by_topic_v3_and_below", Array(RESPONSE_TOPIC_RESULT), until=3),
    ),
)
