"""What requests about groups and offsets need, where it is more than one check of one name."""

from collections.abc import Iterable
from typing import Any, Final

from msgspec.structs import replace

from coordinator.core import refusal
from coordinator.core.acls.names import CLUSTER_NAME, Operation, Resource
from coordinator.core.catalog.names import INTERNAL, reason_invalid
from coordinator.core.kinds.streams.topology import names_in
from coordinator.core.offsets.offset_fetch import GROUPS_SINCE
from coordinator.runtime.authorization.guard import Asking, Judge, Whole, need
from coordinator.runtime.authorization.shapes import deny_nothing
from coordinator.runtime.find_coordinator import GROUP as GROUP_KEY
from coordinator.runtime.find_coordinator import MANY_KEYS_SINCE, SHARE, SHARES_SINCE, TRANSACTION
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
)
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from protocol.wire import ZERO_UUID

Entry = Any
Response = Any
_O, _R = Operation, Resource
TOPIC_DENIED_MESSAGE: Final = "Topic authorization failed."
_TOPIC_DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


def refuse_join(request: JoinGroupRequest, version: int, error: ErrorCode) -> Response:
    """Refuse to admit a member."""
    return refusal.refuse_join(error, "", version)


_COORDINATED: Final = {
    GROUP_KEY: need(_R.GROUP, _O.DESCRIBE),
    TRANSACTION: need(_R.TRANSACTIONAL_ID, _O.DESCRIBE),
    SHARE: need(_R.CLUSTER, _O.CLUSTER_ACTION),
}


def find_one(key_type: int) -> Whole:
    def names(asking: Asking) -> Iterable[str]:
        request = asking.request
        return (request.key,) if asking.version < MANY_KEYS_SINCE and request.key_type == key_type else ()

    return Whole(_COORDINATED[key_type], names, refuse=refuse_find)


def find_each(asking: Asking) -> Judge:
    wanted = _COORDINATED.get(asking.request.key_type)
    if wanted is None:
        return deny_nothing
    if asking.request.key_type == SHARE:
        is_known = asking.version >= SHARES_SINCE and not wanted.is_met(asking, CLUSTER_NAME)
        return lambda key: wanted.error if is_known else None
    return lambda key: None if wanted.is_met(asking, key) else wanted.error


def refuse_find(request: FindCoordinatorRequest, version: int, error: ErrorCode) -> FindCoordinatorResponse:
    told = "Cluster authorization failed." if error == ErrorCode.CLUSTER_AUTHORIZATION_FAILED else ""
    nowhere = (-1, "", -1, error, told)
    return FindCoordinatorResponse(
        error_code=error,
        node_id=-1,
        port=-1,
        error_message=told,
        coordinators=tuple([FindCoordinatorResponseCoordinator(key, *nowhere) for key in request.coordinator_keys]),
    )


def subscription_topics(asking: Asking) -> Iterable[str]:
    return asking.request.subscribed_topic_names or ()


def offset_fetch_topics(asking: Asking, response: Response) -> Response:
    """Say of topics that the client has named that they are denied; where it asks for all, leave them out.

    Kafka: `KafkaApis.fetchOffsets`, `fetchAllOffsetsForGroup`.
    """
    describes = need(_R.TOPIC, _O.DESCRIBE)

    def hide_denied_topics(topics: Iterable[Entry], is_named: bool) -> tuple[Entry, ...]:
        found, denied = [], []
        for topic in topics:
            name = asking.topic(topic)
            if name is None or describes.is_met(asking, name):
                found.append(topic)
            elif is_named:
                denied.append(_deny_offsets(topic))
        return (*denied, *found)

    request = asking.request
    if asking.version < GROUPS_SINCE:
        return replace(response, topics=hide_denied_topics(response.topics, request.topics is not None))
    named = [group.topics is not None for group in request.groups]
    groups = zip(response.groups, named, strict=True)
    return replace(
        response,
        groups=tuple([replace(one, topics=hide_denied_topics(one.topics, is_named)) for one, is_named in groups]),
    )


def _deny_offsets(topic: Entry) -> Entry:
    partitions = [
        replace(
            one, committed_offset=-1, committed_leader_epoch=-1, metadata="", error_code=_TOPIC_DENIED
        )
        for one in topic.partitions
    ]  # fmt: skip
    return replace(topic, partitions=tuple(partitions))


def refuse_offset_delete(request: OffsetDeleteRequest, version: int, error: ErrorCode) -> OffsetDeleteResponse:
    """The error of a topic is in its partitions; that of the response is the group's."""
    return OffsetDeleteResponse(
        topics=tuple([
            OffsetDeleteResponseTopic(
                topic.name,
                tuple([OffsetDeleteResponsePartition(one.partition_index, error) for one in topic.partitions]),
            )
            for topic in request.topics
        ])
    )  # fmt: skip


def hide_members(asking: Asking, response: Response) -> Response:
    """Refuse to describe a group of which a member owns or wants a topic that the client may not describe (K-319)."""
    describes = need(_R.TOPIC, _O.DESCRIBE)

    def is_seen(group: Entry) -> bool:
        names = {
            name
            for member in group.members
            for name in (
                *(member.subscribed_topic_names or ()),
                *(one.topic_name for one in member.assignment.topic_partitions),
                *(one.topic_name for one in member.target_assignment.topic_partitions),
            )
        }
        return all(describes.is_met(asking, name) for name in names)

    return replace(response, groups=tuple([one if is_seen(one) else _hide(one) for one in response.groups]))


def hide_topologies(asking: Asking, response: Response) -> Response:
    """Refuse to describe a streams group whose topology has a topic that the client may not describe."""
    describes = need(_R.TOPIC, _O.DESCRIBE)

    def is_seen(group: Entry) -> bool:
        parts = () if group.topology is None else group.topology.subtopologies or ()
        names = {
            name
            for part in parts
            for name in (
                *part.source_topics,
                *part.repartition_sink_topics,
                *(topic.name for topic in (*part.repartition_source_topics, *part.state_changelog_topics)),
            )
        }
        return all(describes.is_met(asking, name) for name in names)

    return replace(response, groups=tuple([one if is_seen(one) else _hide(one) for one in response.groups]))


def _hide(group: Entry) -> Entry:
    return type(group)(
        error_code=_TOPIC_DENIED,
        error_message="The group has topics that may not be described.",
        group_id=group.group_id,
    )


def topology_topics(asking: Asking) -> Iterable[str]:
    """Name the topics of a topology; none if one of the names is none, which is refused for that."""
    topology = asking.request.topology
    names = () if topology is None else tuple(dict.fromkeys(names_in(topology)))
    return () if any(name in INTERNAL or reason_invalid(name) for name in names) else names


def one_group(asking: Asking) -> Iterable[str]:
    return (asking.request.group_id,) if asking.version < GROUPS_SINCE else ()


def hide_readers(asking: Asking, response: Response) -> Response:
    """Refuse to describe a share group of which a member reads a topic that the client may not describe."""
    describes = need(_R.TOPIC, _O.DESCRIBE)

    def is_seen(group: Entry) -> bool:
        names = {one.topic_name for member in group.members for one in member.assignment.topic_partitions}
        return all(describes.is_met(asking, name) for name in names)

    def hide(group: Entry) -> Entry:
        return type(group)(
            error_code=_TOPIC_DENIED,
            error_message="The group has topics that may not be described.",
            group_id=group.group_id,
        )

    return replace(response, groups=tuple([one if is_seen(one) else hide(one) for one in response.groups]))


def hide_share_offsets(asking: Asking, response: Response) -> Response:
    """Say of topics that the client has named that they are denied; where it asks for all, leave them out.

    Kafka: `KafkaApis.describeShareGroupOffsetsForGroup`, `describeShareGroupAllOffsetsForGroup`.
    """
    describes = need(_R.TOPIC, _O.DESCRIBE)
    named = {group.group_id for group in asking.request.groups if group.topics is not None}

    def hide(group: Entry) -> Entry:
        found = [topic for topic in group.topics if describes.is_met(asking, topic.topic_name)]
        denied = [_deny_share_offsets(topic) for topic in group.topics if topic not in found]
        return replace(group, topics=(*found, *denied) if group.group_id in named else tuple(found))

    return replace(response, groups=tuple([hide(group) for group in response.groups]))


def _deny_share_offsets(topic: Entry) -> Entry:
    partitions = [
        type(one)(one.partition_index, -1, 0, -1, _TOPIC_DENIED, TOPIC_DENIED_MESSAGE) for one in topic.partitions
    ]
    return replace(topic, topic_id=ZERO_UUID, partitions=tuple(partitions))
