"""Give rights to the users of a story, and see what a request is answered with each of them.

The stage itself is anonymous and a super user: it creates ACLs, waits until the broker shows them, and deletes them.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from tests.conformance.stage import Stage

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID = "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID"
TYPES: Final = {TOPIC: 2, GROUP: 3, CLUSTER: 4, TRANSACTIONAL_ID: 5}
OPERATIONS: Final = {
    "ALL": 2, "READ": 3, "WRITE": 4, "CREATE": 5, "DELETE": 6, "ALTER": 7, "DESCRIBE": 8, "CLUSTER_ACTION": 9,
    "DESCRIBE_CONFIGS": 10, "ALTER_CONFIGS": 11, "IDEMPOTENT_WRITE": 12, "TWO_PHASE_COMMIT": 15,
}  # fmt: skip
OF_TYPE: Final = {
    TOPIC: ("READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"),
    GROUP: ("READ", "DELETE", "DESCRIBE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS"),
    CLUSTER: (
        "CREATE",
        "ALTER",
        "DELETE",
        "DESCRIBE",
        "CLUSTER_ACTION",
        "DESCRIBE_CONFIGS",
        "ALTER_CONFIGS",
        "IDEMPOTENT_WRITE",
    ),
    TRANSACTIONAL_ID: ("WRITE", "DESCRIBE", "TWO_PHASE_COMMIT"),
}
PATTERNS: Final = {"LITERAL": 3, "PREFIXED": 4}
DENY, ALLOW = 2, 3
SINGLE: Final = "kafka-cluster"  # the name of the one cluster
ANY: Final = 1

# What is told apart from a right by nothing: texts, ids that are drawn, and what is large.
DROPPED: Final = {
    "throttle_time_ms", "error_message", "member_id", "log_dir", "total_bytes", "usable_bytes", "brokers", "cluster_id",
    "controller_id", "current_voters", "observers", "nodes", "high_watermark", "leader_epoch", "leader_id", "timestamp",
    "partition_size", "log_end_offset",
}  # fmt: skip
DRAWN: Final = re.compile(r"<id-\d+>")
COUNTED: Final = {"configs"}  # only whether there are any


class Right(NamedTuple):
    """One ACL for a user of a story."""

    type: str
    name: str
    operation: str
    pattern: str = "LITERAL"
    allows: bool = True
    host: str = "*"

    def binding(self, k: Stage, user: str) -> dict[str, Any]:
        """The ACL as CreateAcls has it. A name is one of the story, `*`, or the cluster's."""
        name = self.name if self.name in ("*", SINGLE) else k.name(self.name)
        return {
            "resource_type": TYPES[self.type],
            "resource_name": name,
            "resource_pattern_type": PATTERNS[self.pattern],
            "principal": f"User:{user if user == '*' else k.name(user)}",
            "host": self.host,
            "operation": OPERATIONS[self.operation],
            "permission_type": ALLOW if self.allows else DENY,
        }


def as_filter(binding: dict[str, Any]) -> dict[str, Any]:
    """The filter that matches one ACL."""
    return {
        "resource_type_filter": binding["resource_type"],
        "resource_name_filter": binding["resource_name"],
        "pattern_type_filter": binding["resource_pattern_type"],
        "principal_filter": binding["principal"],
        "host_filter": binding["host"],
        "operation": binding["operation"],
        "permission_type": binding["permission_type"],
    }


def give(k: Stage, *rights: Right, user: str = "alice") -> None:
    """Create ACLs and wait until the broker knows them. Stage setting."""
    bindings = [one.binding(k, user) for one in rights]
    answer = k.line("stage").quietly("create_acls", 3, creations=bindings)
    assert all(one.error_code == "NONE" for one in answer.results), answer
    for binding in bindings:
        _await(k, binding, is_there=True)


def take(k: Stage, *rights: Right, user: str = "alice") -> None:
    """Delete ACLs and wait until the broker has forgotten them. Stage setting."""
    bindings = [one.binding(k, user) for one in rights]
    k.line("stage").quietly("delete_acls", 3, filters=[as_filter(one) for one in bindings])
    for binding in bindings:
        _await(k, binding, is_there=False)


def _await(k: Stage, binding: dict[str, Any], *, is_there: bool) -> None:
    k.line("stage").until(
        f"the ACL {binding}",
        "describe_acls",
        3,
        lambda answer: bool(answer.resources) == is_there,
        **as_filter(binding),
    )


class Check(NamedTuple):
    """A resource that a request is about, and the operation on it that the request needs."""

    type: str
    name: str
    needed: str


def variants(check: Check) -> Iterator[tuple[str, tuple[Right, ...]]]:
    """The rights on one resource that may make a difference, each with a name."""
    kind, name, needed = check
    yield "nothing", ()
    for operation in OF_TYPE[kind]:
        yield operation, (Right(kind, name, operation),)
    yield "ALL", (Right(kind, name, "ALL"),)
    yield "ALL, and it is denied", (Right(kind, name, "ALL"), Right(kind, name, needed, allows=False))
    yield "it, and ALL is denied", (Right(kind, name, needed), Right(kind, name, "ALL", allows=False))
    yield "it from this host", (Right(kind, name, needed, host="127.0.0.1"),)
    yield "it from another host", (Right(kind, name, needed, host="127.0.0.9"),)
    if kind == CLUSTER:
        return
    yield "it on every name", (Right(kind, "*", needed),)
    yield "it by a prefix", (Right(kind, "", needed, "PREFIXED"),)
    yield "it by another prefix", (Right(kind, name + "x", needed, "PREFIXED"),)
    yield "it, and the prefix is denied", (Right(kind, name, needed), Right(kind, "", needed, "PREFIXED", allows=False))
    yield "it, and every name is denied", (Right(kind, name, needed), Right(kind, "*", needed, allows=False))


def shape(value: Any) -> Any:
    """What of an answer a right can change."""
    if isinstance(value, dict):
        return {
            name: bool(item) if name in COUNTED else shape(item) for name, item in value.items() if name not in DROPPED
        }
    return [shape(item) for item in value] if isinstance(value, list) else value


def matrix(
    k: Stage, api: str, version: int, checks: Iterable[Check], values: Callable[[Stage], dict[str, Any]]
) -> None:
    """Ask as a user with each right on one resource after the other; those before it are given as they are needed.

    An event of the transcript is one answer, with all rights that lead to it.
    """
    line, given = k.user(), []
    for check in checks:
        answers: dict[str, list[str]] = {}
        for label, rights in variants(check):
            give(k, *given, *rights)
            found = shape(line.quietly(api, version, **values(k)))
            take(k, *given, *rights)
            answer = DRAWN.sub("<id>", json.dumps(k.normal.values(found, api)))
            answers.setdefault(answer, []).append(label)
        for answer, labels in answers.items():
            k.events.append({"rights on": f"{check.type} {check.name}", "with": labels, "is": json.loads(answer)})
        given.append(Right(check.type, check.name, check.needed))
