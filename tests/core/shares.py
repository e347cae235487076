"""What consumers of the classic protocol say in JoinGroup and SyncGroup: what they want, and who gets which partitions."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from protocol.messages import consumer_protocol as embedded
from protocol.messages.join_group import JoinGroupRequestProtocol
from protocol.messages.sync_group import SyncGroupRequestAssignment


def want(topics: Iterable[str]) -> tuple[JoinGroupRequestProtocol, ...]:
    """The protocols of a consumer that subscribes to these topics."""
    subscription = embedded.ConsumerProtocolSubscription(topics=tuple(topics))
    return (JoinGroupRequestProtocol("range", embedded.write(subscription, 1)),)


def share(member_id: str, partitions: Mapping[str, Sequence[int]]) -> SyncGroupRequestAssignment:
    """What a leader gives to one member, by topic."""
    owned = tuple(
        embedded.ConsumerProtocolAssignmentTopicPartition(topic, tuple(numbers))
        for topic, numbers in partitions.items()
        if numbers
    )
    return SyncGroupRequestAssignment(member_id, embedded.write(embedded.ConsumerProtocolAssignment(owned), 1))


def deal(members: Iterable[Any], counts: Mapping[str, int]) -> tuple[SyncGroupRequestAssignment, ...]:
    """Deal each topic's partitions out, one by one, to the members of a JoinGroup response that want it."""
    wanted = {one.member_id: set(embedded.read_subscription(one.metadata).topics) for one in members}
    dealt: dict[str, dict[str, list[int]]] = {member_id: {} for member_id in wanted}
    for topic, count in sorted(counts.items()):
        takers = [member_id for member_id, topics in sorted(wanted.items()) if topic in topics]
        for number, member_id in enumerate(takers):
            dealt[member_id][topic] = list(range(number, count, len(takers)))
    return tuple(share(member_id, partitions) for member_id, partitions in dealt.items())


def read_share(assignment: bytes) -> set[tuple[str, int]]:
    """The partitions of a SyncGroup response; none where it has no bytes."""
    owned = embedded.read_assignment(assignment).assigned_partitions if assignment else ()
    return {(entry.topic, number) for entry in owned for number in entry.partitions}
