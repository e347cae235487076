"""UnregisterBroker: forget a broker that is gone for good."""

from protocol.schema import Field, Message, Schema
from protocol.wire import INT16, INT32, NULLABLE_STRING

CHANGES = {
    0: "KIP-500: the first version",
}


class UnregisterBrokerRequest(Message):
    broker_id: int = 0


REQUEST = Schema(
    UnregisterBrokerRequest,
    (Field("broker_id", INT32),),
)


class UnregisterBrokerResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None


RESPONSE = Schema(
    UnregisterBrokerResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
    ),
)
