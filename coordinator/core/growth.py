"""Which requests make the members or the offsets of a group take more memory, told before they are decided.

Where there is no room for more, those are refused, and what keeps a group going is not. A request that can bring
metadata, an assignment or offsets has a row here.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from coordinator.core.offsets.validation import topic_meant
from coordinator.core.weights import weigh
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from protocol.messages.sync_group import SyncGroupRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest

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


def names_new_offsets(request: OffsetCommitRequest | TxnOffsetCommitRequest, version: int, shard: Any) -> bool:
    """Return whether a commit has an offset more than its group, or metadata. One in a transaction always has more."""
    if isinstance(request, TxnOffsetCommitRequest):
        return True
    for topic in request.topics:
        meant = topic_meant(topic, version, shard.topics)
        if isinstance(meant, ErrorCode):
            continue
        known = shard.offsets.of_topic(request.group_id, meant.name)
        for each in topic.partitions:
            if each.partition_index not in known or each.committed_metadata:
                return True
    return False


COMMITS: Final = frozenset({OffsetCommitRequest, TxnOffsetCommitRequest})
"""The requests that can bring more offsets."""

GROWING: Final[Mapping[type, Callable[[Any, Any], bool]]] = {
    JoinGroupRequest: _grows_by_join,
    SyncGroupRequest: _grows_by_sync,
    ConsumerGroupHeartbeatRequest: _grows_by_heartbeat,
    StreamsGroupHeartbeatRequest: _grows_by_streams_heartbeat,
}
"""By the type of the request: whether it makes the group take more than it does."""
