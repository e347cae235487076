"""ListGroups: which groups there are, in which state, of which type."""

from collections.abc import Collection
from typing import Protocol

from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponseListedGroup


class Listable(Protocol):
    """The attributes that groups of both types have."""

    @property
    def group_id(self) -> str: ...

    @property
    def state(self) -> str: ...


class Filters:
    """The filters of a request: empty ones let everything pass, unknown words nothing; case does not matter."""

    def __init__(self, request: ListGroupsRequest) -> None:
        self._states = _fold_case(request.states_filter)
        self._types = _fold_case(request.types_filter)

    def has(self, group: ListGroupsResponseListedGroup) -> bool:
        """Return whether the group is asked for: by its state and by its type."""
        if self._states and group.group_state.lower() not in self._states:
            return False
        return not self._types or group.group_type.lower() in self._types


def list_group(group: Listable, group_type: str, protocol_type: str | None) -> ListGroupsResponseListedGroup:
    """One group. A version that has no state or no type leaves them out by itself."""
    return ListGroupsResponseListedGroup(group.group_id, protocol_type or "", str(group.state), group_type)


def _fold_case(words: Collection[str]) -> frozenset[str]:
    return frozenset(word.strip().lower() for word in words)
