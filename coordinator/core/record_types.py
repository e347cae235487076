"""The facts that `__consumer_offsets` holds: one class for each key and each value, by Kafka's names in snake case.

Types 0-2 are offsets and classic groups, 3-8 and 16 are consumer groups (KIP-848), 10-15 share groups (KIP-932). A key
without a value is a tombstone. Field by field these are Kafka's records; `record_schemas` draws their bytes.
"""

from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import final

from msgspec import Struct

from coordinator.core import streams_record_types as streams
from coordinator.core.topics import NO_ID
from protocol.schema import Message


class OffsetCommitKey(Message, frozen=True, gc=False):
    """Type 1; type 0 has the same body and is only read."""

    group: str = ""
    topic: str = ""
    partition: int = 0


class OffsetCommitValue(Message, frozen=True, gc=False):
    """A committed offset. What is -1 (or the zero id) was not given."""

    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp: int = -1
    expire_timestamp: int = -1
    topic_id: bytes = NO_ID


class GroupMetadataKey(Message, frozen=True, gc=False):
    """Type 2: a classic group."""

    group: str = ""


class GroupMetadataValueMember(Message, frozen=True, gc=False):
    """One member of a classic group, as of its last generation."""

    member_id: str = ""
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout: int = -1
    session_timeout: int = 0
    subscription: bytes = b""
    assignment: bytes = b""


class GroupMetadataValue(Message, frozen=True, gc=False):
    """A classic group; `protocol_type` is "" for none."""

    protocol_type: str = ""
    generation: int = 0
    protocol: str | None = None
    leader: str | None = None
    current_state_timestamp: int = -1
    members: tuple[GroupMetadataValueMember, ...] = ()


class ConsumerGroupMetadataKey(Message, frozen=True, gc=False):
    """Type 3: that a consumer group exists."""

    group_id: str = ""


class ConsumerGroupMetadataValue(Message, frozen=True, gc=False):
    epoch: int = 0
    metadata_hash: int = 0


class ConsumerGroupPartitionMetadataKey(Message, frozen=True, gc=False):
    """Type 4: the topics that a group saw. Up to Kafka 4.0; later only its tombstone is written."""

    group_id: str = ""


class ConsumerGroupPartitionMetadataValuePartition(Message, frozen=True, gc=False):
    partition: int = 0
    racks: tuple[str, ...] = ()


class ConsumerGroupPartitionMetadataValueTopic(Message, frozen=True, gc=False):
    topic_id: bytes = NO_ID
    topic_name: str = ""
    num_partitions: int = 0
    partition_metadata: tuple[ConsumerGroupPartitionMetadataValuePartition, ...] = ()


class ConsumerGroupPartitionMetadataValue(Message, frozen=True, gc=False):
    topics: tuple[ConsumerGroupPartitionMetadataValueTopic, ...] = ()


class ConsumerGroupMemberMetadataKey(Message, frozen=True, gc=False):
    """Type 5: who a member is, and what it subscribes to."""

    group_id: str = ""
    member_id: str = ""


class ConsumerGroupMemberMetadataValueClassicProtocol(Message, frozen=True, gc=False):
    name: str = ""
    metadata: bytes = b""


class ConsumerGroupMemberMetadataValueClassicMemberMetadata(Message, frozen=True, gc=False):
    """Of a member that speaks the classic protocol."""

    session_timeout_ms: int = 0
    supported_protocols: tuple[ConsumerGroupMemberMetadataValueClassicProtocol, ...] = ()


class ConsumerGroupMemberMetadataValue(Message, frozen=True, gc=False):
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic_member_metadata: ConsumerGroupMemberMetadataValueClassicMemberMetadata | None = None


class ConsumerGroupTargetAssignmentMetadataKey(Message, frozen=True, gc=False):
    """Type 6: the epoch of the target assignment."""

    group_id: str = ""


class ConsumerGroupTargetAssignmentMetadataValue(Message, frozen=True, gc=False):
    assignment_epoch: int = 0
    assignment_timestamp: int = 0


class ConsumerGroupTargetAssignmentMemberKey(Message, frozen=True, gc=False):
    """Type 7: what one member shall have."""

    group_id: str = ""
    member_id: str = ""


class ConsumerGroupTargetAssignmentMemberValueTopicPartition(Message, frozen=True, gc=False):
    topic_id: bytes = NO_ID
    partitions: tuple[int, ...] = ()


class ConsumerGroupTargetAssignmentMemberValue(Message, frozen=True, gc=False):
    topic_partitions: tuple[ConsumerGroupTargetAssignmentMemberValueTopicPartition, ...] = ()


class ConsumerGroupCurrentMemberAssignmentKey(Message, frozen=True, gc=False):
    """Type 8: what one member has."""

    group_id: str = ""
    member_id: str = ""


class ConsumerGroupCurrentMemberAssignmentValueTopicPartitions(Message, frozen=True, gc=False):
    """`assignment_epochs` runs beside `partitions` (KIP-1251); None when an older broker wrote it."""

    topic_id: bytes = NO_ID
    partitions: tuple[int, ...] = ()
    assignment_epochs: tuple[int, ...] | None = None


class ConsumerGroupCurrentMemberAssignmentValue(Message, frozen=True, gc=False):
    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: int = 0
    assigned_partitions: tuple[ConsumerGroupCurrentMemberAssignmentValueTopicPartitions, ...] = ()
    partitions_pending_revocation: tuple[ConsumerGroupCurrentMemberAssignmentValueTopicPartitions, ...] = ()


class ConsumerGroupRegularExpressionKey(Message, frozen=True, gc=False):
    """Type 16: what a pattern resolved to."""

    group_id: str = ""
    regular_expression: str = ""


class ConsumerGroupRegularExpressionValue(Message, frozen=True, gc=False):
    topics: tuple[str, ...] = ()
    version: int = 0
    timestamp: int = 0


class ShareGroupMemberMetadataKey(Message, frozen=True, gc=False):
    """Type 10: who a member of a share group is, and what it subscribes to."""

    group_id: str = ""
    member_id: str = ""


class ShareGroupMemberMetadataValue(Message, frozen=True, gc=False):
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()


class ShareGroupMetadataKey(Message, frozen=True, gc=False):
    """Type 11: that a share group exists."""

    group_id: str = ""


class ShareGroupMetadataValue(Message, frozen=True, gc=False):
    epoch: int = 0
    metadata_hash: int = 0


class ShareGroupTargetAssignmentMetadataKey(Message, frozen=True, gc=False):
    """Type 12: the epoch of a share group's target assignment."""

    group_id: str = ""


class ShareGroupTargetAssignmentMetadataValue(Message, frozen=True, gc=False):
    assignment_epoch: int = 0
    assignment_timestamp: int = 0


class ShareGroupTargetAssignmentMemberKey(Message, frozen=True, gc=False):
    """Type 13: what one member of a share group shall read."""

    group_id: str = ""
    member_id: str = ""


class ShareGroupTargetAssignmentMemberValueTopicPartition(Message, frozen=True, gc=False):
    topic_id: bytes = NO_ID
    partitions: tuple[int, ...] = ()


class ShareGroupTargetAssignmentMemberValue(Message, frozen=True, gc=False):
    topic_partitions: tuple[ShareGroupTargetAssignmentMemberValueTopicPartition, ...] = ()


class ShareGroupCurrentMemberAssignmentKey(Message, frozen=True, gc=False):
    """Type 14: what one member of a share group reads."""

    group_id: str = ""
    member_id: str = ""


class ShareGroupCurrentMemberAssignmentValueTopicPartitions(Message, frozen=True, gc=False):
    topic_id: bytes = NO_ID
    partitions: tuple[int, ...] = ()


class ShareGroupCurrentMemberAssignmentValue(Message, frozen=True, gc=False):
    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: int = 0
    assigned_partitions: tuple[ShareGroupCurrentMemberAssignmentValueTopicPartitions, ...] = ()


class ShareGroupStatePartitionMetadataKey(Message, frozen=True, gc=False):
    """Type 15: the partitions of which the share coordinator has the state."""

    group_id: str = ""


class ShareGroupStatePartitionMetadataValueTopicPartitionsInfo(Message, frozen=True, gc=False):
    topic_id: bytes = NO_ID
    topic_name: str = ""
    partitions: tuple[int, ...] = ()


class ShareGroupStatePartitionMetadataValueTopicInfo(Message, frozen=True, gc=False):
    topic_id: bytes = NO_ID
    topic_name: str = ""


class ShareGroupStatePartitionMetadataValue(Message, frozen=True, gc=False):
    """Partitions of which the state is being begun, those of which it exists, and topics of which it is being ended."""

    initializing_topics: tuple[ShareGroupStatePartitionMetadataValueTopicPartitionsInfo, ...] = ()
    initialized_topics: tuple[ShareGroupStatePartitionMetadataValueTopicPartitionsInfo, ...] = ()
    deleting_topics: tuple[ShareGroupStatePartitionMetadataValueTopicInfo, ...] = ()


class UnknownKey(Message, frozen=True, gc=False):
    """A key of a type that nobody here knows, of a later version of Kafka. Kept as bytes, and skipped."""

    type: int = -1
    body: bytes = b""


Key = (
    OffsetCommitKey
    | GroupMetadataKey
    | ConsumerGroupMetadataKey
    | ConsumerGroupPartitionMetadataKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupTargetAssignmentMetadataKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupCurrentMemberAssignmentKey
    | ConsumerGroupRegularExpressionKey
    | streams.StreamsGroupMetadataKey
    | streams.StreamsGroupMemberMetadataKey
    | streams.StreamsGroupTargetAssignmentMetadataKey
    | streams.StreamsGroupTargetAssignmentMemberKey
    | streams.StreamsGroupCurrentMemberAssignmentKey
    | streams.StreamsGroupTopologyKey
    | ShareGroupMemberMetadataKey
    | ShareGroupMetadataKey
    | ShareGroupTargetAssignmentMetadataKey
    | ShareGroupTargetAssignmentMemberKey
    | ShareGroupCurrentMemberAssignmentKey
    | ShareGroupStatePartitionMetadataKey
    | UnknownKey
)
Value = (
    OffsetCommitValue
    | GroupMetadataValue
    | ConsumerGroupMetadataValue
    | ConsumerGroupPartitionMetadataValue
    | ConsumerGroupMemberMetadataValue
    | ConsumerGroupTargetAssignmentMetadataValue
    | ConsumerGroupTargetAssignmentMemberValue
    | ConsumerGroupCurrentMemberAssignmentValue
    | ConsumerGroupRegularExpressionValue
    | streams.StreamsGroupMetadataValue
    | streams.StreamsGroupMemberMetadataValue
    | streams.StreamsGroupTargetAssignmentMetadataValue
    | streams.StreamsGroupTargetAssignmentMemberValue
    | streams.StreamsGroupCurrentMemberAssignmentValue
    | streams.StreamsGroupTopologyValue
    | ShareGroupMemberMetadataValue
    | ShareGroupMetadataValue
    | ShareGroupTargetAssignmentMetadataValue
    | ShareGroupTargetAssignmentMemberValue
    | ShareGroupCurrentMemberAssignmentValue
    | ShareGroupStatePartitionMetadataValue
    | bytes  # of an UnknownKey
)


class Record(Struct, frozen=True, gc=False):
    """One fact; a tombstone when it has no value."""

    key: Key
    value: Value | None


class EncodedRecord(Record, frozen=True, gc=False):
    """A record with the bytes of its key and its value: one of many that are written together, and encoded before."""

    written: tuple[bytes, bytes | None]


@final
class OffsetCommits(Struct, frozen=True, gc=False):
    """Committed offsets of one group and one topic, in columns. They stand for a `Record` each, in this order.

    Nearly all that is ever written is of this form, and a commit of many partitions then needs few objects. There is no
    metadata and no expiry, and the topic has an id.
    """

    group: str
    topic: str
    topic_id: bytes
    commit_timestamp: int
    partitions: tuple[int, ...]
    offsets: tuple[int, ...]
    leader_epochs: tuple[int, ...]

    def values(self) -> list[OffsetCommitValue]:
        """Return the value of each partition."""
        shared = "", self.commit_timestamp, -1, self.topic_id
        return list(map(OffsetCommitValue, self.offsets, self.leader_epochs, *map(repeat, shared)))

    def values_by_partition(self) -> "zip[tuple[int, OffsetCommitValue]]":
        """Return the pairs of partition and value."""
        return zip(self.partitions, self.values(), strict=True)

    def cut(self, at: int) -> "tuple[OffsetCommits, OffsetCommits]":
        """Return the first `at` of them, and the others."""
        columns = self.partitions, self.offsets, self.leader_epochs
        shared = self.group, self.topic, self.topic_id, self.commit_timestamp
        first, others = [column[:at] for column in columns], [column[at:] for column in columns]
        return OffsetCommits(*shared, *first), OffsetCommits(*shared, *others)


def count_records(facts: Iterable[Record | OffsetCommits]) -> int:
    """Return how many records state the facts."""
    count = 0
    for fact in facts:
        count += len(fact.partitions) if type(fact) is OffsetCommits else 1
    return count


def single_records(facts: Iterable[Record | OffsetCommits]) -> Iterator[Record]:
    """Yield a record for each fact that is stated."""
    for fact in facts:
        if type(fact) is OffsetCommits:
            for partition, value in fact.values_by_partition():
                yield Record(OffsetCommitKey(fact.group, fact.topic, partition), value)
        else:
            yield fact
