"""CreateAcls: add access rules. Kafka: `AclControlManager.createAcls`.

Shown by tests/core/acls/test_changes.py and tests/conformance/stories/acl_rules.py.
"""

from collections.abc import Iterable
from typing import Final

from coordinator.core.acls.names import ANY, CLUSTER_NAME, Operation, Pattern, Permission, Resource
from coordinator.core.catalog.catalog import Catalog
from coordinator.core.catalog.records import AclKey, AclValue, CatalogRecord
from coordinator.core.prices import Room
from coordinator.core.refusal import Refusal
from coordinator.core.result import STEP_ENTRIES, Call, Decisions, Result
from protocol.errors import ErrorCode
from protocol.messages.create_acls import (
    CreateAclsRequest,
    CreateAclsRequestAclCreation,
    CreateAclsResponse,
    CreateAclsResponseAclCreationResult,
)

ACLS_MAX: Final = 10_000  # a bound on what clients can make us keep, and walk over to describe and delete

_TYPES: Final = frozenset(Resource)
_PATTERNS: Final = frozenset({Pattern.LITERAL, Pattern.PREFIXED})
_FULL: Final = Refusal(ErrorCode.POLICY_VIOLATION, f"There is room for {ACLS_MAX} ACLs here.")
_FOR_FILTERS: Final = frozenset({ANY, Pattern.MATCH})


def create_acls(catalog: Catalog, request: CreateAclsRequest, call: Call) -> Decisions:
    """Add each rule that makes sense; one that is there already is no error.

    Where one of them has a value that only filters may have, such as ANY, all are refused, as in Kafka.
    """
    if any(map(_is_for_filters, request.creations)):
        refused = CreateAclsResponseAclCreationResult(ErrorCode.UNKNOWN_SERVER_ERROR)
        yield Result(response=CreateAclsResponse(results=(refused,) * len(request.creations)))
        return
    results: list[CreateAclsResponseAclCreationResult] = []
    added: dict[AclKey, None] = {}
    room = Room(catalog.held)
    for creation in request.creations:
        wrong = _validate(creation)
        if wrong is not None:
            results.append(CreateAclsResponseAclCreationResult(wrong.error, wrong.message))
            continue
        acl = AclKey(
            creation.resource_type,
            creation.resource_name,
            creation.resource_pattern_type,
            creation.principal,
            creation.host,
            creation.operation,
            creation.permission_type,
        )
        if acl not in catalog.acls and acl not in added:
            if len(catalog.acls) + len(added) >= ACLS_MAX:
                results.append(CreateAclsResponseAclCreationResult(_FULL.error, _FULL.message))
                continue
            full = room.take(_records([acl], call))
            if full is not None:
                results.append(CreateAclsResponseAclCreationResult(full.error, full.message))
                continue
            added[acl] = None
        results.append(CreateAclsResponseAclCreationResult(error_message=""))
        if len(added) >= STEP_ENTRIES:
            yield Result(records=_records(added, call))
            added.clear()
            room.begin_step()
    yield Result(response=CreateAclsResponse(results=tuple(results)), records=_records(added, call))


def _records(added: Iterable[AclKey], call: Call) -> tuple[CatalogRecord, ...]:
    return tuple([CatalogRecord(acl, AclValue(call.now_ms)) for acl in added])


def _is_for_filters(one: CreateAclsRequestAclCreation) -> bool:
    return ANY in (one.resource_type, one.operation, one.permission_type) or one.resource_pattern_type in _FOR_FILTERS


def _validate(one: CreateAclsRequestAclCreation) -> Refusal | None:
    """Return why there cannot be such a rule, None if there can."""
    if one.resource_type == Resource.CLUSTER and one.resource_name != CLUSTER_NAME:
        return Refusal(ErrorCode.INVALID_REQUEST, f"The only valid name for the cluster is {CLUSTER_NAME}.")
    if not one.resource_name:
        return Refusal(ErrorCode.INVALID_REQUEST, "The name of the resource is empty.")
    known = (
        (one.resource_type, _TYPES, "resource type"),
        (one.resource_pattern_type, _PATTERNS, "pattern type"),
        (one.operation, frozenset(Operation), "operation"),
        (one.permission_type, frozenset(Permission), "permission type"),
    )
    for number, numbers, what in known:
        if number not in numbers:
            return Refusal(ErrorCode.INVALID_REQUEST, f"Unknown {what}: {number}")
    if ":" not in one.principal:
        return Refusal(ErrorCode.INVALID_REQUEST, f"The principal is not TYPE:NAME: {one.principal!r}")
    return None
