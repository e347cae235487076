"""All ACLs, found by the resource that they are about. Changed by records of the catalog alone."""

from collections.abc import Iterator
from typing import Final

from coordinator.core.acls.names import WILDCARD, Pattern
from coordinator.core.catalog.records import AclKey
from coordinator.core.principal import Principal

_NONE: Final[dict[AclKey, None]] = {}

Patterns = dict[tuple[int, str], dict[AclKey, None]]  # ACLs by type and name of their resource


Decisions = dict[tuple[int, str, Principal, str], bool]
"""By the code of an operation on a type of resource, the resource's name, the principal and its host."""


class AclRules:
    """The ACLs, in the order of their creation."""

    def __init__(self) -> None:
        self.decisions: Decisions = {}  # that were made by these rules; a change of the rules forgets them
        self._all: dict[AclKey, None] = {}
        self._literal: Patterns = {}
        self._prefixed: Patterns = {}
        self._lengths: dict[int, int] = {}  # of prefixes, with how many ACLs have one of that length

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[AclKey]:
        return iter(self._all)

    def __contains__(self, acl: AclKey) -> bool:
        return acl in self._all

    def add(self, acl: AclKey) -> None:
        """Add an ACL; one that is there already stays."""
        if acl in self._all:
            return
        self.decisions.clear()
        self._all[acl] = None
        self._of(acl).setdefault((acl.resource_type, acl.resource_name), {})[acl] = None
        if acl.pattern_type == Pattern.PREFIXED:
            length = len(acl.resource_name)
            self._lengths[length] = self._lengths.get(length, 0) + 1

    def remove(self, acl: AclKey) -> None:
        """Remove an ACL, if it is there."""
        if acl not in self._all:
            return
        self.decisions.clear()
        del self._all[acl]
        by_resource, resource = self._of(acl), (acl.resource_type, acl.resource_name)
        del by_resource[resource][acl]
        if not by_resource[resource]:
            del by_resource[resource]
        if acl.pattern_type == Pattern.PREFIXED:
            length = len(acl.resource_name)
            self._lengths[length] -= 1
            if not self._lengths[length]:
                del self._lengths[length]

    def about(self, resource_type: int, name: str) -> Iterator[AclKey]:
        """Give the ACLs that concern one resource: by its name, by a prefix of it, and those of all names."""
        yield from self._literal.get((resource_type, name), _NONE)
        if name != WILDCARD:
            yield from self._literal.get((resource_type, WILDCARD), _NONE)
        for length in self._lengths:
            if length <= len(name):
                yield from self._prefixed.get((resource_type, name[:length]), _NONE)

    def of_type(self, resource_type: int) -> Iterator[AclKey]:
        """Give the ACLs of all resources of a type."""
        return (acl for acl in self._all if acl.resource_type == resource_type)

    def _of(self, acl: AclKey) -> Patterns:
        return self._prefixed if acl.pattern_type == Pattern.PREFIXED else self._literal
