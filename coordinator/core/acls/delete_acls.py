"""DeleteAcls: delete the access rules that match filters.

Shown by tests/core/acls/test_changes.py and tests/conformance/stories/acl_rules.py.
"""

from typing import Final

from coordinator.core.acls.filters import Candidates, is_known
from coordinator.core.catalog.catalog import Catalog
from coordinator.core.catalog.records import AclKey, CatalogRecord
from coordinator.core.result import STEP_ENTRIES, Call, Decisions, Result
from protocol.errors import ErrorCode
from protocol.messages.delete_acls import (
    DeleteAclsRequest,
    DeleteAclsRequestDeleteAclsFilter,
    DeleteAclsResponse,
    DeleteAclsResponseDeleteAclsFilterResult,
    DeleteAclsResponseDeleteAclsMatchingAcl,
)

MATCHES_MAX: Final = 200_000
"""Rules that a response names, those that several filters match as many times. A filter beyond deletes nothing."""
_LOOKS: Final = 20  # rules that are compared with a filter in the time of one entry

Filter = DeleteAclsRequestDeleteAclsFilter
FilterResult = DeleteAclsResponseDeleteAclsFilterResult


def delete_acls(catalog: Catalog, request: DeleteAclsRequest, call: Call) -> Decisions:
    """Delete what any filter matches. All go at the end: a rule that several filters match is told to each of them."""
    candidates = Candidates(catalog.acls)
    results: list[FilterResult] = []
    by_filter: dict[Filter, FilterResult] = {}
    entries: dict[AclKey, DeleteAclsResponseDeleteAclsMatchingAcl] = {}
    matches = work = 0
    for wanted in request.filters:
        result = by_filter.get(wanted)
        if result is None:
            work += 1 + candidates.count(wanted) // _LOOKS
            if results and work > STEP_ENTRIES:
                yield Result()
                work = 0
            result = by_filter[wanted] = _find(candidates, wanted, entries, MATCHES_MAX - matches)
        if matches + len(result.matching_acls) > MATCHES_MAX:  # of a filter that is there again
            result = _TOO_MANY
        matches += len(result.matching_acls)
        results.append(result)
    gone = list(dict.fromkeys(acl for acl in entries if acl in catalog.acls))
    for at in range(0, len(gone), STEP_ENTRIES):
        yield Result(records=tuple([CatalogRecord(acl, None) for acl in gone[at : at + STEP_ENTRIES]]))
    yield Result(response=DeleteAclsResponse(filter_results=tuple(results)))


def _find(
    candidates: Candidates,
    wanted: Filter,
    entries: dict[AclKey, DeleteAclsResponseDeleteAclsMatchingAcl],
    matches_max: int,
) -> FilterResult:
    """Return the result of one filter, and note the rules that it matches."""
    if not is_known(wanted):
        return FilterResult(ErrorCode.INVALID_REQUEST, "Unknown number in the filter.")
    found = candidates.find(wanted)
    if len(found) > matches_max:
        return _TOO_MANY
    for acl in found:
        if acl not in entries:
            entries[acl] = DeleteAclsResponseDeleteAclsMatchingAcl(
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                pattern_type=acl.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission_type,
            )
    return FilterResult(matching_acls=tuple([entries[acl] for acl in found]))


_TOO_MANY: Final = FilterResult(
    ErrorCode.POLICY_VIOLATION, f"The filters of the request match more than {MATCHES_MAX} rules together."
)
