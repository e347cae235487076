"""Requests about security itself: access rules, and delegation tokens, of which there are none."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from coordinator.config import Config
from coordinator.core.acls.authorizer import Authorizer
from coordinator.core.acls.create_acls import create_acls
from coordinator.core.acls.delete_acls import delete_acls
from coordinator.core.acls.describe_acls import describe_acls
from coordinator.core.acls.rules import AclRules
from coordinator.core.catalog.catalog import Catalog
from coordinator.core.decision import Decision, Done, InSteps, answers, respond_in_steps
from coordinator.core.principal import ANONYMOUS
from coordinator.core.result import Call, Decisions
from coordinator.dataplane.brokers import Where
from coordinator.dataplane.handlers import record_in_steps
from coordinator.runtime.engine import Engine
from coordinator.runtime.error_response import error_response
from protocol.errors import ErrorCode, UnreadableValue
from protocol.messages.create_acls import CreateAclsRequest
from protocol.messages.create_delegation_token import CreateDelegationTokenResponse
from protocol.messages.delete_acls import DeleteAclsRequest
from protocol.messages.describe_acls import DescribeAclsRequest

_NO_AUTHORIZER: Final = "No authorizer is configured: there are no ACLs."
_NEVER: Final = -1


def make_authorizer(config: Config, rules: AclRules) -> Authorizer:
    """Return the authorizer that the settings ask for."""
    users = (user.strip() for user in config["super.users"].split(";"))
    return Authorizer(
        rules, [user for user in users if user], allows_without_acls=config["allow.everyone.if.no.acl.found"]
    )


_DECIDE: Final[Mapping[type, Callable[[Catalog, Any, Call], Decisions]]] = {
    CreateAclsRequest: create_acls,
    DeleteAclsRequest: delete_acls,
    DescribeAclsRequest: describe_acls,
}


def acls(engine: Engine, request: Any, call: Call, where: Where) -> Decision:
    """Handle a request about ACLs. Without an authorizer each rule or filter is answered SECURITY_DISABLED."""
    _refuse_unknown_elements(request)
    if engine.authorizer is None:
        return Done(_told(error_response(request, call.version, ErrorCode.SECURITY_DISABLED), _NO_AUTHORIZER))
    decisions = _DECIDE[type(request)](engine.world.ledger.catalog, request, call)
    return InSteps(respond_in_steps(record_in_steps(engine.record, decisions, call.now_ms)))


@answers
def delegation_token(engine: Engine, request: Any, call: Call, where: Where) -> Any:
    """Refuse every request about delegation tokens, as Kafka does without a secret key for them.

    A client that has not authenticated itself may not even ask.
    """
    is_anonymous = call.principal == ANONYMOUS
    error = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED if is_anonymous else ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    response = error_response(request, call.version, error)
    if isinstance(response, CreateDelegationTokenResponse):
        asker = (call.principal.type, call.principal.name)
        name = request.owner_principal_name
        owner = (request.owner_principal_type or "", name) if name else asker
        response = replace(
            response,
            principal_type=owner[0],
            principal_name=owner[1],
            token_requester_principal_type=asker[0],
            token_requester_principal_name=asker[1],
        )
    if not is_anonymous:
        return response
    times = [name for name in response.__struct_fields__ if name.endswith("timestamp_ms")]
    return replace(response, **dict.fromkeys(times, _NEVER))


def _refuse_unknown_elements(request: CreateAclsRequest | DeleteAclsRequest | DescribeAclsRequest) -> None:
    """Refuse the code 0, which stands for unknown, like bytes that cannot be read. Kafka:
    `CreateAclsRequest.validate`."""
    for what, numbers in _numbers(request):
        if 0 in numbers:
            raise UnreadableValue(f"{what} has unknown elements: {numbers}")


def _numbers(
    request: CreateAclsRequest | DeleteAclsRequest | DescribeAclsRequest,
) -> Iterable[tuple[str, tuple[int, ...]]]:
    if isinstance(request, CreateAclsRequest):
        for rule in request.creations:
            kinds = (rule.resource_type, rule.resource_pattern_type, rule.operation, rule.permission_type)
            yield "a rule of CreateAcls", kinds
        return
    for one in request.filters if isinstance(request, DeleteAclsRequest) else (request,):
        yield (
            "a filter of ACLs",
            (one.resource_type_filter, one.pattern_type_filter, one.operation, one.permission_type),
        )


def _told(response: Any, message: str) -> Any:
    """Put a message beside each error of a response."""
    if hasattr(response, "error_message"):
        return replace(response, error_message=message)
    arrays = {name: value for name in response.__struct_fields__ if isinstance(value := getattr(response, name), tuple)}
    told = {name: tuple([replace(one, error_message=message) for one in array]) for name, array in arrays.items()}
    return replace(response, **told)
