"""JoinGroup to a streams group: an empty one ends, and a classic group begins in its place; any other refuses it.

Shown by tests/conformance/stories/streams_kinds.py.
"""

from typing import Any, Final

from msgspec.structs import replace

from coordinator.core.env import Env
from coordinator.core.events import Cause
from coordinator.core.kinds.registry import KINDS
from coordinator.core.kinds.streams import record_builders
from coordinator.core.kinds.streams.group import StreamsGroup
from coordinator.core.kinds.streams.transition import CLASSIC, GroupTransition
from coordinator.core.result import Result
from protocol.messages.join_group import JoinGroupRequest

BY: Final = "JoinGroup"


def join_group(group: StreamsGroup, request: JoinGroupRequest, env: Env) -> Result[Any]:
    """Begin a classic group in the place of an empty streams group, even if the member is only told its id."""
    classic = KINDS[CLASSIC]
    if not group.is_empty:
        return classic.refuses[JoinGroupRequest](group, request, env)
    result = classic.creates[JoinGroupRequest](None, request, env)
    if result.group is None:
        return result
    transition = GroupTransition(group, env, BY)
    transition.tell(Cause.PROTOCOL_DOWNGRADED)
    written = (*record_builders.tombstones(group), *result.records)
    return replace(result, records=written).prepend(events=tuple(transition.events))
