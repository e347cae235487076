"""CreateAcls and DeleteAcls: what filters match, told as by a walk over all rules, in steps, and within a bound."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.acls import delete_acls as delete_acls_module
from coordinator.core.acls.create_acls import create_acls
from coordinator.core.acls.delete_acls import delete_acls
from coordinator.core.acls.filters import Candidates, matches
from coordinator.core.acls.names import Operation, Pattern, Permission, Resource
from coordinator.core.catalog.catalog import Catalog
from coordinator.core.catalog.records import AclKey, AclValue, CatalogRecord
from coordinator.core.result import STEP_ENTRIES, Call, Decisions
from protocol.errors import ErrorCode
from protocol.messages.create_acls import CreateAclsRequest, CreateAclsRequestAclCreation
from protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsRequestDeleteAclsFilter, DeleteAclsResponse

CALL = Call(0, 0, 3, "c", "/127.0.0.1", lambda: "id")
NAMES, USERS, HOSTS = ("a", "ab", "b", "*"), ("User:a", "User:b", "User:*"), ("h", "*")
ACLS = [
    AclKey(Resource.TOPIC, name, pattern, user, host, Operation.READ, Permission.ALLOW)
    for name, pattern, user, host in product(NAMES, (Pattern.LITERAL, Pattern.PREFIXED), USERS, HOSTS)
]
FILTERS = st.builds(
    DeleteAclsRequestDeleteAclsFilter,
    resource_type_filter=st.sampled_from((1, Resource.TOPIC, Resource.GROUP)),
    resource_name_filter=st.none() | st.sampled_from((*NAMES, "abc")),
    pattern_type_filter=st.sampled_from((1, *Pattern)),
    principal_filter=st.none() | st.sampled_from((*USERS, "User:c")),
    host_filter=st.none() | st.sampled_from((*HOSTS, "i")),
    operation=st.sampled_from((1, Operation.READ, Operation.WRITE)),
    permission_type=st.sampled_from((1, *Permission)),
)
ANYTHING = DeleteAclsRequestDeleteAclsFilter(1, None, 1, None, None, 1, 1)


def catalog_of(acls: list[AclKey]) -> Catalog:
    catalog = Catalog()
    for acl in acls:
        catalog.replay(CatalogRecord(acl, AclValue(0)))
    return catalog


def decide(catalog: Catalog, decisions: Decisions) -> tuple[DeleteAclsResponse, int, int]:
    """Return the response, how many steps there were, and how many records the largest had."""
    steps = most = 0
    for result in decisions:
        for record in result.records:
            catalog.replay(record)
        steps, most = steps + 1, max(most, len(result.records))
    return result.response, steps, most


@given(st.lists(st.sampled_from(ACLS), unique=True), FILTERS)
def test_candidates_leave_nothing_out(acls: list[AclKey], wanted: DeleteAclsRequestDeleteAclsFilter) -> None:
    assert Candidates(acls).find(wanted) == [acl for acl in acls if matches(wanted, acl)]


@given(st.lists(st.sampled_from(ACLS), unique=True), st.lists(FILTERS, max_size=4))
def test_a_rule_that_several_filters_match_is_told_to_each(
    acls: list[AclKey], filters: list[DeleteAclsRequestDeleteAclsFilter]
) -> None:
    catalog = catalog_of(acls)
    response, _, _ = decide(catalog, delete_acls(catalog, DeleteAclsRequest(tuple(filters)), CALL))
    told = [len(one.matching_acls) for one in response.filter_results]
    assert told == [sum(matches(wanted, acl) for acl in acls) for wanted in filters]
    assert set(catalog.acls) == {acl for acl in acls if not any(matches(wanted, acl) for wanted in filters)}


def test_many_rules_come_and_go_in_steps() -> None:
    count = 5 * STEP_ENTRIES
    catalog = Catalog()
    wanted = tuple([CreateAclsRequestAclCreation(2, f"t{n}", 3, "User:a", "*", 3, 3) for n in range(count)])
    _, steps, most = decide(catalog, create_acls(catalog, CreateAclsRequest(wanted), CALL))
    assert len(catalog.acls) == count and steps >= 5 and most <= STEP_ENTRIES
    filters = [ANYTHING.__class__(1, None, 1, None, None, number % 16, 1) for number in range(1, 17)]
    response, steps, most = decide(catalog, delete_acls(catalog, DeleteAclsRequest((*filters, ANYTHING)), CALL))
    assert len(response.filter_results[-1].matching_acls) == count
    assert not len(catalog.acls) and steps >= 5 + 4 and most <= STEP_ENTRIES


def test_a_response_names_so_many_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """The filter that would name more is refused for itself, and deletes nothing."""
    monkeypatch.setattr(delete_acls_module, "MATCHES_MAX", 5)
    catalog = catalog_of(ACLS)
    filters = [ANYTHING.__class__(1, None, 1, user, "h", 1, 1) for user in ("User:a", "User:none")]
    one = ANYTHING.__class__(2, "a", 3, "User:a", "h", 1, 1)
    response, _, _ = decide(catalog, delete_acls(catalog, DeleteAclsRequest((*filters, one, ANYTHING)), CALL))
    assert [(result.error_code, len(result.matching_acls)) for result in response.filter_results] == [
        (ErrorCode.POLICY_VIOLATION, 0),
        (ErrorCode.NONE, 0),
        (ErrorCode.NONE, 1),
        (ErrorCode.POLICY_VIOLATION, 0),
    ]
    assert len(catalog.acls) == len(ACLS) - 1
