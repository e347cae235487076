"""A server with an authorizer, its users, and what they may do."""

from typing import Any

from coordinator.core.acls.names import Operation, Pattern, Permission, Resource
from coordinator.core.principal import Principal
from protocol.messages.create_acls import CreateAclsRequestAclCreation
from storage.memory_files import MemoryFiles
from tests.server.in_memory import InMemory, Peer

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def server(files: MemoryFiles | None = None, **values: Any) -> InMemory:
    """A server on which only User:admin may do anything."""
    return InMemory(files, authorizer_class_name=AUTHORIZER, super_users="User:admin", **values)


def user(one: InMemory, name: str = "alice") -> Peer:
    peer = one.connect()
    peer.connection.principal = Principal("User", name)
    return peer


def rule(**changes: Any) -> CreateAclsRequestAclCreation:
    values = {
        "resource_type": Resource.GROUP,
        "resource_name": "g",
        "resource_pattern_type": Pattern.LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": Operation.READ,
        "permission_type": Permission.ALLOW,
        **changes,
    }
    return CreateAclsRequestAclCreation(**values)
