"""CreateDelegationToken: issue a token by which others may act for a user (KIP-48)."""

from protocol.schema import Field, Message, Schema
from protocol.wire import BYTES, INT16, INT32, INT64, NULLABLE_STRING, STRING, Array

CHANGES = {
    0: "KIP-48: the first version",
    1: "KIP-219: same bytes; a throttled client gets its answer at once and waits by itself",
    2: "KIP-482: flexible",
    3: "KIP-373: tokens for other users",
}


class CreateDelegationTokenRequestCreatableRenewers(Message):
    principal_type: str = ""
    principal_name: str = ""


REQUEST_CREATABLE_RENEWERS = Schema(
    CreateDelegationTokenRequestCreatableRenewers,
    (
        Field("principal_type", STRING),
        Field("principal_name", STRING),
    ),
)


class CreateDelegationTokenRequest(Message):
    owner_principal_type: str | None = None  # null: the requester
    owner_principal_name: str | None = None  # null: the requester
    renewers: tuple[CreateDelegationTokenRequestCreatableRenewers, ...] = ()
    max_lifetime_ms: int = 0  # -1: the broker's default


REQUEST = Schema(
    CreateDelegationTokenRequest,
    (
        Field("owner_principal_type", NULLABLE_STRING, since=3),
        Field("owner_principal_name", NULLABLE_STRING, since=3),
        Field("renewers", Array(REQUEST_CREATABLE_RENEWERS)),
        Field("max_lifetime_ms", INT64),
    ),
)


class CreateDelegationTokenResponse(Message):
    error_code: int = 0
    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: str = ""
    token_requester_principal_name: str = ""
    issue_timestamp_ms: int = 0
    expiry_timestamp_ms: int = 0
    max_timestamp_ms: int = 0
    token_id: str = ""
    hmac: bytes = b""
    throttle_time_ms: int = 0


RESPONSE = Schema(
    CreateDelegationTokenResponse,
    (
        Field("error_code", INT16),
        Field("principal_type", STRING),
        Field("principal_name", STRING),
        Field("token_requester_principal_type", STRING, since=3),
        Field("token_requester_principal_name", STRING, since=3),
        Field("issue_timestamp_ms", INT64),
        Field("expiry_timestamp_ms", INT64),
        Field("max_timestamp_ms", INT64),
        Field("token_id", STRING),
        Field("hmac", BYTES),
        Field("throttle_time_ms", INT32),
    ),
)
