"""DescribeAcls, CreateAcls and DeleteAcls, as a broker without an authorizer answers them: SECURITY_DISABLED."""

from typing import Final

from coordinator.dataplane.state import Env, State
from protocol.errors import ErrorCode
from protocol.messages.create_acls import CreateAclsRequest, CreateAclsResponse, CreateAclsResponseAclCreationResult
from protocol.messages.delete_acls import (
    DeleteAclsRequest,
    DeleteAclsResponse,
    DeleteAclsResponseDeleteAclsFilterResult,
)
from protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

_MESSAGE: Final = "No authorizer is configured: there are no ACLs."


def describe_acls(state: State, request: DescribeAclsRequest, env: Env) -> DescribeAclsResponse:
    """Refuse the request."""
    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=_MESSAGE)


def create_acls(state: State, request: CreateAclsRequest, env: Env) -> CreateAclsResponse:
    """Refuse each rule."""
    refused = CreateAclsResponseAclCreationResult(ErrorCode.SECURITY_DISABLED, _MESSAGE)
    return CreateAclsResponse(results=(refused,) * len(request.creations))


def delete_acls(state: State, request: DeleteAclsRequest, env: Env) -> DeleteAclsResponse:
    """Refuse each filter."""
    refused = DeleteAclsResponseDeleteAclsFilterResult(ErrorCode.SECURITY_DISABLED, _MESSAGE)
    return DeleteAclsResponse(filter_results=(refused,) * len(request.filters))
