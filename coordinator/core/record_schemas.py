"""The bytes of the facts in `__consumer_offsets`, drawn next to Kafka's JSON: every line has its twin there.

A key is an INT16, its type, and a body that is never flexible. A value is an INT16, its version, and a body that is
flexible (compact, with tagged fields) from `flexible_since` on.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from coordinator.core import record_types as t
from coordinator.core.streams_record_schemas import SCHEMAS as STREAMS_SCHEMAS
from protocol.schema import Field, Message, Schema
from protocol.wire import BYTES, INT8, INT32, INT64, NULLABLE_STRING, STRING, UUID, Array, Nullable, NullableArray


class Kind(Struct, frozen=True):
    """One type of record: its key, its value, the versions of the value that are read, and the one that is written."""

    type: int
    key: Schema
    value: Schema
    reads: int = 0  # the highest version
    writes: int = 0
    flexible_since: int = 0


GROUP_MEMBER = (Field("group_id", STRING), Field("member_id", STRING))

OFFSET_COMMIT_VALUE = Schema(t.OffsetCommitValue, (
    Field("offset", INT64),
    Field("leader_epoch", INT32, since=3),
    Field("metadata", STRING),
    Field("commit_timestamp", INT64),
    Field("expire_timestamp", INT64, since=1, until=1),
    Field("topic_id", UUID, since=4, tag=0),
))  # fmt: skip

GROUP_METADATA_VALUE = Schema(t.GroupMetadataValue, (
    Field("protocol_type", STRING),
    Field("generation", INT32),
    Field("protocol", NULLABLE_STRING),
    Field("leader", NULLABLE_STRING),
    Field("current_state_timestamp", INT64, since=2),
    Field("members", Array(Schema(t.GroupMetadataValueMember, (
        Field("member_id", STRING),
        Field("group_instance_id", NULLABLE_STRING, since=3),
        Field("client_id", STRING),
        Field("client_host", STRING),
        Field("rebalance_timeout", INT32, since=1),
        Field("session_timeout", INT32),
        Field("subscription", BYTES),
        Field("assignment", BYTES),
    )))),
))  # fmt: skip

CONSUMER_GROUP_PARTITION_METADATA_VALUE = Schema(t.ConsumerGroupPartitionMetadataValue, (
    Field("topics", Array(Schema(t.ConsumerGroupPartitionMetadataValueTopic, (
        Field("topic_id", UUID),
        Field("topic_name", STRING),
        Field("num_partitions", INT32),
        Field("partition_metadata", Array(Schema(t.ConsumerGroupPartitionMetadataValuePartition, (
            Field("partition", INT32),
            Field("racks", Array(STRING)),
        )))),
    )))),
))  # fmt: skip

CONSUMER_GROUP_MEMBER_METADATA_VALUE = Schema(t.ConsumerGroupMemberMetadataValue, (
    Field("instance_id", NULLABLE_STRING),
    Field("rack_id", NULLABLE_STRING),
    Field("client_id", STRING),
    Field("client_host", STRING),
    Field("subscribed_topic_names", Array(STRING)),
    Field("subscribed_topic_regex", NULLABLE_STRING),
    Field("rebalance_timeout_ms", INT32),
    Field("server_assignor", NULLABLE_STRING),
    Field("classic_member_metadata", Nullable(Schema(t.ConsumerGroupMemberMetadataValueClassicMemberMetadata, (
        Field("session_timeout_ms", INT32),
        Field("supported_protocols", Array(Schema(t.ConsumerGroupMemberMetadataValueClassicProtocol, (
            Field("name", STRING),
            Field("metadata", BYTES),
        )))),
    ))), tag=0),
))  # fmt: skip

_CURRENT_PARTITIONS = Array(Schema(t.ConsumerGroupCurrentMemberAssignmentValueTopicPartitions, (
    Field("topic_id", UUID),
    Field("partitions", Array(INT32)),
    Field("assignment_epochs", NullableArray(INT32), tag=0),   # KIP-1251
)))  # fmt: skip

CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE = Schema(t.ConsumerGroupCurrentMemberAssignmentValue, (
    Field("member_epoch", INT32),
    Field("previous_member_epoch", INT32),
    Field("state", INT8),
    Field("assigned_partitions", _CURRENT_PARTITIONS),
    Field("partitions_pending_revocation", _CURRENT_PARTITIONS),
))  # fmt: skip

_TOPIC_PARTITIONS: Final = (Field("topic_id", UUID), Field("partitions", Array(INT32)))
_STATE_PARTITIONS: Final = Array(
    Schema(
        t.ShareGroupStatePartitionMetadataValueTopicPartitionsInfo,
        (Field("topic_id", UUID), Field("topic_name", STRING), Field("partitions", Array(INT32))),
    )
)

KINDS: Final[tuple[Kind, ...]] = (
    Kind(
        1,
        Schema(t.OffsetCommitKey, (Field("group", STRING), Field("topic", STRING), Field("partition", INT32))),
        OFFSET_COMMIT_VALUE,
        reads=4,
        writes=4,
        flexible_since=4,
    ),
    Kind(
        2,
        Schema(t.GroupMetadataKey, (Field("group", STRING),)),
        GROUP_METADATA_VALUE,
        reads=4,
        writes=3,
        flexible_since=4,
    ),
    Kind(
        3,
        Schema(t.ConsumerGroupMetadataKey, (Field("group_id", STRING),)),
        Schema(t.ConsumerGroupMetadataValue, (Field("epoch", INT32), Field("metadata_hash", INT64, tag=0))),
    ),
    Kind(
        4,
        Schema(t.ConsumerGroupPartitionMetadataKey, (Field("group_id", STRING),)),
        CONSUMER_GROUP_PARTITION_METADATA_VALUE,
    ),
    Kind(5, Schema(t.ConsumerGroupMemberMetadataKey, GROUP_MEMBER), CONSUMER_GROUP_MEMBER_METADATA_VALUE),
    Kind(
        6,
        Schema(t.ConsumerGroupTargetAssignmentMetadataKey, (Field("group_id", STRING),)),
        Schema(
            t.ConsumerGroupTargetAssignmentMetadataValue,
            (Field("assignment_epoch", INT32), Field("assignment_timestamp", INT64, tag=0)),
        ),
    ),
    Kind(
        7,
        Schema(t.ConsumerGroupTargetAssignmentMemberKey, GROUP_MEMBER),
        Schema(
            t.ConsumerGroupTargetAssignmentMemberValue,
            (
                Field(
                    "topic_partitions",
                    Array(
                        Schema(
                            t.ConsumerGroupTargetAssignmentMemberValueTopicPartition,
                            (Field("topic_id", UUID), Field("partitions", Array(INT32))),
                        )
                    ),
                ),
            ),
        ),
    ),
    Kind(
        8,
        Schema(t.ConsumerGroupCurrentMemberAssignmentKey, GROUP_MEMBER),
        CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE,
    ),
    Kind(
        10,
        Schema(t.ShareGroupMemberMetadataKey, GROUP_MEMBER),
        Schema(
            t.ShareGroupMemberMetadataValue,
            (
                Field("rack_id", NULLABLE_STRING),
                Field("client_id", STRING),
                Field("client_host", STRING),
                Field("subscribed_topic_names", Array(STRING)),
            ),
        ),
    ),
    Kind(
        11,
        Schema(t.ShareGroupMetadataKey, (Field("group_id", STRING),)),
        Schema(t.ShareGroupMetadataValue, (Field("epoch", INT32), Field("metadata_hash", INT64))),
    ),
    Kind(
        12,
        Schema(t.ShareGroupTargetAssignmentMetadataKey, (Field("group_id", STRING),)),
        Schema(
            t.ShareGroupTargetAssignmentMetadataValue,
            (Field("assignment_epoch", INT32), Field("assignment_timestamp", INT64, tag=0)),  # KIP-1263
        ),
    ),
    Kind(
        13,
        Schema(t.ShareGroupTargetAssignmentMemberKey, GROUP_MEMBER),
        Schema(
            t.ShareGroupTargetAssignmentMemberValue,
            (
                Field(
                    "topic_partitions",
                    Array(Schema(t.ShareGroupTargetAssignmentMemberValueTopicPartition, _TOPIC_PARTITIONS)),
                ),
            ),
        ),
    ),
    Kind(
        14,
        Schema(t.ShareGroupCurrentMemberAssignmentKey, GROUP_MEMBER),
        Schema(
            t.ShareGroupCurrentMemberAssignmentValue,
            (
                Field("member_epoch", INT32),
                Field("previous_member_epoch", INT32),
                Field("state", INT8),
                Field(
                    "assigned_partitions",
                    Array(Schema(t.ShareGroupCurrentMemberAssignmentValueTopicPartitions, _TOPIC_PARTITIONS)),
                ),
            ),
        ),
    ),
    Kind(
        15,
        Schema(t.ShareGroupStatePartitionMetadataKey, (Field("group_id", STRING),)),
        Schema(
            t.ShareGroupStatePartitionMetadataValue,
            (
                Field("initializing_topics", _STATE_PARTITIONS),
                Field("initialized_topics", _STATE_PARTITIONS),
                Field(
                    "deleting_topics",
                    Array(
                        Schema(
                            t.ShareGroupStatePartitionMetadataValueTopicInfo,
                            (Field("topic_id", UUID), Field("topic_name", STRING)),
                        )
                    ),
                ),
            ),
        ),
    ),
    Kind(
        16,
        Schema(t.ConsumerGroupRegularExpressionKey, (Field("group_id", STRING), Field("regular_expression", STRING))),
        Schema(
            t.ConsumerGroupRegularExpressionValue,
            (Field("topics", Array(STRING)), Field("version", INT64), Field("timestamp", INT64)),
        ),
    ),
    *(Kind(number, key, value) for number, key, value in STREAMS_SCHEMAS),
)

BY_TYPE: Final[Mapping[int, Kind]] = {0: KINDS[0]} | {kind.type: kind for kind in KINDS}
BY_KEY: Final[Mapping[type[Message], Kind]] = {kind.key.cls: kind for kind in KINDS}
