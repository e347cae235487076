"""All ACLs, indexed by their resource. Only records of the catalog change them."""

from collections.abc import Iterator
from typing import Final

from coordinator.core.acls.names import WILDCARD, Pattern
from coordinator.core.catalog.records import AclKey
from coordinator.core.principal import Principal

_NONE: Final[dict[AclKey, None]] = {}

Patterns = dict[tuple[int, str], dict[AclKey, None]]  # ACLs by type and name of their resource


Decisions = dict[tuple[int, str, Principal, str], bool]
"""By the code of an operation on a type of resource, the name of the resource, the principal and its host."""


class AclRules:
    """The ACLs, in the order of their creation."""

    def __init__(self) -> None:
        self.decisions: Decisions = {}  # a cache, which each change of the rules clears
        self._all: dict[AclKey, None] = {}
        self._literal: Patterns = {}
        self._prefixed: Patterns = {}
        self._lengths: dict[int, int] = {}  # length of a prefix -> how many ACLs have one of that length

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[AclKey]:
        return iter(self._all)

    def __contains__(self, acl: AclKey) -> bool:
        return acl in self._all

    def add(self, acl: AclKey) -> None:
        """Add an ACL, unless it is there already."""
        if acl in self._all:
            return
        self.decisions.clear()
        self._all[acl] = None
        self._index_of(acl).setdefault((acl.resource_type, acl.resource_name), {})[acl] = None
        if acl.pattern_type == Pattern.PREFIXED:
            length = len(acl.resource_name)
            self._lengths[length] = self._lengths.get(length, 0) + 1

    def remove(self, acl: AclKey) -> None:
        """Remove an ACL, if it is there."""
        if acl not in self._all:
            return
        self.decisions.clear()
        del self._all[acl]
        by_resource, resource = self._index_of(acl), (acl.resource_type, acl.resource_name)
        del by_resource[resource][acl]
        if not by_resource[resource]:
            del by_resource[resource]
        if acl.pattern_type == Pattern.PREFIXED:
            length = len(acl.resource_name)
            self._lengths[length] -= 1
            if not self._lengths[length]:
                del self._lengths[length]

    def find_matching(self, resource_type: int, name: str) -> Iterator[AclKey]:
        """Yield the ACLs of one resource: those of its name, of a prefix of it, and of all names."""
        yield from self._literal.get((resource_type, name), _NONE)
        if name != WILDCARD:
            yield from self._literal.get((resource_type, WILDCARD), _NONE)
        for length in self._lengths:
            if length <= len(name):
                yield from self._prefixed.get((resource_type, name[:length]), _NONE)

    def find_by_type(self, resource_type: int) -> Iterator[AclKey]:
        """Return the ACLs of all resources of a type."""
        return (acl for acl in self._all if acl.resource_type == resource_type)

    def _index_of(self, acl: AclKey) -> Patterns:
        return self._prefixed if acl.pattern_type == Pattern.PREFIXED else self._literal
