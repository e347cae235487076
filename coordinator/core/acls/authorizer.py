"""Whether a client may do what it asks for. Kafka: `StandardAuthorizer`.

A deny that matches goes before every allow. An allow of READ, WRITE, DELETE or ALTER allows DESCRIBE as well, one of
ALTER_CONFIGS allows DESCRIBE_CONFIGS. Where no ACL is about the resource at all, `allow.everyone.if.no.acl.found` says.
"""

from collections.abc import Collection
from functools import lru_cache
from ipaddress import ip_address
from typing import Final

from msgspec import Struct

from coordinator.core.acls.names import (
    CLUSTER_NAME,
    IMPLIED,
    SUPPORTED,
    WILDCARD,
    WILDCARD_PRINCIPAL,
    Operation,
    Pattern,
    Permission,
    Resource,
    bit_field,
    code_of,
)
from coordinator.core.acls.rules import AclRules
from coordinator.core.catalog.records import AclKey
from coordinator.core.principal import OPERATOR_PRINCIPAL, Principal

DECISIONS_MAX: Final = 10_000  # that are remembered
NAME_MAX: Final = 256  # characters of a name that a remembered decision may be about: longer ones could fill the memory


class Authorizer:
    """The rules, and who is above them. Decisions are remembered until an ACL changes."""

    def __init__(
        self, rules: AclRules, super_users: Collection[str] = (), *, allows_without_acls: bool = False
    ) -> None:
        self._rules = rules
        self._super_users = frozenset((*super_users, str(OPERATOR_PRINCIPAL)))
        self._allows_without_acls = allows_without_acls
        self.decisions = rules.decisions  # to be read by others

    def may(self, principal: Principal, host: str, operation: Operation, kind: Resource, name: str) -> bool:
        """Return whether a principal may do something with a resource, asking from a host (`/127.0.0.1`)."""
        key = (code_of(operation, kind), name, principal, host)
        found = self.decisions.get(key)
        if found is None:
            found = self._decide(str(principal), literal_address(host), operation, kind, name)
            if len(name) <= NAME_MAX:
                if len(self.decisions) >= DECISIONS_MAX:
                    self.decisions.clear()
                self.decisions[key] = found
        return found

    def may_any(self, principal: Principal, host: str, operation: Operation, kind: Resource) -> bool:
        """Return whether there is any resource of a type with which a principal may do something.

        Kafka: `Authorizer.authorizeByResourceType`. A deny of all names, or of a prefix or name that is the allowed one
        or a prefix of it, takes the right back; what operations imply does not count.
        """
        name, address = str(principal), literal_address(host)
        if name in self._super_users or self._decide(name, address, operation, kind, _NO_NAME):
            return True
        concerned = [acl for acl in self._rules.find_by_type(kind) if _is_for(acl, name, address, (operation,))]
        denied = {(acl.pattern_type, acl.resource_name) for acl in concerned if acl.permission_type == Permission.DENY}
        if (Pattern.LITERAL, WILDCARD) in denied:
            return False
        prefixes = tuple(text for pattern, text in denied if pattern == Pattern.PREFIXED)
        for acl in concerned:
            if acl.permission_type != Permission.ALLOW:
                continue
            is_all = acl.resource_name == WILDCARD and acl.pattern_type == Pattern.LITERAL
            is_denied = acl.resource_name.startswith(prefixes) or (acl.pattern_type, acl.resource_name) in denied
            if is_all or not is_denied:
                return True
        return False

    def operations(self, principal: Principal, host: str, kind: Resource, name: str) -> int:
        """Return what a principal may do with a resource, as the bit field that responses have."""
        return bit_field(tuple(one for one in SUPPORTED[kind] if self.may(principal, host, one, kind, name)))

    def _decide(self, principal: str, host: str, operation: Operation, kind: Resource, name: str) -> bool:
        if principal in self._super_users:
            return True
        allowing = IMPLIED.get(operation, frozenset((operation,)))
        is_allowed = is_concerned = False
        for acl in self._rules.find_matching(kind, name):
            is_concerned = True
            if acl.permission_type == Permission.DENY:
                if _is_for(acl, principal, host, (operation,)):
                    return False
            elif not is_allowed:
                is_allowed = _is_for(acl, principal, host, allowing)
        return is_allowed if is_concerned else self._allows_without_acls


class Rights(Struct, frozen=True, gc=False):
    """What one client may do, by the authorizer: a principal that asks from a host."""

    authorizer: Authorizer
    principal: Principal
    host: str

    def may(self, operation: Operation, kind: Resource, name: str = CLUSTER_NAME) -> bool:
        """Return whether the client may do something with a resource."""
        return self.authorizer.may(self.principal, self.host, operation, kind, name)

    def may_any(self, operation: Operation, kind: Resource) -> bool:
        """Return whether the client may do something with any resource of a type."""
        return self.authorizer.may_any(self.principal, self.host, operation, kind)

    def operations(self, kind: Resource, name: str = CLUSTER_NAME) -> int:
        """Return what the client may do with a resource, as a bit field."""
        return self.authorizer.operations(self.principal, self.host, kind, name)


_NO_NAME: Final = "\0"  # no resource has it: it shows what holds where there is no ACL


def _is_for(acl: AclKey, principal: str, host: str, operations: Collection[int]) -> bool:
    """Whether an ACL is about this principal, host and one of the operations. Its resource is not looked at."""
    return (
        acl.principal in (principal, WILDCARD_PRINCIPAL)
        and acl.host in (host, WILDCARD)
        and (acl.operation == Operation.ALL or acl.operation in operations)
    )


@lru_cache(maxsize=1024)
def literal_address(host: str) -> str:
    """Return the address of a peer as ACLs have it: Java writes all eight groups of an IPv6 address.

    >>> literal_address("/::1")
    '0:0:0:0:0:0:0:1'
    """
    host = host.removeprefix("/")
    if ":" not in host:
        return host
    address = ip_address(host)
    if address.version == 6 and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":"))
