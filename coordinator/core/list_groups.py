"""ListGroups: which groups there are, in which state, of which type."""

from collections.abc import Collection

from coordinator.core.kinds.kind import Group
from coordinator.core.kinds.registry import kind_of
from protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponseListedGroup


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


def list_group(group: Group) -> ListGroupsResponseListedGroup:
    """One group. A version that has no state or no type leaves them out by itself."""
    kind = kind_of(group)
    return ListGroupsResponseListedGroup(group.group_id, kind.protocol_type(group), str(group.state), kind.name)


def _fold_case(words: Collection[str]) -> frozenset[str]:
    return frozenset(word.strip().lower() for word in words)
