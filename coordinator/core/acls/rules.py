"""All ACLs, indexed by whom they are about. Only records of the catalog change them.

A decision looks at the grants of four subjects: the principal or everybody, asking from the host or from anywhere. The
rules of others cost it nothing, however many they are.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator
from typing import Final

from coordinator.core.acls.names import WILDCARD, WILDCARD_PRINCIPAL, Operation, Pattern, Permission
from coordinator.core.catalog.records import AclKey
from coordinator.core.principal import Principal

Decisions = dict[tuple[int, str, Principal, str], bool]
"""By the code of an operation on a type of resource, the name of the resource, the principal and its host."""

Grant = int
"""A set of operations: bit n allows operation n, and bit n + `DENIED` denies it."""
DENIED: Final = 32
SOME: Final = 1  # a grant that only says that there is a rule: no operation has this bit


class PrefixTable:
    """What holds for names by their prefixes, together for all prefixes of a name."""

    __slots__ = ("_parents", "_sorted", "_together", "own")

    def __init__(self) -> None:
        self.own: dict[str, Grant] = {}
        self._sorted: list[str] | None = None
        self._together: list[Grant] = []  # by prefix: what holds by it and by its own prefixes
        self._parents: list[int] = []  # the place of the longest other prefix that it begins with, or -1

    def set(self, prefix: str, grant: Grant) -> None:
        """Set what holds for one prefix, nothing if the grant is 0."""
        self._sorted = None
        if grant:
            self.own[prefix] = grant
        else:
            self.own.pop(prefix, None)

    def find(self, name: str) -> Grant:
        """Return what holds for a name, or for a prefix itself, by all prefixes of it.

        Of sorted prefixes, the last one that is not behind the name is the longest that the name begins with, or that
        one is a prefix of it.
        """
        if not self.own:
            return 0
        prefixes = self._sort() if self._sorted is None else self._sorted
        at = bisect_right(prefixes, name) - 1
        if at >= 0 and not name.startswith(prefixes[at]):
            shared = _count_shared(name, prefixes[at])
            while at >= 0 and len(prefixes[at]) > shared:
                at = self._parents[at]
        return self._together[at] if at >= 0 else 0

    def _sort(self) -> list[str]:
        self._sorted = sorted(self.own)
        self._together, self._parents = [], []
        parent = -1
        for at, prefix in enumerate(self._sorted):
            while parent >= 0 and not prefix.startswith(self._sorted[parent]):
                parent = self._parents[parent]
            self._together.append(self.own[prefix] | (self._together[parent] if parent >= 0 else 0))
            self._parents.append(parent)
            parent = at
        return self._sorted


def _count_shared(one: str, other: str) -> int:
    """Return how many characters two names begin with alike."""
    least, most = 0, min(len(one), len(other))
    while least < most:
        middle = (least + most + 1) // 2
        if one[least:middle] == other[least:middle]:
            least = middle
        else:
            most = middle - 1
    return least


class Grants:
    """What one subject may do with resources of one type."""

    __slots__ = ("exact", "prefixed")

    def __init__(self) -> None:
        self.exact: dict[str, Grant] = {}
        self.prefixed = PrefixTable()

    def find(self, name: str) -> Grant:
        """Return what holds for a resource: by its name, by all names, and by its prefixes."""
        return self.exact.get(name, 0) | self.exact.get(WILDCARD, 0) | self.prefixed.find(name)

    def change(self, acl: AclKey, *, is_added: bool) -> None:
        """Add what a rule says, or take it back. No other rule of this subject says the same of the same resource."""
        is_prefix = acl.pattern_type == Pattern.PREFIXED
        before = (self.prefixed.own if is_prefix else self.exact).get(acl.resource_name, 0)
        grant = before | grant_of(acl) if is_added else before & ~grant_of(acl)
        if is_prefix:
            self.prefixed.set(acl.resource_name, grant)
        elif grant:
            self.exact[acl.resource_name] = grant
        else:
            self.exact.pop(acl.resource_name, None)

    def __bool__(self) -> bool:
        return bool(self.exact or self.prefixed.own)


def grant_of(acl: AclKey) -> Grant:
    """Return what a rule says of its operation."""
    return 1 << acl.operation + (DENIED if acl.permission_type == Permission.DENY else 0)


def bits_of(*operations: int) -> Grant:
    """Return the bits of these operations, and of ALL, as they are allowed."""
    return sum(1 << operation for operation in {Operation.ALL, *operations})


class AclRules:
    """The ACLs, in the order of their creation."""

    def __init__(self) -> None:
        self.decisions: Decisions = {}  # caches, which each change of the rules clears
        self.decisions_of_any: Decisions = {}
        self._all: dict[AclKey, None] = {}
        self._grants: dict[tuple[int, str, str], Grants] = {}  # by type of resource, principal and host
        self._named: dict[
            int, tuple[Counter[str], Counter[str], PrefixTable]
        ] = {}  # by type: whom ever rules are about

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[AclKey]:
        return iter(self._all)

    def __contains__(self, acl: AclKey) -> bool:
        return acl in self._all

    def add(self, acl: AclKey) -> None:
        """Add an ACL, unless it is there already."""
        if acl not in self._all:
            self._all[acl] = None
            self._change(acl, is_added=True)

    def remove(self, acl: AclKey) -> None:
        """Remove an ACL, if it is there."""
        if acl in self._all:
            del self._all[acl]
            self._change(acl, is_added=False)

    def _change(self, acl: AclKey, *, is_added: bool) -> None:
        self.decisions.clear()
        self.decisions_of_any.clear()
        subject = (acl.resource_type, acl.principal, acl.host)
        grants = self._grants.setdefault(subject, Grants())
        grants.change(acl, is_added=is_added)
        if not grants:
            del self._grants[subject]
        literal, prefixed, prefixes = self._named.setdefault(acl.resource_type, (Counter(), Counter(), PrefixTable()))
        counts = prefixed if acl.pattern_type == Pattern.PREFIXED else literal
        counts[acl.resource_name] += 1 if is_added else -1
        if not counts[acl.resource_name]:
            del counts[acl.resource_name]
        if counts is prefixed:
            prefixes.set(acl.resource_name, SOME if acl.resource_name in prefixed else 0)

    def find_grants(self, kind: int, principal: str, host: str) -> list[Grants]:
        """Return the grants that apply to a principal who asks from a host."""
        subjects = dict.fromkeys(
            (whom, whence) for whom in (principal, WILDCARD_PRINCIPAL) for whence in (host, WILDCARD)
        )
        return [found for subject in subjects if (found := self._grants.get((kind, *subject))) is not None]

    def is_anything_about(self, kind: int, name: str) -> bool:
        """Return whether there is a rule about a resource, whomever it concerns."""
        if (named := self._named.get(kind)) is None:
            return False
        literal, _, prefixes = named
        return name in literal or WILDCARD in literal or bool(prefixes.find(name))
