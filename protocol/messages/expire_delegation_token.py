"""ExpireDelegationToken: let a token end."""

from protocol.schema import Field, Message, Schema
from protocol.wire import BYTES, INT16, INT32, INT64

CHANGES = {
    0: "KIP-48: the first version",
    1: "KIP-219: same bytes; a throttled client gets its answer at once and waits by itself",
    2: "KIP-482: flexible",
}


class ExpireDelegationTokenRequest(Message):
    hmac: bytes = b""
    expiry_time_period_ms: int = 0  # -1: at once


REQUEST = Schema(
    ExpireDelegationTokenRequest,
    (
        Field("hmac", BYTES),
        Field("expiry_time_period_ms", INT64),
    ),
)


class ExpireDelegationTokenResponse(Message):
    error_code: int = 0
    expiry_timestamp_ms: int = 0
    throttle_time_ms: int = 0


RESPONSE = Schema(
    ExpireDelegationTokenResponse,
    (
        Field("error_code", INT16),
        Field("expiry_timestamp_ms", INT64),
        Field("throttle_time_ms", INT32),
    ),
)
