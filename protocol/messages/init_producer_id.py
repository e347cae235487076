"""InitProducerId: an id and an epoch for an idempotent or transactional producer.

With a transactional id the epoch is raised: that fences every earlier producer of the id and aborts what it left open.
"""

from protocol.schema import Field, Message, Schema
from protocol.wire import BOOLEAN, INT16, INT32, INT64, NULLABLE_STRING

CHANGES = {
    0: "KIP-98: the first version",
    1: "KIP-219: same bytes; a throttled client gets its answer at once and waits by itself",
    2: "KIP-482: flexible, so compact lengths and tagged fields",
    3: "KIP-360: a producer resumes from the id and epoch it has",
    4: "KIP-588: same bytes; PRODUCER_FENCED may be answered",
    5: "KIP-890: same bytes; TRANSACTION_ABORTABLE may be answered",
    6: "KIP-939: two-phase commit; not stable yet, so servers do not advertise it",
}


class InitProducerIdRequest(Message):
    transactional_id: str | None = ""  # None: idempotent only
    transaction_timeout_ms: int = 0
    producer_id: int = -1  # -1: a new one
    producer_epoch: int = -1
    enable2_pc: bool = False
    keep_prepared_txn: bool = False


REQUEST = Schema(
    InitProducerIdRequest,
    (
        Field("transactional_id", NULLABLE_STRING),
        Field("transaction_timeout_ms", INT32),
        Field("producer_id", INT64, since=3),
        Field("producer_epoch", INT16, since=3),
        Field("enable2_pc", BOOLEAN, since=6),
        Field("keep_prepared_txn", BOOLEAN, since=6),
    ),
)


class InitProducerIdResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    producer_id: int = -1
    producer_epoch: int = 0
    ongoing_txn_producer_id: int = -1
    ongoing_txn_producer_epoch: int = -1


RESPONSE = Schema(
    InitProducerIdResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("error_code", INT16),
        Field("producer_id", INT64),
        Field("producer_epoch", INT16),
        Field("ongoing_txn_producer_id", INT64, since=6),
        Field("ongoing_txn_producer_epoch", INT16, since=6),
    ),
)
