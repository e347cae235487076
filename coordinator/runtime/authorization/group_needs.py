"""What requests about groups and offsets need, where it is more than one check of one name."""

from collections.abc import Callable, Iterable
from typing import Any, Final

from msgspec.structs import replace

from coordinator.core import refusal
from coordinator.core.acls.names import CLUSTER_NAME, Operation, Resource
from coordinator.core.catalog.names import INTERNAL, reason_invalid
from coordinator.core.decision import Steps
from coordinator.core.kinds.streams.topology import names_in
from coordinator.core.offsets.offset_fetch import GROUPS_SINCE
from coordinator.core.pace import Pace, chain_steps
from coordinator.runtime.authorization.guard import Asking, Whole, need
from coordinator.runtime.authorization.shapes import deny_nothing
from coordinator.runtime.find_coordinator import GROUP as GROUP_KEY
from coordinator.runtime.find_coordinator import MANY_KEYS_SINCE, SHARE, SHARES_SINCE, TRANSACTION
from coordinator.runtime.partial_refusal import Judge
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


_FIND_REFUSED: Final = {
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional id authorization failed.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
}


def refuse_find(request: FindCoordinatorRequest, version: int, error: ErrorCode) -> FindCoordinatorResponse:
    told = _FIND_REFUSED[error]
    if version >= MANY_KEYS_SINCE and error != ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        told = ""  # as in Kafka
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


def offset_fetch_topics(asking: Asking, response: Response) -> Steps[Response]:
    """Say of topics that the client has named that they are denied; where it asks for all, leave them out.

    Kafka: `KafkaApis.fetchOffsets`, `fetchAllOffsetsForGroup`.
    """
    describes, pace = need(_R.TOPIC, _O.DESCRIBE), Pace()

    def hide_denied_topics(topics: Iterable[Entry], is_named: bool) -> Steps[tuple[Entry, ...]]:
        found, denied = [], []
        for topic in topics:
            if pace.is_due():
                yield
            name = asking.topic(topic)
            if name is None or describes.is_met(asking, name):
                found.append(topic)
            elif is_named:
                denied.append(_deny_offsets(topic))
                pace.is_due(len(topic.partitions))
        return (*denied, *found)

    request = asking.request
    if asking.version < GROUPS_SINCE:
        topics = yield from hide_denied_topics(response.topics, request.topics is not None)
        return replace(response, topics=topics)

    def hide(group: tuple[Entry, Entry]) -> Steps[Entry]:
        found, wanted = group
        return replace(found, topics=(yield from hide_denied_topics(found.topics, wanted.topics is not None)))

    groups = yield from chain_steps(zip(response.groups, request.groups, strict=True), hide)
    return replace(response, groups=tuple(groups))


def _deny_offsets(topic: Entry) -> Entry:
    partitions = [
        replace(
            one, committed_offset=-1, committed_leader_epoch=-1, metadata="", error_code=_TOPIC_DENIED
        )
        for one in topic.partitions
    ]  # fmt: skip
    return replace(topic, partitions=tuple(partitions))


def refuse_offset_delete(request: OffsetDeleteRequest, version: int, error: ErrorCode) -> OffsetDeleteResponse:
    """Refuse an OffsetDelete: the error of a topic is in its partitions, that of the group in the response."""
    return OffsetDeleteResponse(
        topics=tuple([
            OffsetDeleteResponseTopic(
                topic.name,
                tuple([OffsetDeleteResponsePartition(one.partition_index, error) for one in topic.partitions]),
            )
            for topic in request.topics
        ])
    )  # fmt: skip


def hide_members(asking: Asking, response: Response) -> Steps[Response]:
    """Refuse to describe a group of which a member owns or wants a topic that the client may not describe (K-319)."""

    def names_of(member: Entry) -> Iterable[str]:
        return (
            *(member.subscribed_topic_names or ()),
            *(one.topic_name for one in member.assignment.topic_partitions),
            *(one.topic_name for one in member.target_assignment.topic_partitions),
        )

    return hide_groups(asking, response, lambda group: map(names_of, group.members))


def hide_groups(
    asking: Asking, response: Response, names_of: Callable[[Entry], Iterable[Iterable[str]]]
) -> Steps[Response]:
    """Refuse to describe a group with a topic that the client may not describe. `names_of` returns all names of a
    group's topics in parts, such as those of each member."""
    describes, pace = need(_R.TOPIC, _O.DESCRIBE), Pace()

    def look_at(group: Entry) -> Steps[Entry]:
        known: set[str] = set()
        for names in names_of(group):
            for name in names:
                if pace.is_due():
                    yield
                if name not in known and not describes.is_met(asking, name):
                    return _hide(group)
                known.add(name)
        return group

    return replace(response, groups=tuple((yield from chain_steps(response.groups, look_at))))


def hide_topologies(asking: Asking, response: Response) -> Steps[Response]:
    """Refuse to describe a streams group whose topology has a topic that the client may not describe."""

    def names_of(part: Entry) -> Iterable[str]:
        return (
            *part.source_topics,
            *part.repartition_sink_topics,
            *(topic.name for topic in (*part.repartition_source_topics, *part.state_changelog_topics)),
        )

    def parts(group: Entry) -> Iterable[Iterable[str]]:
        return () if group.topology is None else map(names_of, group.topology.subtopologies or ())

    return hide_groups(asking, response, parts)


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


def hide_readers(asking: Asking, response: Response) -> Steps[Response]:
    """Refuse to describe a share group of which a member reads a topic that the client may not describe."""

    def names_of(member: Entry) -> Iterable[str]:
        return [one.topic_name for one in member.assignment.topic_partitions]

    return hide_groups(asking, response, lambda group: map(names_of, group.members))


def hide_share_offsets(asking: Asking, response: Response) -> Steps[Response]:
    """Say of topics that the client has named that they are denied; where it asks for all, leave them out.

    Kafka: `KafkaApis.describeShareGroupOffsetsForGroup`, `describeShareGroupAllOffsetsForGroup`.
    """
    describes, pace = need(_R.TOPIC, _O.DESCRIBE), Pace()

    def hide(group: tuple[Entry, Entry]) -> Steps[Entry]:
        told, wanted = group
        found, denied = [], []
        for topic in told.topics:
            if pace.is_due():
                yield
            if describes.is_met(asking, topic.topic_name):
                found.append(topic)
            elif wanted.topics is not None:
                denied.append(_deny_share_offsets(topic))
                pace.is_due(len(topic.partitions))
        return replace(told, topics=(*found, *denied))

    groups = yield from chain_steps(zip(response.groups, asking.request.groups, strict=True), hide)
    return replace(response, groups=tuple(groups))


def _deny_share_offsets(topic: Entry) -> Entry:
    partitions = [
        type(one)(one.partition_index, -1, 0, -1, _TOPIC_DENIED, TOPIC_DENIED_MESSAGE) for one in topic.partitions
    ]
    return replace(topic, topic_id=ZERO_UUID, partitions=tuple(partitions))
