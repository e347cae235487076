"""ListTransactions: the transactional ids that this broker coordinates.

An empty filter lets all through. Answers are filtered by all filters at once.
"""

from protocol.schema import Field, Message, Schema
from protocol.wire import INT16, INT32, INT64, NULLABLE_STRING, STRING, Array

CHANGES = {
    0: "KIP-664: the first version",
    1: "KIP-994: a filter by how long a transaction runs",
    2: "KIP-1152: a filter by a pattern of the id",
}


class ListTransactionsRequest(Message):
    state_filters: tuple[str, ...] = ()
    producer_id_filters: tuple[int, ...] = ()
    duration_filter: int = -1  # ms; negative: none
    transactional_id_pattern: str | None = None  # RE2 syntax; None or "": none


REQUEST = Schema(
    ListTransactionsRequest,
    (
        Field("state_filters", Array(STRING)),
        Field("producer_id_filters", Array(INT64)),
        Field("duration_filter", INT64, since=1),
        Field("transactional_id_pattern", NULLABLE_STRING, since=2),
    ),
)


class ListTransactionsResponseTransactionState(Message):
    transactional_id: str = ""
    producer_id: int = 0
    transaction_state: str = ""


RESPONSE_TRANSACTION_STATE = Schema(
    ListTransactionsResponseTransactionState,
    (
        Field("transactional_id", STRING),
        Field("producer_id", INT64),
        Field("transaction_state", STRING),
    ),
)


class ListTransactionsResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    unknown_state_filters: tuple[str, ...] = ()  # states asked for that do not exist
    transaction_states: tuple[ListTransactionsResponseTransactionState, ...] = ()


RESPONSE = Schema(
    ListTransactionsResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("error_code", INT16),
        Field("unknown_state_filters", Array(STRING)),
        Field("transaction_states", Array(RESPONSE_TRANSACTION_STATE)),
    ),
)
