"""RenewDelegationToken: prolong a token."""

from protocol.schema import Field, Message, Schema
from protocol.wire import BYTES, INT16, INT32, INT64

CHANGES = {
    0: "KIP-48: the first version",
    1: "KIP-219: same bytes; a throttled client gets its answer at once and waits by itself",
    2: "KIP-482: flexible",
}


class RenewDelegationTokenRequest(Message):
    hmac: bytes = b""
    renew_period_ms: int = 0


REQUEST = Schema(
    RenewDelegationTokenRequest,
    (
        Field("hmac", BYTES),
        Field("renew_period_ms", INT64),
    ),
)


class RenewDelegationTokenResponse(Message):
    error_code: int = 0
    expiry_timestamp_ms: int = 0
    throttle_time_ms: int = 0


RESPONSE = Schema(
    RenewDelegationTokenResponse,
    (
        Field("error_code", INT16),
        Field("expiry_timestamp_ms", INT64),
        Field("throttle_time_ms", INT32),
    ),
)
