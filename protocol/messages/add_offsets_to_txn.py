"""AddOffsetsToTxn: a producer will commit offsets of a group within its transaction."""

from protocol.schema import Field, Message, Schema
from protocol.wire import INT16, INT32, INT64, STRING

CHANGES = {
    0: "KIP-98: the first version",
    1: "KIP-219: same bytes; a throttled client gets its answer at once and waits by itself",
    2: "KIP-588: same bytes; PRODUCER_FENCED may be answered",
    3: "KIP-482: flexible, so compact lengths and tagged fields",
    4: "KIP-890: same bytes; TRANSACTION_ABORTABLE may be answered",
}


class AddOffsetsToTxnRequest(Message):
    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    group_id: str = ""


REQUEST = Schema(
    AddOffsetsToTxnRequest,
    (
        Field("transactional_id", STRING),
        Field("producer_id", INT64),
        Field("producer_epoch", INT16),
        Field("group_id", STRING),
    ),
)


class AddOffsetsToTxnResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0


RESPONSE = Schema(
    AddOffsetsToTxnResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("error_code", INT16),
    ),
)
