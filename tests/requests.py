"""Requests that tests send, with what they leave out filled in; and what consumers say in them.

Offsets and partitions are given by topic: `{"orders": {0: 5}}` is offset 5 of partition 0.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from protocol.messages import consumer_protocol as embedded
from protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestCreatableTopic,
    CreateTopicsRequestCreatableTopicConfig,
)
from protocol.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
)
from protocol.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestResource,
)
from protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsRequestPartition, ListOffsetsRequestTopic
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from protocol.messages.produce import ProduceRequest, ProduceRequestPartitionData, ProduceRequestTopicData
from protocol.messages.share_acknowledge import (
    ShareAcknowledgeRequestAcknowledgementBatch,
    ShareAcknowledgeRequestPartition,
    ShareAcknowledgeRequestTopic,
)
from protocol.messages.share_fetch import (
    ShareFetchRequestAcknowledgementBatch,
    ShareFetchRequestPartition,
    ShareFetchRequestTopic,
)
from protocol.messages.sync_group import SyncGroupRequestAssignment
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

Offsets = Mapping[str, Mapping[int, int]]
Acknowledgements = Mapping[tuple[bytes, int], Iterable[tuple[int, int, tuple[int, ...]]]]
"""By topic id and partition: the first and the last offset of a range, and what becomes of its records."""
RANGE = (JoinGroupRequestProtocol("range", b""),)


def join(
    group: str,
    member_id: str = "",
    instance_id: str | None = None,
    *,
    session_ms: int = 10_000,
    rebalance_ms: int = 10_000,
    protocols: Sequence[JoinGroupRequestProtocol] = RANGE,
) -> JoinGroupRequest:
    """A JoinGroup of a consumer."""
    return JoinGroupRequest(group, session_ms, rebalance_ms, member_id, instance_id, "consumer", tuple(protocols))


def commit(group: str, offsets: Offsets, generation: int = -1, **fields: Any) -> OffsetCommitRequest:
    """An OffsetCommit; without a generation it is that of a tool, which is no member."""
    topics = tuple(
        OffsetCommitRequestTopic(name, partitions=tuple(OffsetCommitRequestPartition(*each) for each in parts.items()))
        for name, parts in offsets.items()
    )
    return OffsetCommitRequest(group, generation, topics=topics, **fields)


def commit_in_transaction(
    transactional_id: str, group: str, producer: tuple[int, int], offsets: Offsets
) -> TxnOffsetCommitRequest:
    """A TxnOffsetCommit of a producer id and its epoch."""
    topics = tuple(
        TxnOffsetCommitRequestTopic(name, tuple(TxnOffsetCommitRequestPartition(*each) for each in parts.items()))
        for name, parts in offsets.items()
    )
    return TxnOffsetCommitRequest(transactional_id, group, *producer, topics=topics)


def fetch_offsets(
    group: str, partitions: Mapping[str, Iterable[int]] | None = None, **fields: Any
) -> OffsetFetchRequest:
    """An OffsetFetch for one group, of version 8 and above; without partitions for all that it has."""
    topics = (
        None
        if partitions is None
        else tuple(
            OffsetFetchRequestTopics(topic, partition_indexes=tuple(numbers)) for topic, numbers in partitions.items()
        )
    )
    return OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group, topics=topics),), **fields)


def produce(
    topic: str, data: Mapping[int, bytes], transactional_id: str | None = None, *, acks: int = -1
) -> ProduceRequest:
    """A Produce of one batch for each of these partitions."""
    parts = tuple(ProduceRequestPartitionData(partition, records) for partition, records in data.items())
    return ProduceRequest(transactional_id, acks, 1_000, (ProduceRequestTopicData(topic, partition_data=parts),))


def fetch(topic: str, partition: int = 0, offset: int = 0, **fields: Any) -> FetchRequest:
    """A Fetch of one partition, which does not wait unless it is told to."""
    return fetch_all(topic, {partition: offset}, **fields)


def fetch_all(topic: str, offsets: Mapping[int, int], **fields: Any) -> FetchRequest:
    """The same of several partitions."""
    size, epoch = fields.pop("partition_max_bytes", 1_000_000), fields.pop("current_leader_epoch", -1)
    rows = tuple(FetchRequestPartition(at, epoch, offset, partition_max_bytes=size) for at, offset in offsets.items())
    topics = (FetchRequestTopic(topic, partitions=rows),)
    return FetchRequest(**{"max_wait_ms": 0, "min_bytes": 1, "topics": topics, **fields})


def share_fetch_topics(acknowledgements: Acknowledgements) -> tuple[ShareFetchRequestTopic, ...]:
    """What a ShareFetch says of these partitions."""
    topics: dict[bytes, list[ShareFetchRequestPartition]] = {}
    for (topic_id, index), ranges in acknowledgements.items():
        batches = tuple([ShareFetchRequestAcknowledgementBatch(*one) for one in ranges])
        topics.setdefault(topic_id, []).append(ShareFetchRequestPartition(index, batches))
    return tuple([ShareFetchRequestTopic(topic_id, tuple(partitions)) for topic_id, partitions in topics.items()])


def share_acknowledge_topics(acknowledgements: Acknowledgements) -> tuple[ShareAcknowledgeRequestTopic, ...]:
    """The same in a ShareAcknowledge."""
    topics: dict[bytes, list[ShareAcknowledgeRequestPartition]] = {}
    for (topic_id, index), ranges in acknowledgements.items():
        batches = tuple([ShareAcknowledgeRequestAcknowledgementBatch(*one) for one in ranges])
        topics.setdefault(topic_id, []).append(ShareAcknowledgeRequestPartition(index, batches))
    return tuple([ShareAcknowledgeRequestTopic(topic_id, tuple(partitions)) for topic_id, partitions in topics.items()])


def list_offsets(topic: str, times: Mapping[int, int], **fields: Any) -> ListOffsetsRequest:
    """A ListOffsets of a time for each of these partitions."""
    rows = tuple(ListOffsetsRequestPartition(partition, timestamp=time) for partition, time in times.items())
    return ListOffsetsRequest(-1, topics=(ListOffsetsRequestTopic(topic, rows),), **fields)


def delete_records(topic: str, offsets: Mapping[int, int]) -> DeleteRecordsRequest:
    rows = tuple(DeleteRecordsRequestPartition(*each) for each in offsets.items())
    return DeleteRecordsRequest((DeleteRecordsRequestTopic(topic, rows),), 1_000)


def delete_offsets(group: str, partitions: Mapping[str, Iterable[int]]) -> OffsetDeleteRequest:
    """An OffsetDelete."""
    topics = tuple(
        OffsetDeleteRequestTopic(topic, tuple(map(OffsetDeleteRequestPartition, numbers)))
        for topic, numbers in partitions.items()
    )
    return OffsetDeleteRequest(group, topics)


def create_topics(
    counts: Mapping[str, int], configs: Mapping[str, str | None] | None = None, **fields: Any
) -> CreateTopicsRequest:
    """A CreateTopics of so many partitions for each topic, all with the same settings."""
    settings = tuple(CreateTopicsRequestCreatableTopicConfig(*each) for each in (configs or {}).items())
    topics = (CreateTopicsRequestCreatableTopic(name, count, 1, configs=settings) for name, count in counts.items())
    return CreateTopicsRequest(tuple(topics), **fields)


def alter_configs(kind: int, name: str, values: Mapping[str, str | None]) -> IncrementalAlterConfigsRequest:
    """An IncrementalAlterConfigs of one resource. None deletes a setting."""
    changes = (IncrementalAlterConfigsRequestAlterableConfig(key, int(v is None), v) for key, v in values.items())
    return IncrementalAlterConfigsRequest((IncrementalAlterConfigsRequestResource(kind, name, tuple(changes)),))


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
