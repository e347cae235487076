"""CreateAcls, DescribeAcls and DeleteAcls themselves: what is taken, what is found, and what is refused."""

from typing import Any, Final

from tests.conformance.rights import GROUP, TOPIC, Right, as_filter, give
from tests.conformance.stage import Answer, Stage
from tests.conformance.story import story

EVERYTHING: Final = {
    "resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1, "principal_filter": None,
    "host_filter": None, "operation": 1, "permission_type": 1,
}  # fmt: skip


def rule(k: Stage, **changes: Any) -> dict[str, Any]:
    """An ACL for a user of the story, with changes."""
    kind = {"resource_type": 2, "resource_name": k.name("t"), "resource_pattern_type": 3}
    who = {"principal": f"User:{k.name('nobody')}", "host": "*", "operation": 3, "permission_type": 3}
    return {**kind, **who, **changes}


def shown(k: Stage, answer: Answer) -> None:
    """Write down the ACLs of this story, sorted: Kafka has no order."""
    found = sorted(
        [one.resource_type, k.normal.values(one.resource_name), one.pattern_type, k.normal.values(acl.principal), acl.host,
         acl.operation, acl.permission_type]
        for one in answer.resources
        for acl in one.acls
        if k.prefix in acl.principal
    )  # fmt: skip
    k.events.append({"error": answer.error_code, "acls": found})


@story("V-007", server="acls")
def acls_that_make_no_sense(k: Stage) -> None:
    """Types, patterns, operations and permissions that only a filter may have; names and principals that none may."""
    for version in (1, 3):
        for changes in (
            {"resource_type": 0},
            {"resource_type": 1},
            {"resource_type": 4, "resource_name": "another"},
            {"resource_type": 99},
            {"resource_name": ""},
            {"resource_pattern_type": 0},
            {"resource_pattern_type": 1},
            {"resource_pattern_type": 2},
            {"resource_pattern_type": 9},
            {"operation": 0},
            {"operation": 1},
            {"operation": 99},
            {"permission_type": 0},
            {"permission_type": 1},
            {"permission_type": 9},
            {"principal": ""},
            {"principal": "nobody"},
            {"principal": "User:"},
            {"principal": ":x"},
            {"principal": "Group:x"},
            {"host": ""},
            {"host": "no host at all"},
            {"operation": 12},
            {"resource_type": 7, "resource_name": "User:x", "operation": 13},
            {"resource_name": "a name?"},
        ):
            k.line("stage").send("create_acls", version, creations=[rule(k, **changes)]).closed(5_000)
    k.line("stage").call("create_acls", 3, creations=[rule(k), rule(k, resource_name=""), rule(k)])
    k.line("stage").call("create_acls", 3, creations=[])


@story("V-007", server="acls")
def filters_of_acls_that_make_no_sense(k: Stage) -> None:
    """Unknown numbers in a filter."""
    for version in (1, 3):
        for changes in (
            {"resource_type_filter": 0},
            {"resource_type_filter": 99},
            {"pattern_type_filter": 0},
            {"pattern_type_filter": 9},
            {"operation": 0},
            {"operation": 99},
            {"permission_type": 0},
            {"permission_type": 9},
            {"principal_filter": "nobody"},
            {"principal_filter": ""},
            {"host_filter": ""},
            {"resource_name_filter": ""},
        ):
            mine = {**EVERYTHING, "resource_name_filter": k.name("t"), **changes}
            k.line("stage").send("describe_acls", version, **mine).closed(5_000)
            k.line("stage").send("delete_acls", version, filters=[mine]).closed(5_000)
    k.line("stage").call("delete_acls", 3, filters=[])


@story("V-007", server="acls")
def acls_are_found_by_filters(k: Stage) -> None:
    """By each field, by a pattern, and by what matches a name."""
    create = [
        rule(k),
        rule(k, resource_pattern_type=4),
        rule(k, resource_pattern_type=4, resource_name=k.prefix),
        rule(k, resource_name="*"),
        rule(k, resource_name=k.name("other")),
        rule(k, resource_type=3),
        rule(k, operation=2),
        rule(k, permission_type=2),
        rule(k, host="127.0.0.9"),
        rule(k, principal=f"User:{k.name('somebody')}"),
    ]
    k.line("stage").quietly("create_acls", 3, creations=create)
    give(k, Right(TOPIC, "last", "READ"))  # the last that the broker hears of
    for changes in (
        {},
        {"resource_type_filter": 3},
        {"resource_type_filter": 2},
        {"resource_name_filter": k.name("t")},
        {"resource_name_filter": k.name("t"), "pattern_type_filter": 2},
        {"resource_name_filter": k.name("t"), "pattern_type_filter": 3},
        {"resource_name_filter": k.name("t"), "pattern_type_filter": 4},
        {"resource_name_filter": "*"},
        {"resource_name_filter": "*", "pattern_type_filter": 2},
        {"resource_name_filter": "*", "pattern_type_filter": 3},
        {"resource_name_filter": None, "pattern_type_filter": 2},
        {"resource_name_filter": None, "pattern_type_filter": 4},
        {"resource_name_filter": k.name("to")},
        {"resource_name_filter": k.name("to"), "pattern_type_filter": 2},
        {"operation": 2},
        {"operation": 3},
        {"permission_type": 2},
        {"host_filter": "127.0.0.9"},
        {"host_filter": "*"},
        {"principal_filter": f"User:{k.name('somebody')}"},
        {"principal_filter": "User:*"},
    ):
        shown(k, k.line("stage").quietly("describe_acls", 3, **{**EVERYTHING, **changes}))
    shown(k, k.line("stage").quietly("describe_acls", 1, **EVERYTHING))


def deleted(k: Stage, answer: Answer) -> None:
    """Write down what each filter has deleted."""
    found = [
        [one.error_code, sorted(
            [acl.error_code, acl.resource_type, k.normal.values(acl.resource_name), acl.pattern_type,
             k.normal.values(acl.principal), acl.host, acl.operation, acl.permission_type]
            for acl in one.matching_acls
        )]
        for one in answer.filter_results
    ]  # fmt: skip
    k.events.append({"deleted": found})


@story("V-007", server="acls")
def acls_are_deleted_by_filters(k: Stage) -> None:
    """What two filters match is deleted once and told to both, or to the first."""
    rules = [rule(k), rule(k, operation=4), rule(k, operation=5, resource_pattern_type=4), rule(k, resource_type=3)]
    k.line("stage").quietly("create_acls", 3, creations=rules)
    give(k, Right(TOPIC, "last", "READ"))
    line = k.line("stage")
    mine = {**EVERYTHING, "principal_filter": f"User:{k.name('nobody')}"}
    deleted(k, line.quietly("delete_acls", 3, filters=[{**mine, "resource_type_filter": 3}, {**mine, "operation": 8}]))
    deleted(k, line.quietly("delete_acls", 3, filters=[as_filter(rules[0]), {**mine, "operation": 3}, mine]))
    deleted(k, line.quietly("delete_acls", 2, filters=[mine]))
    deleted(k, line.quietly("delete_acls", 1, filters=[mine, {**mine, "operation": 99}]))


@story("V-007", server="acls")
def an_acl_that_is_there_already(k: Stage) -> None:
    """It is created again without an error, and is there once."""
    for _ in range(2):
        k.line("stage").call("create_acls", 3, creations=[rule(k), rule(k)])
    give(k, Right(GROUP, "last", "READ"))
    shown(k, k.line("stage").quietly("describe_acls", 3, **{**EVERYTHING, "resource_name_filter": k.name("t")}))


@story("V-007", server="acls")
def names_of_principals_are_taken_as_they_are(k: Stage) -> None:
    """The case of a name counts, and a colon belongs to it."""
    names = [f"User:{k.name('A:B')}", f"User:{k.name('a:b')}", f"user:{k.name('a')}", f"User:CN={k.name('x')},O=y"]
    k.line("stage").call("create_acls", 3, creations=[rule(k, principal=name) for name in names])
    give(k, Right(TOPIC, "last", "READ"))
    shown(k, k.line("stage").quietly("describe_acls", 3, **EVERYTHING))
    shown(k, k.line("stage").quietly("describe_acls", 3, **{**EVERYTHING, "principal_filter": names[0].lower()}))
