"""Whether a client may do what it asks for. Kafka: `StandardAuthorizer`.

A deny that matches goes before every allow. An allow of READ, WRITE, DELETE or ALTER allows DESCRIBE as well, one of
ALTER_CONFIGS allows DESCRIBE_CONFIGS. Where no ACL is about the resource at all, `allow.everyone.if.no.acl.found` says.
"""

from collections.abc import Collection
from itertools import chain
from typing import Final

from msgspec import Struct

from coordinator.core.acls.names import (
    CLUSTER_NAME,
    IMPLIED,
    SUPPORTED,
    WILDCARD,
    Operation,
    Resource,
    bit_field,
    code_of,
)
from coordinator.core.acls.rules import DENIED, AclRules, bits_of
from coordinator.core.addresses import literal_address
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
        key = (code_of(operation, kind), "", principal, host)
        remembered = self._rules.decisions_of_any
        found = remembered.get(key)
        if found is None:
            found = self._decide_any(str(principal), literal_address(host), operation, kind)
            if len(remembered) >= DECISIONS_MAX:
                remembered.clear()
            remembered[key] = found
        return found

    def _decide_any(self, principal: str, host: str, operation: Operation, kind: Resource) -> bool:
        if principal in self._super_users or self._decide(principal, host, operation, kind, _NO_NAME):
            return True
        allowed = bits_of(operation)
        denied = allowed << DENIED
        every = self._rules.find_grants(kind, principal, host)
        if any(one.exact.get(WILDCARD, 0) & denied for one in every):
            return False
        for name, grant in chain.from_iterable(one.exact.items() for one in every):
            if grant & allowed and not any((o.exact.get(name, 0) | o.prefixed.find(name)) & denied for o in every):
                return True
        for name, grant in chain.from_iterable(one.prefixed.own.items() for one in every):
            if grant & allowed and not any(o.prefixed.find(name) & denied for o in every):
                return True
        return False

    def operations(self, principal: Principal, host: str, kind: Resource, name: str) -> int:
        """Return what a principal may do with a resource, as the bit field that responses have."""
        return bit_field(tuple(one for one in SUPPORTED[kind] if self.may(principal, host, one, kind, name)))

    def _decide(self, principal: str, host: str, operation: Operation, kind: Resource, name: str) -> bool:
        if principal in self._super_users:
            return True
        grant = 0
        for one in self._rules.find_grants(kind, principal, host):
            grant |= one.find(name)
        if grant & _DENYING[operation]:
            return False
        if grant & _ALLOWING[operation]:
            return True
        return self._allows_without_acls and not self._rules.is_anything_about(kind, name)


_ALLOWING: Final = {operation: bits_of(*IMPLIED.get(operation, (operation,))) for operation in Operation}
_DENYING: Final = {operation: bits_of(operation) << DENIED for operation in Operation}


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
