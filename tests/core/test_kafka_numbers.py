"""Numbers that stand in records and messages are Kafka's. Within one server other ones would do as well: nobody else
notices until a log of Kafka's is read, or one of another version."""

from enum import IntEnum
from importlib import import_module
from pkgutil import walk_packages

import pytest

import coordinator.core

OF_KAFKA = {  # by the module and name of an enumeration: the class in Kafka's sources, and its numbers
    "kinds.consumer.states.MemberState": (  # org.apache.kafka.coordinator.group.modern.MemberState
        {"STABLE": 0, "UNREVOKED_PARTITIONS": 1, "UNRELEASED_PARTITIONS": 2, "UNKNOWN": 127}
    ),
    "kinds.streams.states.MemberState": (  # org.apache.kafka.coordinator.group.streams.MemberState
        {"STABLE": 1, "UNREVOKED_TASKS": 2, "UNRELEASED_TASKS": 3, "UNKNOWN": 127}
    ),
    "share_state.values.DeliveryState": (  # org.apache.kafka.server.share.fetch.RecordState
        {"AVAILABLE": 0, "ACQUIRED": 1, "ACKNOWLEDGED": 2, "ARCHIVING": 3, "ARCHIVED": 4}
    ),
    "share_partitions.values.AcknowledgeType": (  # org.apache.kafka.clients.consumer.AcknowledgeType
        {"GAP": 0, "ACCEPT": 1, "RELEASE": 2, "REJECT": 3, "RENEW": 4}
    ),
    "transactions.states.State": (  # org.apache.kafka.coordinator.transaction.TransactionState
        {"EMPTY": 0, "ONGOING": 1, "PREPARE_COMMIT": 2, "PREPARE_ABORT": 3, "COMPLETE_COMMIT": 4, "COMPLETE_ABORT": 5}
    ),
    "acls.names.Resource": (  # org.apache.kafka.common.resource.ResourceType
        {"ANY": 1, "TOPIC": 2, "GROUP": 3, "CLUSTER": 4, "TRANSACTIONAL_ID": 5, "DELEGATION_TOKEN": 6, "USER": 7}
    ),
    "acls.names.Operation": (  # org.apache.kafka.common.acl.AclOperation
        {"ANY": 1, "ALL": 2, "READ": 3, "WRITE": 4, "CREATE": 5, "DELETE": 6, "ALTER": 7, "DESCRIBE": 8,
         "CLUSTER_ACTION": 9, "DESCRIBE_CONFIGS": 10, "ALTER_CONFIGS": 11, "IDEMPOTENT_WRITE": 12,
         "CREATE_TOKENS": 13, "DESCRIBE_TOKENS": 14, "TWO_PHASE_COMMIT": 15}
    ),
    "acls.names.Pattern": (  # org.apache.kafka.common.resource.PatternType
        {"ANY": 1, "MATCH": 2, "LITERAL": 3, "PREFIXED": 4}
    ),
    "acls.names.Permission": (  # org.apache.kafka.common.acl.AclPermissionType
        {"ANY": 1, "DENY": 2, "ALLOW": 3}
    ),
}  # fmt: skip


def find_enumerations() -> dict[str, type[IntEnum]]:
    """Every enumeration of numbers in the core, by its module and name."""
    prefix, found = f"{coordinator.core.__name__}.", {}
    for module in walk_packages(coordinator.core.__path__, prefix):
        for value in vars(import_module(module.name)).values():
            if isinstance(value, type) and issubclass(value, IntEnum) and value.__module__ == module.name:
                found[f"{module.name.removeprefix(prefix)}.{value.__name__}"] = value
    return found


def test_every_enumeration_is_known() -> None:
    assert find_enumerations().keys() == OF_KAFKA.keys()


@pytest.mark.parametrize("name", OF_KAFKA)
def test_the_numbers_are_those_of_kafka(name: str) -> None:
    found = {own: int(one) for own, one in find_enumerations()[name].__members__.items()}  # also two of one number
    assert found.items() <= OF_KAFKA[name].items()
