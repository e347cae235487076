"""ListGroups: which groups there are, in which state, of which type.

Shown by tests/core/scripts/offsets/list.txt and tests/conformance/stories/admin_groups.py.
"""

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
        if self._states and _fold(group.group_state) not in self._states:
            return False
        return not self._types or _fold(group.group_type) in self._types


def list_group(group: Group) -> ListGroupsResponseListedGroup:
    """List one group. A version that has no state or no type leaves them out by itself."""
    kind = kind_of(group)
    return ListGroupsResponseListedGroup(group.group_id, kind.protocol_type(group), str(group.state), kind.name)


def _fold_case(words: Collection[str]) -> frozenset[str]:
    return frozenset(map(_fold, words))


def _fold(word: str) -> str:
    """Return the word without case. A filter of Kafka 4.3.1 knows NotReady, the state of streams groups, as not_ready
    alone."""
    return word.strip().replace("_", "").lower()
