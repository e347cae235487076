"""The bytes of the facts about streams groups, drawn next to Kafka's JSON: every line has its twin there."""

from typing import Final

from coordinator.core import streams_record_types as t
from protocol.schema import Field, Schema
from protocol.wire import INT8, INT16, INT32, INT64, NULLABLE_STRING, STRING, UINT16, Array, Nullable, NullableArray

GROUP = (Field("group_id", STRING),)
GROUP_MEMBER = (Field("group_id", STRING), Field("member_id", STRING))
KEY_VALUE = (Field("key", STRING), Field("value", STRING))

METADATA_VALUE = Schema(t.StreamsGroupMetadataValue, (
    Field("epoch", INT32),
    Field("metadata_hash", INT64),
    Field("validated_topology_epoch", INT32, tag=0),
    Field("last_assignment_configs", NullableArray(
        Schema(t.StreamsGroupMetadataValueLastAssignmentConfig, KEY_VALUE),
    ), tag=1),
))  # fmt: skip

MEMBER_METADATA_VALUE = Schema(t.StreamsGroupMemberMetadataValue, (
    Field("instance_id", NULLABLE_STRING),
    Field("rack_id", NULLABLE_STRING),
    Field("client_id", STRING),
    Field("client_host", STRING),
    Field("rebalance_timeout_ms", INT32),
    Field("topology_epoch", INT32),
    Field("process_id", STRING),
    Field("user_endpoint", Nullable(Schema(t.StreamsGroupMemberMetadataValueEndpoint, (
        Field("host", STRING),
        Field("port", UINT16),
    )))),
    Field("client_tags", Array(Schema(t.StreamsGroupMemberMetadataValueKeyValue, KEY_VALUE))),
))  # fmt: skip

TARGET_ASSIGNMENT_METADATA_VALUE = Schema(t.StreamsGroupTargetAssignmentMetadataValue, (
    Field("assignment_epoch", INT32),
    Field("assignment_timestamp", INT64, tag=0),
))  # fmt: skip

TARGET_TASK_IDS = Schema(t.StreamsGroupTargetAssignmentMemberValueTaskIds, (
    Field("subtopology_id", STRING),
    Field("partitions", Array(INT32)),
))  # fmt: skip

TARGET_ASSIGNMENT_MEMBER_VALUE = Schema(t.StreamsGroupTargetAssignmentMemberValue, (
    Field("active_tasks", Array(TARGET_TASK_IDS)),
    Field("standby_tasks", Array(TARGET_TASK_IDS)),
    Field("warmup_tasks", Array(TARGET_TASK_IDS)),
))  # fmt: skip

CURRENT_TASK_IDS = Schema(t.StreamsGroupCurrentMemberAssignmentValueTaskIds, (
    Field("subtopology_id", STRING),
    Field("partitions", Array(INT32)),
    Field("assignment_epochs", NullableArray(INT32), tag=0),
))  # fmt: skip

CURRENT_MEMBER_ASSIGNMENT_VALUE = Schema(t.StreamsGroupCurrentMemberAssignmentValue, (
    Field("member_epoch", INT32),
    Field("previous_member_epoch", INT32),
    Field("state", INT8),
    Field("active_tasks", Array(CURRENT_TASK_IDS)),
    Field("standby_tasks", Array(CURRENT_TASK_IDS)),
    Field("warmup_tasks", Array(CURRENT_TASK_IDS)),
    Field("active_tasks_pending_revocation", Array(CURRENT_TASK_IDS)),
    Field("standby_tasks_pending_revocation", Array(CURRENT_TASK_IDS)),
    Field("warmup_tasks_pending_revocation", Array(CURRENT_TASK_IDS)),
))  # fmt: skip

TOPIC_INFO = Schema(t.StreamsGroupTopologyValueTopicInfo, (
    Field("name", STRING),
    Field("partitions", INT32),
    Field("replication_factor", INT16),
    Field("topic_configs", Array(Schema(t.StreamsGroupTopologyValueTopicConfig, KEY_VALUE))),
))  # fmt: skip

TOPOLOGY_VALUE = Schema(t.StreamsGroupTopologyValue, (
    Field("epoch", INT32),
    Field("subtopologies", Array(Schema(t.StreamsGroupTopologyValueSubtopology, (
        Field("subtopology_id", STRING),
        Field("source_topics", Array(STRING)),
        Field("source_topic_regex", Array(STRING)),
        Field("state_changelog_topics", Array(TOPIC_INFO)),
        Field("repartition_sink_topics", Array(STRING)),
        Field("repartition_source_topics", Array(TOPIC_INFO)),
        Field("copartition_groups", Array(Schema(t.StreamsGroupTopologyValueCopartitionGroup, (
            Field("source_topics", Array(INT16)),
            Field("source_topic_regex", Array(INT16)),
            Field("repartition_source_topics", Array(INT16)),
        )))),
    )))),
))  # fmt: skip

SCHEMAS: Final = (  # the type of the record, its key, its value in version 0
    (17, Schema(t.StreamsGroupMetadataKey, GROUP), METADATA_VALUE),
    (19, Schema(t.StreamsGroupMemberMetadataKey, GROUP_MEMBER), MEMBER_METADATA_VALUE),
    (20, Schema(t.StreamsGroupTargetAssignmentMetadataKey, GROUP), TARGET_ASSIGNMENT_METADATA_VALUE),
    (21, Schema(t.StreamsGroupTargetAssignmentMemberKey, GROUP_MEMBER), TARGET_ASSIGNMENT_MEMBER_VALUE),
    (22, Schema(t.StreamsGroupCurrentMemberAssignmentKey, GROUP_MEMBER), CURRENT_MEMBER_ASSIGNMENT_VALUE),
    (23, Schema(t.StreamsGroupTopologyKey, GROUP), TOPOLOGY_VALUE),
)
