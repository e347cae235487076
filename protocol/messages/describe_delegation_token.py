"""DescribeDelegationToken: the tokens of owners."""

from protocol.schema import Field, Message, Schema
from protocol.wire import BYTES, INT16, INT32, INT64, STRING, Array, NullableArray

CHANGES = {
    0: "KIP-48: the first version",
    1: "KIP-219: same bytes; a throttled client gets its answer at once and waits by itself",
    2: "KIP-482: flexible",
    3: "KIP-373: who requested a token",
}


class DescribeDelegationTokenRequestDescribeDelegationTokenOwner(Message):
    principal_type: str = ""
    principal_name: str = ""


REQUEST_DESCRIBE_DELEGATION_TOKEN_OWNER = Schema(
    DescribeDelegationTokenRequestDescribeDelegationTokenOwner,
    (
        Field("principal_type", STRING),
        Field("principal_name", STRING),
    ),
)


class DescribeDelegationTokenRequest(Message):
    owners: tuple[DescribeDelegationTokenRequestDescribeDelegationTokenOwner, ...] | None = ()  # null: all


REQUEST = Schema(
    DescribeDelegationTokenRequest,
    (Field("owners", NullableArray(REQUEST_DESCRIBE_DELEGATION_TOKEN_OWNER)),),
)


class DescribeDelegationTokenResponseDescribedDelegationTokenRenewer(Message):
    principal_type: str = ""
    principal_name: str = ""


RESPONSE_DESCRIBED_DELEGATION_TOKEN_RENEWER = Schema(
    DescribeDelegationTokenResponseDescribedDelegationTokenRenewer,
    (
        Field("principal_type", STRING),
        Field("principal_name", STRING),
    ),
)


class DescribeDelegationTokenResponseDescribedDelegationToken(Message):
    principal_type: str = ""
    principal_name: str = ""
    token_requester_principal_type: str = ""
    token_requester_principal_name: str = ""
    issue_timestamp: int = 0
    expiry_timestamp: int = 0
    max_timestamp: int = 0
    token_id: str = ""
    hmac: bytes = b""
    renewers: tuple[DescribeDelegationTokenResponseDescribedDelegationTokenRenewer, ...] = ()


RESPONSE_DESCRIBED_DELEGATION_TOKEN = Schema(
    DescribeDelegationTokenResponseDescribedDelegationToken,
    (
        Field("principal_type", STRING),
        Field("principal_name", STRING),
        Field("token_requester_principal_type", STRING, since=3),
        Field("token_requester_principal_name", STRING, since=3),
        Field("issue_timestamp", INT64),
        Field("expiry_timestamp", INT64),
        Field("max_timestamp", INT64),
        Field("token_id", STRING),
        Field("hmac", BYTES),
        Field("renewers", Array(RESPONSE_DESCRIBED_DELEGATION_TOKEN_RENEWER)),
    ),
)


class DescribeDelegationTokenResponse(Message):
    error_code: int = 0
    tokens: tuple[DescribeDelegationTokenResponseDescribedDelegationToken, ...] = ()
    throttle_time_ms: int = 0


RESPONSE = Schema(
    DescribeDelegationTokenResponse,
    (
        Field("error_code", INT16),
        Field("tokens", Array(RESPONSE_DESCRIBED_DELEGATION_TOKEN)),
        Field("throttle_time_ms", INT32),
    ),
)
