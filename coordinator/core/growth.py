"""Which requests make the members of a group take more memory, told before they are decided: where there is no room for
members any more, those are refused, and what keeps a group going is not.

A request that can bring metadata or an assignment has a row here.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from coordinator.core.weights import weigh
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from protocol.messages.sync_group import SyncGroupRequest

ASSIGNMENT_BYTES: Final = 4_096
"""What a member of an average assignment has: as much is taken in any case, for each member of the group."""


def _joins(group: Any, member_id: str, brought: Any) -> bool:
    """Return whether a member is new, or brings more than it has."""
    known = None if group is None else group.members.get(member_id)
    return known is None or (brought is not None and weigh(brought) > weigh(known))


def _grows_by_join(request: JoinGroupRequest, group: Any) -> bool:
    return _joins(group, request.member_id, request.protocols)


def _grows_by_sync(request: SyncGroupRequest, group: Any) -> bool:
    size = sum([len(one.assignment) for one in request.assignments])
    return group is not None and size > ASSIGNMENT_BYTES * len(group.members)


def _grows_by_heartbeat(request: ConsumerGroupHeartbeatRequest, group: Any) -> bool:
    if request.member_epoch < 0:
        return False
    return _joins(group, request.member_id, request.subscribed_topic_names)


def _grows_by_streams_heartbeat(request: StreamsGroupHeartbeatRequest, group: Any) -> bool:
    if request.member_epoch < 0:
        return False
    brought = (request.topology if group is None else None, request.process_id, request.rack_id, request.client_tags)
    return _joins(group, request.member_id, brought if any(brought) else None)


GROWING: Final[Mapping[type, Callable[[Any, Any], bool]]] = {
    JoinGroupRequest: _grows_by_join,
    SyncGroupRequest: _grows_by_sync,
    ConsumerGroupHeartbeatRequest: _grows_by_heartbeat,
    StreamsGroupHeartbeatRequest: _grows_by_streams_heartbeat,
}
"""By the type of the request: whether it makes the group take more than it does."""
