"""Create, describe, expire and renew delegation tokens, on a plaintext listener.

Kafka refuses them to a client that has not authenticated itself, and so does this server.
"""

from typing import Final

from coordinator.dataplane.state import Env, State
from protocol.errors import ErrorCode
from protocol.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest, DescribeDelegationTokenResponse
from protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

_REFUSAL: Final = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
_TYPE, _NAME = "User", "ANONYMOUS"  # the principal of a client that has not authenticated itself
_NEVER: Final = -1


def create_delegation_token(
    state: State, request: CreateDelegationTokenRequest, env: Env
) -> CreateDelegationTokenResponse:
    """Refuse to issue a token."""
    return CreateDelegationTokenResponse(
        error_code=_REFUSAL,
        principal_type=_TYPE,
        principal_name=_NAME,
        token_requester_principal_type=_TYPE,
        token_requester_principal_name=_NAME,
        issue_timestamp_ms=_NEVER,
        expiry_timestamp_ms=_NEVER,
        max_timestamp_ms=_NEVER,
    )


def describe_delegation_token(
    state: State, request: DescribeDelegationTokenRequest, env: Env
) -> DescribeDelegationTokenResponse:
    """Refuse to describe tokens."""
    return DescribeDelegationTokenResponse(error_code=_REFUSAL)


def expire_delegation_token(
    state: State, request: ExpireDelegationTokenRequest, env: Env
) -> ExpireDelegationTokenResponse:
    """Refuse to end a token."""
    return ExpireDelegationTokenResponse(error_code=_REFUSAL, expiry_timestamp_ms=_NEVER)


def renew_delegation_token(
    state: State, request: RenewDelegationTokenRequest, env: Env
) -> RenewDelegationTokenResponse:
    """Refuse to prolong a token."""
    return RenewDelegationTokenResponse(error_code=_REFUSAL, expiry_timestamp_ms=_NEVER)
