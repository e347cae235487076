"""A group's committed offsets, the ends of its partitions, and changing the former. Not a subcommand."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from coordinator.cli.cluster import Cluster, check
from coordinator.client import ClientError
from protocol.errors import ErrorCode
from protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

EARLIEST: Final = -2  # ListOffsets' times that are none
LATEST: Final = -1
BY_NAME: Final = 9  # the last version of OffsetCommit and OffsetFetch that names topics: later ones have ids
LIST_OFFSETS_TIMEOUT_MS: Final = 30_000
CONSUMER: Final = -1  # the replica id of who is no replica

Place = tuple[str, int]  # topic and partition


class Committed(Struct, frozen=True):
    topic: str
    partition: int
    offset: int
    leader_epoch: int  # -1: not told
    metadata: str


def committed(cluster: Cluster, group: str) -> list[Committed]:
    """All offsets of a group, by topic and partition. A group that is not there has none. Raises ClientError."""
    request = OffsetFetchRequest(
        group_id=group, topics=None, groups=(OffsetFetchRequestGroup(group_id=group, topics=None),)
    )
    answer = cluster.ask_coordinator(group, request, lambda one: [_of(one).error_code], up_to=BY_NAME)
    found = _of(answer)
    if found.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return []
    check(f"fetching offsets of {group}", found.error_code)
    return sorted(
        (
            Committed(
                topic.name, one.partition_index, one.committed_offset, one.committed_leader_epoch, one.metadata or ""
            )
            for topic in found.topics
            for one in topic.partitions
            if one.committed_offset >= 0
        ),
        key=lambda one: (one.topic, one.partition),
    )


def _of(answer: Any) -> Any:
    """One group's part of an OffsetFetch answer: up to version 7 it is the answer itself."""
    return answer.groups[0] if answer.groups else answer


def partitions_of(cluster: Cluster, topics: Sequence[str]) -> dict[str, list[int]]:
    """The partitions of topics. Raises Refused for a topic that is not there."""
    found = {}
    for topic in cluster.metadata(topics).topics if topics else ():
        check(f"topic {topic.name}", topic.error_code)
        found[str(topic.name)] = sorted(one.partition_index for one in topic.partitions)
    return found


def offsets_at(cluster: Cluster, places: Iterable[Place], time_ms: int) -> dict[Place, int]:
    """Offsets by time, or at an end: of the first record at or after `time_ms`, -1 where there is none.

    Partitions that are no longer there, or have no leader now, are left out. Raises ClientError.
    """
    found: dict[Place, int] = {}
    for leader, those in _by_leader(cluster, places).items():
        request = ListOffsetsRequest(
            replica_id=CONSUMER,
            topics=_grouped(those, ListOffsetsRequestTopic, lambda one: _at(one[1], time_ms)),
            timeout_ms=LIST_OFFSETS_TIMEOUT_MS,
        )
        for topic in cluster.brokers()[leader].ask(request).topics:
            found |= {(topic.name, one.partition_index): one.offset for one in topic.partitions if not one.error_code}
    return found


def _at(partition: int, time_ms: int) -> ListOffsetsRequestPartition:
    return ListOffsetsRequestPartition(partition_index=partition, timestamp=time_ms)


def _by_leader(cluster: Cluster, places: Iterable[Place]) -> dict[int, list[Place]]:
    wanted = set(places)
    led: dict[int, list[Place]] = defaultdict(list)
    for topic in cluster.metadata(sorted({name for name, _ in wanted})).topics if wanted else ():
        for one in topic.partitions:
            place = (str(topic.name), one.partition_index)
            if place in wanted and one.leader_id >= 0:
                led[one.leader_id].append(place)
    return led


def commit(cluster: Cluster, group: str, offsets: Mapping[Place, int], metadata: str = "") -> None:
    """Set offsets of a group without members. Raises ClientError, naming the first partition that is refused."""

    def asked(place: Place) -> OffsetCommitRequestPartition:
        return OffsetCommitRequestPartition(
            partition_index=place[1], committed_offset=offsets[place], committed_metadata=metadata
        )

    request = OffsetCommitRequest(group_id=group, topics=_grouped(offsets, OffsetCommitRequestTopic, asked))
    answer = cluster.ask_coordinator(group, request, _codes, up_to=BY_NAME)
    _check_partitions(f"setting the offset of {group}", answer)


def forget(cluster: Cluster, group: str, places: Iterable[Place]) -> None:
    """Delete offsets of a group. Raises ClientError, naming the first partition that is refused."""
    topics = _grouped(places, OffsetDeleteRequestTopic, lambda place: OffsetDeleteRequestPartition(place[1]))
    answer = cluster.ask_coordinator(group, OffsetDeleteRequest(group, topics), lambda one: [one.error_code])
    check(f"deleting offsets of {group}", answer.error_code)
    _check_partitions(f"deleting the offset of {group}", answer)


def _codes(answer: Any) -> list[int]:
    return [one.error_code for topic in answer.topics for one in topic.partitions]


def _check_partitions(what: str, answer: Any) -> None:
    for topic in answer.topics:
        for one in topic.partitions:
            check(f"{what} in {topic.name}:{one.partition_index}", one.error_code)


def _grouped(places: Iterable[Place], kind: Callable[..., Any], partition: Callable[[Place], Any]) -> tuple[Any, ...]:
    """Places as the nested arrays of a request: topics, each with its partitions."""
    topics: dict[str, list[Any]] = defaultdict(list)
    for place in sorted(places):
        topics[place[0]].append(partition(place))
    return tuple(kind(name=name, partitions=tuple(those)) for name, those in topics.items())


class WrongUse(ClientError):  # noqa: N818  # it is what the user did, and reads as that
    """What was written on the command line cannot be meant. One line."""


def places_named(cluster: Cluster, texts: Iterable[str]) -> list[Place]:
    """The partitions that `TOPIC` and `TOPIC:0,1,2` name. Raises ClientError."""
    named: list[tuple[str, list[int] | None]] = [_named(text) for text in texts]
    there = partitions_of(cluster, sorted({topic for topic, _ in named}))
    found: set[Place] = set()
    for topic, numbers in named:
        for number in there[topic] if numbers is None else numbers:
            if number not in there[topic]:
                raise ClientError(f"topic {topic} has no partition {number}")
            found.add((topic, number))
    return sorted(found)


def _named(text: str) -> tuple[str, list[int] | None]:
    topic, colon, numbers = text.partition(":")
    if not colon:
        return topic, None
    if not topic or not all(number.isdigit() for number in numbers.split(",")):
        raise WrongUse(f"{text!r} will not do; it may be TOPIC or TOPIC:PARTITION,PARTITION")
    return topic, [int(number) for number in numbers.split(",")]
