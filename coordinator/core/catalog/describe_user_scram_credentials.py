"""DescribeUserScramCredentials: which users have credentials, of which mechanisms, with how many iterations.

Shown by tests/core/catalog/test_scram.py and tests/conformance/stories/admin_cluster.py.
"""

from collections import Counter
from collections.abc import Mapping

from coordinator.core.catalog.catalog import Catalog
from coordinator.core.pace import Pace, name_units
from coordinator.core.refusal import truncate
from coordinator.core.response_budget import ResponseBudget
from coordinator.core.result import Call, Decisions, Result
from coordinator.core.scram import BY_NUMBER
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
) -> Decisions:
    """Describe the users that are asked for, or all. What is derived from a password is told to nobody."""
    scram = catalog.scram
    times: Mapping[str, int] = Counter(user.name for user in request.users or ())
    if not times:
        times = dict.fromkeys(sorted({user for user, _ in scram}), 1)
    results: list[DescribeUserScramCredentialsResponseDescribeUserScramCredentialsResult] = []
    pace, budget = Pace(), ResponseBudget()
    for name, count in times.items():
        if pace.is_due(name_units(name)):
            yield Result()
        credentials = [(number, scram.get((name, number))) for number in sorted(BY_NUMBER)]
        infos = tuple([
            DescribeUserScramCredentialsResponseCredentialInfo(number, one.iterations)
            for number, one in credentials
            if one is not None
        ])  # fmt: skip
        results.append(budget.add(_result(name, count, infos)))
    yield Result(response=DescribeUserScramCredentialsResponse(error_message="", results=tuple(results)))


def _result(
    name: str, times: int, infos: Infos
) -> DescribeUserScramCredentialsResponseDescribeUserScramCredentialsResult:
    error, message = ErrorCode.RESOURCE_NOT_FOUND, f"The user has no SCRAM credential: {name}"
    if times > 1:
        error, message = ErrorCode.DUPLICATE_RESOURCE, f"The user is there {times} times in the request: {name}"
    elif infos:
        return DescribeUserScramCredentialsResponseDescribeUserScramCredentialsResult(name, credential_infos=infos)
    return DescribeUserScramCredentialsResponseDescribeUserScramCredentialsResult(name, error, truncate(message))
