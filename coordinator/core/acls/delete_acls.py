"""DeleteAcls: delete the access rules that match filters."""

from typing import Any

from coordinator.core.acls.filters import is_known, matches
from coordinator.core.catalog.catalog import Catalog
from coordinator.core.catalog.records import AclKey, CatalogRecord
from coordinator.core.result import Call, Result
from protocol.errors import ErrorCode
from protocol.messages.delete_acls import (
    DeleteAclsRequest,
    DeleteAclsRequestDeleteAclsFilter,
    DeleteAclsResponse,
    DeleteAclsResponseDeleteAclsFilterResult,
    DeleteAclsResponseDeleteAclsMatchingAcl,
)


def delete_acls(catalog: Catalog, request: DeleteAclsRequest, call: Call) -> Result[Any]:
    """Delete what any filter matches. A rule that several match is told to each of them."""
    results: list[DeleteAclsResponseDeleteAclsFilterResult] = []
    deleted: dict[AclKey, None] = {}
    for wanted in request.filters:
        if not is_known(wanted):
            refused = DeleteAclsResponseDeleteAclsFilterResult(
                ErrorCode.INVALID_REQUEST, "Unknown number in the filter."
            )
            results.append(refused)
            continue
        found = _matching(catalog, wanted)
        deleted |= dict.fromkeys(found)
        told = tuple([
            DeleteAclsResponseDeleteAclsMatchingAcl(
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                pattern_type=acl.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission_type,
            )
            for acl in found
        ])  # fmt: skip
        results.append(DeleteAclsResponseDeleteAclsFilterResult(matching_acls=told))
    records = tuple([CatalogRecord(acl, None) for acl in deleted])
    return Result(response=DeleteAclsResponse(filter_results=tuple(results)), records=records)


def _matching(catalog: Catalog, wanted: DeleteAclsRequestDeleteAclsFilter) -> list[AclKey]:
    return [acl for acl in catalog.acls if matches(wanted, acl)]
