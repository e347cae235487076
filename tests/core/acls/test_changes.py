"""CreateAcls and DeleteAcls: what filters match, told as by a walk over all rules, in steps, and within a bound."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.acls import create_acls as create_acls_module
from coordinator.core.acls import delete_acls as delete_acls_module
from coordinator.core.acls.create_acls import create_acls
from coordinator.core.acls.delete_acls import delete_acls
from coordinator.core.acls.filters import Candidates, matches
from coordinator.core.acls.names import Operation, Pattern, Permission, Resource
from coordinator.core.catalog.catalog import Catalog
from coordinator.core.catalog.records import AclKey, AclValue, CatalogRecord
from coordinator.core.prices import Kind
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


@given(st.lists(st.sampled_from(ACLS), unique=True), st.lists(FILTERS, max_size=6), st.integers(0, 12), st.data())
def test_a_response_names_so_many_rules(
    acls: list[AclKey], filters: list[DeleteAclsRequestDeleteAclsFilter], most: int, data: st.DataObject
) -> None:
    """A filter that would name more is refused for itself, and deletes nothing. One may be there again."""
    filters += data.draw(st.lists(st.sampled_from(filters), max_size=3)) if filters else []
    catalog, named, gone = catalog_of(acls), 0, set[AclKey]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delete_acls_module, "MATCHES_MAX", most)
        response, _, _ = decide(catalog, delete_acls(catalog, DeleteAclsRequest(tuple(filters)), CALL))
    refused = set[DeleteAclsRequestDeleteAclsFilter]()
    for wanted, result in zip(filters, response.filter_results, strict=True):
        found = {acl for acl in acls if matches(wanted, acl)}
        if result.error_code:
            assert result.error_code == ErrorCode.POLICY_VIOLATION and not result.matching_acls
            assert wanted in refused or named + len(found) > most
            refused.add(wanted)
            continue
        named += len(result.matching_acls)
        assert len(result.matching_acls) == len(found) and named <= most
        gone |= found
    assert set(catalog.acls) == set(acls) - gone


def test_a_filter_that_is_there_again_names_its_rules_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delete_acls_module, "MATCHES_MAX", 5)
    catalog, user = catalog_of(ACLS[:6]), ANYTHING.__class__(1, None, 1, "User:a", None, 1, 1)
    response, _, _ = decide(catalog, delete_acls(catalog, DeleteAclsRequest((user, user, user, ANYTHING)), CALL))
    assert [len(result.matching_acls) for result in response.filter_results] == [2, 2, 0, 0]
    assert len(catalog.acls) == 4


def test_a_rule_that_goes_while_the_response_is_made_is_told_and_not_deleted_again() -> None:
    catalog, count = catalog_of(ACLS), 2 * STEP_ENTRIES
    filters = [ANYTHING.__class__(1, f"n{number}", 3, None, None, 1, 1) for number in range(count)]
    records: list[CatalogRecord] = []
    for number, result in enumerate(delete_acls(catalog, DeleteAclsRequest((ANYTHING, *filters)), CALL)):
        if number == 0:
            catalog.replay(CatalogRecord(ACLS[0], None))
        records += result.records
    assert len(result.response.filter_results[0].matching_acls) == len(ACLS)
    assert [record.key for record in records] == ACLS[1:]


@pytest.mark.parametrize("most", [0, 2, 3])
@pytest.mark.parametrize("is_by_bytes", [False, True])
@pytest.mark.parametrize("step_entries", [1, 2, 9])
def test_a_rule_that_is_asked_for_twice_needs_one_place(
    most: int, is_by_bytes: bool, step_entries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the number of rules is bounded or their memory, and however many of them are written at once."""
    monkeypatch.setattr(create_acls_module, "STEP_ENTRIES", step_entries)
    wanted = [CreateAclsRequestAclCreation(2, name, 3, "User:a", "*", 3, 3) for name in ("a", "b", "b", "c", "a")]
    catalog = Catalog()
    if is_by_bytes:
        size = catalog_of(ACLS[:1]).held.bytes[Kind.ACLS]
        catalog.held.bounds = {Kind.ACLS: most * size + size // 2}
    else:
        monkeypatch.setattr(create_acls_module, "ACLS_MAX", most)
    response, _, _ = decide(catalog, create_acls(catalog, CreateAclsRequest(tuple(wanted)), CALL))
    held = ["a", "b", "c"][:most]
    for asked, one in zip(wanted, response.results, strict=True):
        full = ErrorCode.NONE if asked.resource_name in held else ErrorCode.POLICY_VIOLATION
        assert one.error_code == full and one.error_message.startswith("There is " if full else "")
    assert [acl.resource_name for acl in catalog.acls] == held
