"""Kafka's numbers for resources, operations, patterns and permissions."""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

ANY: Final = 1  # of any enumeration: in filters alone
WILDCARD: Final = "*"  # as a literal name: all names; as a host: all hosts; `User:*`: all users
WILDCARD_PRINCIPAL: Final = "User:*"
CLUSTER_NAME: Final = "kafka-cluster"


class Resource(IntEnum):
    """A type of resource. Kafka: `ResourceType`."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Operation(IntEnum):
    """What may be done with a resource. Kafka: `AclOperation`."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Pattern(IntEnum):
    """How an ACL names resources. Kafka: `PatternType`. MATCH is for filters: all that concern a name."""

    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """Whether an ACL allows or denies. Kafka: `AclPermissionType`."""

    DENY = 2
    ALLOW = 3


_O: Final = Operation

SUPPORTED: Final[Mapping[Resource, tuple[Operation, ...]]] = {  # Kafka: `AclEntry.supportedOperations`
    Resource.TOPIC: (
        _O.READ, _O.WRITE, _O.CREATE, _O.DESCRIBE, _O.DELETE, _O.ALTER, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS,
    ),
    Resource.GROUP: (_O.READ, _O.DESCRIBE, _O.DELETE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
    Resource.CLUSTER: (
        _O.CREATE, _O.CLUSTER_ACTION, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS, _O.IDEMPOTENT_WRITE, _O.ALTER, _O.DESCRIBE,
    ),
}  # fmt: skip

IMPLIED: Final[Mapping[Operation, frozenset[Operation]]] = {
    _O.DESCRIBE: frozenset({_O.DESCRIBE, _O.READ, _O.WRITE, _O.DELETE, _O.ALTER}),
    _O.DESCRIBE_CONFIGS: frozenset({_O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS}),
}
"""Which operations, where they are allowed, allow this one as well."""


def code_of(operation: Operation, kind: Resource) -> int:
    """Return one number for an operation on a type of resource: enumerations are slow to look up."""
    return int(operation) << 8 | int(kind)


def bit_field(operations: tuple[Operation, ...]) -> int:
    """Return operations as responses tell authorized ones: a bit for each number."""
    return sum(1 << operation for operation in operations)


ALL_OPERATIONS: Final[Mapping[Resource, int]] = {kind: bit_field(known) for kind, known in SUPPORTED.items()}
NOT_ASKED: Final = -(2**31)  # in place of a bit field that nobody has asked for
