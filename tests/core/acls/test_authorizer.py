"""Decisions about rights: against a plain reading of the rules, and where memory and addresses come in."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.acls import authorizer as authorizers
from coordinator.core.acls.authorizer import Authorizer
from coordinator.core.acls.names import IMPLIED, Operation, Pattern, Permission, Resource
from coordinator.core.acls.rules import AclRules, Grants, PrefixTable
from coordinator.core.catalog.records import AclKey
from coordinator.core.principal import Principal

ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
HOST = "/127.0.0.1"
NAMES = ("a", "ab", "abc", "b", "*")
ACLS = st.builds(
    AclKey,
    resource_type=st.sampled_from((Resource.TOPIC, Resource.GROUP)),
    resource_name=st.sampled_from(NAMES),
    pattern_type=st.sampled_from((Pattern.LITERAL, Pattern.PREFIXED)),
    principal=st.sampled_from(("User:alice", "User:bob", "User:*")),
    host=st.sampled_from(("127.0.0.1", "10.0.0.1", "*")),
    operation=st.sampled_from((Operation.ALL, Operation.READ, Operation.DESCRIBE, Operation.ALTER_CONFIGS)),
    permission_type=st.sampled_from(Permission),
)


def rules_of(*acls: AclKey) -> AclRules:
    rules = AclRules()
    for acl in acls:
        rules.add(acl)
    return rules


def acl(name: str = "t", operation: Operation = Operation.READ, **changes: object) -> AclKey:
    values = {"pattern_type": Pattern.LITERAL, "principal": "User:alice", "host": "*", **changes}
    values.setdefault("permission_type", Permission.ALLOW)
    return AclKey(resource_type=Resource.TOPIC, resource_name=name, operation=operation, **values)


def plainly(
    acls: list[AclKey],
    operation: Operation,
    kind: Resource,
    name: str,
    default: bool,
    principal: Principal = ALICE,
    address: str = "127.0.0.1",
) -> bool:
    """Return what a principal may do from an address, by walking over all rules."""
    about = [
        one
        for one in acls
        if one.resource_type == kind
        and (
            name.startswith(one.resource_name)
            if one.pattern_type == Pattern.PREFIXED
            else one.resource_name in (name, "*")
        )
    ]
    if not about:
        return default
    hers = [one for one in about if one.principal in (str(principal), "User:*") and one.host in (address, "*")]
    denied = {Operation.ALL, operation}
    if any(one.permission_type == Permission.DENY and one.operation in denied for one in hers):
        return False
    allowing = denied | IMPLIED.get(operation, frozenset())
    return any(one.permission_type == Permission.ALLOW and one.operation in allowing for one in hers)


@given(
    st.lists(ACLS, max_size=6),
    st.sampled_from((Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.WRITE)),
    st.sampled_from(NAMES),
    st.booleans(),
)
def test_a_decision_is_that_of_a_walk_over_all_rules(
    acls: list[AclKey], operation: Operation, name: str, default: bool
) -> None:
    authorizer = Authorizer(rules_of(*acls), allows_without_acls=default)
    for kind in (Resource.TOPIC, Resource.GROUP):
        assert authorizer.may(ALICE, HOST, operation, kind, name) == plainly(acls, operation, kind, name, default)


@given(st.lists(ACLS, min_size=1, max_size=6), st.booleans())
def test_a_decision_does_not_depend_on_what_was_asked_before(acls: list[AclKey], default: bool) -> None:
    """One authorizer remembers its decisions: each is about one principal, host, operation, type and name."""
    authorizer = Authorizer(rules_of(*acls), allows_without_acls=default)
    operations = (Operation.READ, Operation.DESCRIBE, Operation.WRITE)
    kinds = (Resource.TOPIC, Resource.GROUP)
    for question in product((ALICE, BOB), ("127.0.0.1", "10.0.0.1"), operations, kinds, NAMES):
        principal, address, operation, kind, name = question
        expected = plainly(acls, operation, kind, name, default, principal, address)
        assert authorizer.may(principal, "/" + address, operation, kind, name) == expected, question


@given(st.lists(ACLS, max_size=8), st.data())
def test_what_is_removed_leaves_no_trace(acls: list[AclKey], data: st.DataObject) -> None:
    """Rules that came and went decide as if they had never been there."""
    kept = [one for one in acls if data.draw(st.booleans())]
    rules = rules_of(*acls)
    default = data.draw(st.booleans())
    authorizer = Authorizer(rules, allows_without_acls=default)
    for name in NAMES:  # remembered while all of them are there
        authorizer.may(ALICE, HOST, Operation.READ, Resource.TOPIC, name)
    for one in acls:
        if one not in kept:
            rules.remove(one)
            rules.remove(one)
    assert set(rules) == set(kept) and len(rules) == len(set(kept))
    for name in NAMES:
        wanted = plainly(kept, Operation.READ, Resource.TOPIC, name, default)
        assert authorizer.may(ALICE, HOST, Operation.READ, Resource.TOPIC, name) == wanted


def test_of_two_rules_the_one_that_stays_decides_alone() -> None:
    """Whatever the other one was about, also where there are rights without rules."""
    parts = (
        ("a", "ab", "*"), (Pattern.LITERAL, Pattern.PREFIXED), ("User:alice", "User:bob"),
        (Operation.ALL, Operation.READ), tuple(Permission),
    )  # fmt: skip
    every = [
        acl(name, operation, pattern_type=pattern, principal=principal, permission_type=permission)
        for name, pattern, principal, operation, permission in product(*parts)
    ]
    for one, other in product(every, repeat=2):
        rules = rules_of(one, other)
        rules.remove(other)
        kept = [one] if one != other else []
        for name in ("a", "ab", "b"):
            for default in (False, True):
                wanted = plainly(kept, Operation.READ, Resource.TOPIC, name, default)
                authorizer = Authorizer(rules, allows_without_acls=default)
                rules.decisions.clear()
                assert authorizer.may(ALICE, HOST, Operation.READ, Resource.TOPIC, name) == wanted, (one, other, name)


PREFIXES = st.lists(st.text("ab", max_size=6), max_size=12)


@given(PREFIXES, st.lists(st.tuples(st.integers(0, 11), st.integers(0, 2)), max_size=12), st.text("abc", max_size=8))
def test_prefixes_are_found_as_by_a_walk_over_all(
    prefixes: list[str], changes: list[tuple[int, int]], name: str
) -> None:
    """Also after each change of what holds for one of them, to nothing or to something else."""
    table, plain = PrefixTable(), dict[str, int]()
    first = [(prefix, 1 << number) for number, prefix in enumerate(prefixes)]
    later = [(prefixes[at], 0 if bit == 0 else bit << 12 + at) for at, bit in changes if at < len(prefixes)]
    for prefix, grant in first + later:
        plain[prefix] = grant
        table.set(prefix, grant)
        expected = 0
        for each, holds in plain.items():
            expected |= holds if name.startswith(each) else 0
        assert table.find(name) == expected


@given(st.lists(ACLS, max_size=8), st.data())
def test_each_rule_that_comes_or_goes_takes_effect_at_once(acls: list[AclKey], data: st.DataObject) -> None:
    rules, there = AclRules(), list[AclKey]()
    authorizer = Authorizer(rules, allows_without_acls=False)
    for one in acls + data.draw(st.permutations(acls)):
        (rules.remove if one in there else rules.add)(one)
        there = [other for other in there if other != one] + [one] * (one not in there)
        for name in NAMES:
            wanted = plainly(there, Operation.READ, Resource.TOPIC, name, False)
            assert authorizer.may(ALICE, HOST, Operation.READ, Resource.TOPIC, name) == wanted, (there, name)


def any_plainly(acls: list[AclKey], operation: Operation, principal: Principal, address: str) -> bool:
    """Return whether a principal may do something with any topic, by walking over all rules."""
    mine = [
        one
        for one in acls
        if one.resource_type == Resource.TOPIC
        and one.principal in (str(principal), "User:*")
        and one.host in (address, "*")
        and one.operation in (operation, Operation.ALL)
    ]
    denied = {(one.pattern_type, one.resource_name) for one in mine if one.permission_type == Permission.DENY}
    if (Pattern.LITERAL, "*") in denied:
        return False
    prefixes = tuple(name for pattern, name in denied if pattern == Pattern.PREFIXED)
    for one in mine:
        if one.permission_type == Permission.ALLOW:
            is_all = (one.pattern_type, one.resource_name) == (Pattern.LITERAL, "*")
            if is_all or not (
                one.resource_name.startswith(prefixes) or (one.pattern_type, one.resource_name) in denied
            ):
                return True
    return False


@given(st.lists(ACLS, max_size=8), st.sampled_from((Operation.READ, Operation.WRITE, Operation.DESCRIBE)))
def test_a_decision_about_any_resource_is_that_of_a_walk_over_all_rules(
    acls: list[AclKey], operation: Operation
) -> None:
    rules = AclRules()
    authorizer = Authorizer(rules)
    for count in range(len(acls) + 1):  # remembered until a rule changes
        for principal, address in product((ALICE, BOB), ("127.0.0.1", "10.0.0.1")):
            expected = any_plainly(acls[:count], operation, principal, address)
            assert authorizer.may_any(principal, "/" + address, operation, Resource.TOPIC) == expected
        if count < len(acls):
            rules.add(acls[count])


@pytest.mark.parametrize("pattern", [Pattern.LITERAL, Pattern.PREFIXED])
@pytest.mark.parametrize("name", ["*", "t", "other"])
def test_rules_of_others_cost_a_decision_nothing(name: str, pattern: Pattern, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many principals have rules about all names, only the four subjects that a client is are looked at."""
    rules = rules_of(*[acl(name, principal=f"User:{n}", pattern_type=pattern) for n in range(2_000)], acl("t"))
    authorizer, looked_at = Authorizer(rules, allows_without_acls=True), []
    find = Grants.find
    monkeypatch.setattr(Grants, "find", lambda grants, name: looked_at.append(name) or find(grants, name))
    assert authorizer.may(ALICE, HOST, Operation.READ, Resource.TOPIC, "t")
    assert not authorizer.may(BOB, HOST, Operation.READ, Resource.TOPIC, "t")
    assert len(looked_at) == 1
    assert authorizer.may(BOB, HOST, Operation.READ, Resource.TOPIC, "strange") == (
        name != "*" or pattern != Pattern.LITERAL
    )


def test_a_super_user_may_do_what_is_denied() -> None:
    rules = rules_of(acl(permission_type=Permission.DENY))
    authorizer = Authorizer(rules, ["User:alice"])
    assert authorizer.may(ALICE, HOST, Operation.READ, Resource.TOPIC, "t")
    assert authorizer.may_any(ALICE, HOST, Operation.WRITE, Resource.TOPIC)
    assert not authorizer.may(BOB, HOST, Operation.READ, Resource.TOPIC, "t")


def test_operations_are_told_as_bits() -> None:
    authorizer = Authorizer(rules_of(acl()))
    assert authorizer.operations(ALICE, HOST, Resource.TOPIC, "t") == 1 << Operation.READ | 1 << Operation.DESCRIBE


def test_decisions_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authorizers, "DECISIONS_MAX", 100)
    authorizer = Authorizer(rules_of(acl("t")))
    for number in range(1000):
        assert not authorizer.may(ALICE, HOST, Operation.READ, Resource.TOPIC, f"t{number}")
        authorizer.may(ALICE, HOST, Operation.READ, Resource.TOPIC, f"{number}" + "x" * authorizers.NAME_MAX)
        authorizer.may_any(Principal("User", f"u{number}"), HOST, Operation.READ, Resource.TOPIC)
    assert 0 < len(authorizer.decisions) <= 100
    assert 0 < len(authorizer._rules.decisions_of_any) <= 100
    longest = "y" * authorizers.NAME_MAX
    authorizer.may(ALICE, HOST, Operation.READ, Resource.TOPIC, longest)
    assert any(name == longest for _, name, _, _ in authorizer.decisions)
    assert all(len(name) <= authorizers.NAME_MAX for _, name, _, _ in authorizer.decisions)
    assert authorizer.may(ALICE, HOST, Operation.READ, Resource.TOPIC, "t")
