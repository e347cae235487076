"""DescribeUserScramCredentials: no user has any."""

from collections import Counter

from coordinator.core.refusal import truncate
from coordinator.dataplane.state import Env, State
from protocol.errors import ErrorCode
from protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResponseDescribeUserScramCredentialsResult,
)


def describe_user_scram_credentials(
    state: State, request: DescribeUserScramCredentialsRequest, env: Env
) -> DescribeUserScramCredentialsResponse:
    """Say of each user that is asked for that it has no credential; of all users there is nothing to say."""
    times = Counter(user.name for user in request.users or ())
    return DescribeUserScramCredentialsResponse(
        error_message="", results=tuple([_result(name, count) for name, count in times.items()])
    )


def _result(name: str, times: int) -> DescribeUserScramCredentialsResponseDescribeUserScramCredentialsResult:
    error, message = ErrorCode.RESOURCE_NOT_FOUND, f"The user has no SCRAM credential: {name}"
    if times > 1:
        error, message = ErrorCode.DUPLICATE_RESOURCE, f"The user is there {times} times in the request: {name}"
    return DescribeUserScramCredentialsResponseDescribeUserScramCredentialsResult(name, error, truncate(message))
