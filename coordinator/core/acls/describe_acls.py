"""DescribeAcls: the access rules that match a filter.

Shown by tests/core/acls/test_changes.py and tests/conformance/stories/acl_rules.py.
"""

from coordinator.core.acls.filters import matches
from coordinator.core.catalog.catalog import Catalog
from coordinator.core.pace import Pace
from coordinator.core.response_budget import ResponseBudget
from coordinator.core.result import Call, Decisions, Result
from protocol.messages.describe_acls import (
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeAclsResponseAclDescription,
    DescribeAclsResponseDescribeAclsResource,
)


def describe_acls(catalog: Catalog, request: DescribeAclsRequest, call: Call) -> Decisions:
    """Describe the rules, by the resource that they are about."""
    found: dict[tuple[int, str, int], list[DescribeAclsResponseAclDescription]] = {}
    budget, pace = ResponseBudget(), Pace()
    for acl in tuple(catalog.acls):
        if pace.is_due():
            yield Result()
        if matches(request, acl):
            resource = (acl.resource_type, acl.resource_name, acl.pattern_type)
            described = DescribeAclsResponseAclDescription(acl.principal, acl.host, acl.operation, acl.permission_type)
            found.setdefault(resource, []).append(budget.add(described))
    resources = [DescribeAclsResponseDescribeAclsResource(*resource, tuple(acls)) for resource, acls in found.items()]
    yield Result(response=DescribeAclsResponse(error_message="", resources=tuple(resources)))
