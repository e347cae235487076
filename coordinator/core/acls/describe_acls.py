"""DescribeAcls: the access rules that match a filter."""

from typing import Any

from coordinator.core.acls.filters import matches
from coordinator.core.catalog.catalog import Catalog
from coordinator.core.result import Call, Result
from protocol.messages.describe_acls import (
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeAclsResponseAclDescription,
    DescribeAclsResponseDescribeAclsResource,
)


def describe_acls(catalog: Catalog, request: DescribeAclsRequest, call: Call) -> Result[Any]:
    """Describe the rules, by the resource that they are about."""
    found: dict[tuple[int, str, int], list[DescribeAclsResponseAclDescription]] = {}
    for acl in catalog.acls:
        if matches(request, acl):
            resource = (acl.resource_type, acl.resource_name, acl.pattern_type)
            described = DescribeAclsResponseAclDescription(acl.principal, acl.host, acl.operation, acl.permission_type)
            found.setdefault(resource, []).append(described)
    resources = [DescribeAclsResponseDescribeAclsResource(*resource, tuple(acls)) for resource, acls in found.items()]
    return Result(response=DescribeAclsResponse(error_message="", resources=tuple(resources)))
