"""Committed offsets of groups, and the ends of partitions: fetched, committed, deleted. Not a subcommand."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from msgspec import Struct

from coordinator.cli.cluster import Cluster, UsageError, check
from coordinator.cli.parser import parse_integer
from coordinator.client import ClientError
from coordinator.client.cluster import NOT_READY, TRANSACTION
from coordinator.client.offsets import TopicPartition, group_by_topic
from coordinator.setting import INT_MAX
from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
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
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from protocol.schema import Message

BY_NAME: Final = 9  # the last version of OffsetCommit and OffsetFetch that names topics: later ones have ids
BEFORE_KIP_890: Final = 3  # the last version of all requests of transactions in which the client names the group first
TRANSACTION_MS: Final = 60_000  # after which the broker aborts a transaction that nobody ends
HAS_MEMBERS: Final = "the group has members: stop them first"


class CommittedOffset(Struct, frozen=True):
    """An offset that a group has committed."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int  # -1: unknown
    metadata: str


def fetch_offsets(cluster: Cluster, group: str) -> list[CommittedOffset]:
    """Fetch all offsets of a group, by topic and partition. An unknown group has none. Raises ClientError."""
    request = OffsetFetchRequest(
        group_id=group, topics=None, groups=(OffsetFetchRequestGroup(group_id=group, topics=None),)
    )
    response = cluster.ask_coordinator(group, request, lambda one: [_find_group(one).error_code], up_to=BY_NAME)
    found = _find_group(response)
    if found.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        return []
    check(f"fetch the offsets of {group}", found.error_code)
    return sorted(
        (
            CommittedOffset(
                topic.name, one.partition_index, one.committed_offset, one.committed_leader_epoch, one.metadata or ""
            )
            for topic in found.topics
            for one in topic.partitions
            if one.committed_offset >= 0
        ),
        key=lambda one: (one.topic, one.partition),
    )


def _find_group(response: Any) -> Any:
    """Return the part of an OffsetFetch response for the one group: up to version 7, that is the response itself."""
    return response.groups[0] if response.groups else response


def partitions_of(cluster: Cluster, topics: Sequence[str]) -> dict[str, list[int]]:
    """Return the partitions of topics. Raises BrokerError for an unknown topic."""
    found = {}
    for topic in cluster.metadata(topics).topics if topics else ():
        check(f"use topic {topic.name}", topic.error_code)
        found[str(topic.name)] = sorted(one.partition_index for one in topic.partitions)
    return found


def commit(cluster: Cluster, group: str, offsets: Mapping[TopicPartition, int], metadata: str = "") -> None:
    """Commit offsets for a group without members. Raises ClientError, naming the first partition that is refused."""
    commit_all(cluster, group, [CommittedOffset(*place, offset, -1, metadata) for place, offset in offsets.items()])


def commit_all(cluster: Cluster, group: str, offsets: Iterable[CommittedOffset]) -> None:
    """Commit offsets with leader epochs and metadata, for a group without members. Raises ClientError as `commit`."""
    by_place = {(one.topic, one.partition): one for one in offsets}

    def part(place: TopicPartition) -> OffsetCommitRequestPartition:
        one = by_place[place]
        return OffsetCommitRequestPartition(
            partition_index=place[1],
            committed_offset=one.offset,
            committed_leader_epoch=one.leader_epoch,
            committed_metadata=one.metadata,
        )

    request = OffsetCommitRequest(group_id=group, topics=group_by_topic(by_place, OffsetCommitRequestTopic, part))
    response = cluster.ask_coordinator(group, request, _find_codes, up_to=BY_NAME)
    _check_partitions(f"set the offset of {group}", response, {ErrorCode.UNKNOWN_MEMBER_ID: HAS_MEMBERS})


def commit_in_transaction(cluster: Cluster, group: str, portions: Iterable[Sequence[CommittedOffset]]) -> None:
    """Commit more offsets than one request takes, for a group without members: all of them, or none.

    A transaction of this name that was left open by an earlier run is aborted first. Raises ClientError.
    """
    name = f"muster-offsets-import-{group}"
    task = f"set the offsets of {group} in a transaction"

    def ask(request: Message) -> Any:
        response = cluster.ask_coordinator(
            name,
            request,
            lambda one: [one.error_code],
            up_to=BEFORE_KIP_890,
            key_type=TRANSACTION,
            not_ready=NOT_READY | {ErrorCode.CONCURRENT_TRANSACTIONS},
        )
        check(task, response.error_code)
        return response

    begun = ask(InitProducerIdRequest(name, TRANSACTION_MS))
    producer = name, begun.producer_id, begun.producer_epoch
    ask(AddOffsetsToTxnRequest(*producer, group))
    try:
        for portion in portions:
            _commit_portion(cluster, group, producer, portion)
    except ClientError:
        with suppress(ClientError):  # it ends by itself
            ask(EndTxnRequest(*producer, committed=False))
        raise
    ask(EndTxnRequest(*producer, committed=True))


def _commit_portion(
    cluster: Cluster, group: str, producer: tuple[str, int, int], offsets: Iterable[CommittedOffset]
) -> None:
    by_place = {(one.topic, one.partition): one for one in offsets}

    def part(place: TopicPartition) -> TxnOffsetCommitRequestPartition:
        one = by_place[place]
        return TxnOffsetCommitRequestPartition(place[1], one.offset, one.leader_epoch, one.metadata)

    name, producer_id, epoch = producer
    topics = group_by_topic(by_place, TxnOffsetCommitRequestTopic, part)
    request = TxnOffsetCommitRequest(name, group, producer_id, epoch, topics=topics)
    response = cluster.ask_coordinator(group, request, _find_codes, up_to=BEFORE_KIP_890)
    _check_partitions(f"set the offset of {group}", response, {ErrorCode.UNKNOWN_MEMBER_ID: HAS_MEMBERS})


def delete_offsets(cluster: Cluster, group: str, partitions: Iterable[TopicPartition]) -> None:
    """Delete offsets of a group. Raises ClientError, naming the first partition that is refused."""
    topics = group_by_topic(partitions, OffsetDeleteRequestTopic, lambda place: OffsetDeleteRequestPartition(place[1]))
    response = cluster.ask_coordinator(group, OffsetDeleteRequest(group, topics), lambda one: [one.error_code])
    check(f"delete the offsets of {group}", response.error_code)
    _check_partitions(f"delete the offset of {group}", response)


def _find_codes(response: Any) -> list[int]:
    return [one.error_code for topic in response.topics for one in topic.partitions]


def _check_partitions(task: str, response: Any, sentences: Mapping[int, str] | None = None) -> None:
    for topic in response.topics:
        for one in topic.partitions:
            check(f"{task} in {topic.name}:{one.partition_index}", one.error_code, sentences=sentences)


def no_partition(topic: str, number: int, count: int) -> str:
    """Return the complaint about a partition that a topic does not have."""
    return f"topic {topic} has no partition {number}: expected 0" + (f" to {count - 1}" if count > 1 else "")


def parse_partitions(cluster: Cluster, texts: Iterable[str]) -> list[TopicPartition]:
    """Return the partitions that `TOPIC` and `TOPIC:0,1,2` mean. Raises ClientError."""
    named: list[tuple[str, list[int] | None]] = [_parse_partition(text) for text in texts]
    there = partitions_of(cluster, sorted({topic for topic, _ in named}))
    found: set[TopicPartition] = set()
    for topic, numbers in named:
        for number in there[topic] if numbers is None else numbers:
            if number not in there[topic]:
                raise ClientError(no_partition(topic, number, len(there[topic])))
            found.add((topic, number))
    return sorted(found)


def _parse_partition(text: str) -> tuple[str, list[int] | None]:
    topic, colon, numbers = text.partition(":")
    if not colon:
        return topic, None
    try:
        partitions = [parse_integer(number) for number in numbers.split(",")]
    except ValueError:
        partitions = [-1]
    if not topic or not 0 <= min(partitions) <= max(partitions) <= INT_MAX:
        raise UsageError(f"invalid TOPIC {text!r}: expected TOPIC or TOPIC:PARTITION,PARTITION")
    return topic, partitions
