"""DescribeUserScramCredentials: which users have credentials, of which mechanisms, with how many iterations."""

from collections import Counter, defaultdict
from typing import Any

from coordinator.core.catalog.catalog import Catalog
from coordinator.core.refusal import truncate
from coordinator.core.result import Call, Result
from protocol.errors import ErrorCode
from protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResponseCredentialInfo,
    DescribeUserScramCredentialsResponseDescribeUserScramCredentialsResult,
)

Infos = tuple[DescribeUserScramCredentialsResponseCredentialInfo, ...]


def describe_user_scram_credentials(
    catalog: Catalog, request: DescribeUserScramCredentialsRequest, call: Call
) -> Result[Any]:
    """Describe the users that are asked for, or all. What is derived from a password is told to nobody."""
    infos: defaultdict[str, Infos] = defaultdict(tuple)
    for (user, mechanism), credential in sorted(catalog.scram.items()):
        infos[user] += (DescribeUserScramCredentialsResponseCredentialInfo(mechanism, credential.iterations),)
    times = Counter(user.name for user in request.users or ()) or dict.fromkeys(infos, 1)
    results = tuple([_result(name, count, infos.get(name, ())) for name, count in times.items()])
    return Result(response=DescribeUserScramCredentialsResponse(error_message="", results=results))


def _result(
    name: str, times: int, infos: Infos
) -> DescribeUserScramCredentialsResponseDescribeUserScramCredentialsResult:
    error, message = ErrorCode.RESOURCE_NOT_FOUND, f"The user has no SCRAM credential: {name}"
    if times > 1:
        error, message = ErrorCode.DUPLICATE_RESOURCE, f"The user is there {times} times in the request: {name}"
    elif infos:
        return DescribeUserScramCredentialsResponseDescribeUserScramCredentialsResult(name, credential_infos=infos)
    return DescribeUserScramCredentialsResponseDescribeUserScramCredentialsResult(name, error, truncate(message))
