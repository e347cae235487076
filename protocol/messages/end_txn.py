"""EndTxn: commit or abort the open transaction."""

from protocol.schema import Field, Message, Schema
from protocol.wire import BOOLEAN, INT16, INT32, INT64, STRING

CHANGES = {
    0: "KIP-98: the first version",
    1: "KIP-219: same bytes; a throttled client gets its answer at once and waits by itself",
    2: "KIP-588: same bytes; PRODUCER_FENCED may be answered",
    3: "KIP-482: flexible, so compact lengths and tagged fields",
    4: "KIP-890: same bytes; TRANSACTION_ABORTABLE may be answered",
    5: "KIP-890: every transaction ends with a new epoch, which the answer tells",
}


class EndTxnRequest(Message):
    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    committed: bool = False  # False: abort


REQUEST = Schema(
    EndTxnRequest,
    (
        Field("transactional_id", STRING),
        Field("producer_id", INT64),
        Field("producer_epoch", INT16),
        Field("committed", BOOLEAN),
    ),
)


class EndTxnResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id: int = -1
    producer_epoch: int = -1  # for the producer's next transaction


RESPONSE = Schema(
    EndTxnResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("error_code", INT16),
        Field("producer_id", INT64, since=5),
        Field("producer_epoch", INT16, since=5),
    ),
)
