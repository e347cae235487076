"""WriteTxnMarkers: end transactions in their partitions, as brokers do, and administrators who abort one."""

from protocol.schema import Field, Message, Schema
from protocol.wire import BOOLEAN, INT8, INT16, INT32, INT64, STRING, Array

CHANGES = {
    0: "KIP-98: the first version",
    1: "KIP-482: flexible",
    2: "KIP-1228: the version of the transaction",
}


class WriteTxnMarkersRequestWritableTxnMarkerTopic(Message):
    name: str = ""
    partition_indexes: tuple[int, ...] = ()


REQUEST_WRITABLE_TXN_MARKER_TOPIC = Schema(
    WriteTxnMarkersRequestWritableTxnMarkerTopic,
    (
        Field("name", STRING),
        Field("partition_indexes", Array(INT32)),
    ),
)


class WriteTxnMarkersRequestWritableTxnMarker(Message):
    producer_id: int = 0
    producer_epoch: int = 0
    transaction_result: bool = False  # whether the transaction is committed
    topics: tuple[WriteTxnMarkersRequestWritableTxnMarkerTopic, ...] = ()
    coordinator_epoch: int = 0
    transaction_version: int = 0


REQUEST_WRITABLE_TXN_MARKER = Schema(
    WriteTxnMarkersRequestWritableTxnMarker,
    (
        Field("producer_id", INT64),
        Field("producer_epoch", INT16),
        Field("transaction_result", BOOLEAN),
        Field("topics", Array(REQUEST_WRITABLE_TXN_MARKER_TOPIC)),
        Field("coordinator_epoch", INT32),
        Field("transaction_version", INT8, since=2),
    ),
)


class WriteTxnMarkersRequest(Message):
    markers: tuple[WriteTxnMarkersRequestWritableTxnMarker, ...] = ()


REQUEST = Schema(
    WriteTxnMarkersRequest,
    (Field("markers", Array(REQUEST_WRITABLE_TXN_MARKER)),),
)


class WriteTxnMarkersResponseWritableTxnMarkerPartitionResult(Message):
    partition_index: int = 0
    error_code: int = 0


RESPONSE_WRITABLE_TXN_MARKER_PARTITION_RESULT = Schema(
    WriteTxnMarkersResponseWritableTxnMarkerPartitionResult,
    (
        Field("partition_index", INT32),
        Field("error_code", INT16),
    ),
)


class WriteTxnMarkersResponseWritableTxnMarkerTopicResult(Message):
    name: str = ""
    partitions: tuple[WriteTxnMarkersResponseWritableTxnMarkerPartitionResult, ...] = ()


RESPONSE_WRITABLE_TXN_MARKER_TOPIC_RESULT = Schema(
    WriteTxnMarkersResponseWritableTxnMarkerTopicResult,
    (
        Field("name", STRING),
        Field("partitions", Array(RESPONSE_WRITABLE_TXN_MARKER_PARTITION_RESULT)),
    ),
)


class WriteTxnMarkersResponseWritableTxnMarkerResult(Message):
    producer_id: int = 0
    topics: tuple[WriteTxnMarkersResponseWritableTxnMarkerTopicResult, ...] = ()


RESPONSE_WRITABLE_TXN_MARKER_RESULT = Schema(
    WriteTxnMarkersResponseWritableTxnMarkerResult,
    (
        Field("producer_id", INT64),
        Field("topics", Array(RESPONSE_WRITABLE_TXN_MARKER_TOPIC_RESULT)),
    ),
)


class WriteTxnMarkersResponse(Message):
    markers: tuple[WriteTxnMarkersResponseWritableTxnMarkerResult, ...] = ()


RESPONSE = Schema(
    WriteTxnMarkersResponse,
    (Field("markers", Array(RESPONSE_WRITABLE_TXN_MARKER_RESULT)),),
)
