"""Offsets at a time, or at an end of a partition, from the leaders of many partitions at once."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, Final

from coordinator.client.cluster import Cluster, check
from protocol.errors import ErrorCode
from protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)

EARLIEST: Final = -2  # special timestamps of ListOffsets
LATEST: Final = -1
LIST_OFFSETS_TIMEOUT_MS: Final = 30_000
CONSUMER: Final = -1  # the replica id of a consumer

TopicPartition = tuple[str, int]


def list_offsets(
    cluster: Cluster, partitions: Iterable[TopicPartition], time_ms: int, *, is_strict: bool = False
) -> dict[TopicPartition, int]:
    """List the offsets at EARLIEST or LATEST, or of the first record at or after `time_ms`: -1 if there is none.

    Partitions that do not exist any more, have no leader now or cannot be read are left out; `is_strict` refuses the
    last two. Raises ClientError.
    """
    found: dict[TopicPartition, int] = {}
    leaders = _group_by_leader(cluster, partitions, is_strict=is_strict)
    brokers = cluster.brokers(leaders.keys()) if leaders else {}
    for leader, those in leaders.items():
        request = ListOffsetsRequest(
            replica_id=CONSUMER,
            topics=group_by_topic(those, ListOffsetsRequestTopic, lambda one: _at(one[1], time_ms)),
            timeout_ms=LIST_OFFSETS_TIMEOUT_MS,
        )
        for topic in brokers[leader].ask(request).topics:
            for one in topic.partitions:
                if not one.error_code:
                    found[topic.name, one.partition_index] = one.offset
                elif is_strict:
                    check(f"read {topic.name}:{one.partition_index}", one.error_code)
    return found


def _at(partition: int, time_ms: int) -> ListOffsetsRequestPartition:
    return ListOffsetsRequestPartition(partition_index=partition, timestamp=time_ms)


def _group_by_leader(
    cluster: Cluster, partitions: Iterable[TopicPartition], *, is_strict: bool
) -> dict[int, list[TopicPartition]]:
    wanted = set(partitions)
    led: dict[int, list[TopicPartition]] = defaultdict(list)
    for topic in cluster.metadata(sorted({name for name, _ in wanted})).topics if wanted else ():
        for one in topic.partitions:
            key = (str(topic.name), one.partition_index)
            if key in wanted and one.leader_id >= 0:
                led[one.leader_id].append(key)
            elif key in wanted and is_strict:
                check(f"read {topic.name}:{one.partition_index}", ErrorCode.LEADER_NOT_AVAILABLE)
    return led


def group_by_topic(
    partitions: Iterable[TopicPartition], kind: Callable[..., Any], part: Callable[[TopicPartition], Any]
) -> tuple[Any, ...]:
    """Return partitions as the nested arrays of a request: topics, each with its partitions."""
    topics: dict[str, list[Any]] = defaultdict(list)
    for place in sorted(partitions):
        topics[place[0]].append(part(place))
    return tuple(kind(name=name, partitions=tuple(those)) for name, those in topics.items())
