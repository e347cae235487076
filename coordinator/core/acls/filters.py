"""Filters of access rules, as DescribeAcls and DeleteAcls have them. Kafka: `AclBindingFilter`."""

from collections.abc import Iterable
from typing import Final, Protocol

from coordinator.core.acls.names import ANY, WILDCARD, Operation, Pattern, Permission, Resource
from coordinator.core.catalog.records import AclKey

_TYPES: Final = frozenset({ANY, *Resource})
_PATTERNS: Final = frozenset({ANY, *Pattern})
_OPERATIONS: Final = frozenset({ANY, *Operation})
_PERMISSIONS: Final = frozenset({ANY, *Permission})


class Filter(Protocol):
    """The fields that the filters of both APIs have. None and ANY match everything."""

    @property
    def resource_type_filter(self) -> int: ...
    @property
    def resource_name_filter(self) -> str | None: ...
    @property
    def pattern_type_filter(self) -> int: ...
    @property
    def principal_filter(self) -> str | None: ...
    @property
    def host_filter(self) -> str | None: ...
    @property
    def operation(self) -> int: ...
    @property
    def permission_type(self) -> int: ...


def is_known(wanted: Filter) -> bool:
    """Return whether each number in a filter means something."""
    return (
        wanted.resource_type_filter in _TYPES
        and wanted.pattern_type_filter in _PATTERNS
        and wanted.operation in _OPERATIONS
        and wanted.permission_type in _PERMISSIONS
    )


def matches(wanted: Filter, acl: AclKey) -> bool:
    """Return whether a filter matches a rule."""
    return (
        wanted.resource_type_filter in (ANY, acl.resource_type)
        and _matches_name(wanted, acl)
        and wanted.principal_filter in (None, acl.principal)
        and wanted.host_filter in (None, acl.host)
        and wanted.operation in (ANY, acl.operation)
        and wanted.permission_type in (ANY, acl.permission_type)
    )


def _matches_name(wanted: Filter, acl: AclKey) -> bool:
    name, pattern = wanted.resource_name_filter, wanted.pattern_type_filter
    if pattern not in (ANY, Pattern.MATCH, acl.pattern_type):
        return False
    if name is None:
        return True
    if pattern != Pattern.MATCH:
        return name == acl.resource_name
    if acl.pattern_type == Pattern.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in (name, WILDCARD)


class Candidates:
    """Rules by what filters mostly name, so that a filter is compared with few of them."""

    def __init__(self, acls: Iterable[AclKey]) -> None:
        self._all = tuple(acls)
        self._by_name: dict[str, list[AclKey]] = {}
        self._by_principal: dict[str, list[AclKey]] = {}
        self._by_host: dict[str, list[AclKey]] = {}
        for acl in self._all:
            self._by_name.setdefault(acl.resource_name, []).append(acl)
            self._by_principal.setdefault(acl.principal, []).append(acl)
            self._by_host.setdefault(acl.host, []).append(acl)

    def find(self, wanted: Filter) -> list[AclKey]:
        """Return the rules that a filter matches, in the order of their creation."""
        return [acl for acl in self._select(wanted) if matches(wanted, acl)]

    def count(self, wanted: Filter) -> int:
        """Return with how many rules a filter is compared."""
        return len(self._select(wanted))

    def _select(self, wanted: Filter) -> list[AclKey] | tuple[AclKey, ...]:
        """Return the fewest rules among which all are that match."""
        some: list[list[AclKey]] = []
        if wanted.principal_filter is not None:
            some.append(self._by_principal.get(wanted.principal_filter, []))
        if wanted.host_filter is not None:
            some.append(self._by_host.get(wanted.host_filter, []))
        if wanted.resource_name_filter is not None and wanted.pattern_type_filter != Pattern.MATCH:
            some.append(self._by_name.get(wanted.resource_name_filter, []))
        return min(some, key=len) if some else self._all
