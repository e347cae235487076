"""The facts that `__consumer_offsets` holds about streams groups: types 17 and 19 to 23, by Kafka's names.

`record_schemas` draws their bytes. A key without a value is a tombstone.
"""

from protocol.schema import Message


class StreamsGroupMetadataKey(Message, frozen=True, gc=False):
    """Type 17: that a streams group exists."""

    group_id: str = ""


class StreamsGroupMetadataValueLastAssignmentConfig(Message, frozen=True, gc=False):
    key: str = ""
    value: str = ""


class StreamsGroupMetadataValue(Message, frozen=True, gc=False):
    epoch: int = 0
    metadata_hash: int = 0
    validated_topology_epoch: int = -1
    last_assignment_configs: tuple[StreamsGroupMetadataValueLastAssignmentConfig, ...] | None = None


class StreamsGroupMemberMetadataKey(Message, frozen=True, gc=False):
    """Type 19: a member, and what it says about itself."""

    group_id: str = ""
    member_id: str = ""


class StreamsGroupMemberMetadataValueEndpoint(Message, frozen=True, gc=False):
    host: str = ""
    port: int = 0


class StreamsGroupMemberMetadataValueKeyValue(Message, frozen=True, gc=False):
    key: str = ""
    value: str = ""


class StreamsGroupMemberMetadataValue(Message, frozen=True, gc=False):
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = 0
    process_id: str = ""
    user_endpoint: StreamsGroupMemberMetadataValueEndpoint | None = None
    client_tags: tuple[StreamsGroupMemberMetadataValueKeyValue, ...] = ()


class StreamsGroupTargetAssignmentMetadataKey(Message, frozen=True, gc=False):
    """Type 20: the epoch of the target assignment."""

    group_id: str = ""


class StreamsGroupTargetAssignmentMetadataValue(Message, frozen=True, gc=False):
    assignment_epoch: int = 0
    assignment_timestamp: int = 0


class StreamsGroupTargetAssignmentMemberKey(Message, frozen=True, gc=False):
    """Type 21: the tasks that one member shall have."""

    group_id: str = ""
    member_id: str = ""


class StreamsGroupTargetAssignmentMemberValueTaskIds(Message, frozen=True, gc=False):
    subtopology_id: str = ""
    partitions: tuple[int, ...] = ()


class StreamsGroupTargetAssignmentMemberValue(Message, frozen=True, gc=False):
    active_tasks: tuple[StreamsGroupTargetAssignmentMemberValueTaskIds, ...] = ()
    standby_tasks: tuple[StreamsGroupTargetAssignmentMemberValueTaskIds, ...] = ()
    warmup_tasks: tuple[StreamsGroupTargetAssignmentMemberValueTaskIds, ...] = ()


class StreamsGroupCurrentMemberAssignmentKey(Message, frozen=True, gc=False):
    """Type 22: the tasks that one member has."""

    group_id: str = ""
    member_id: str = ""


class StreamsGroupCurrentMemberAssignmentValueTaskIds(Message, frozen=True, gc=False):
    subtopology_id: str = ""
    partitions: tuple[int, ...] = ()
    assignment_epochs: tuple[int, ...] | None = None


class StreamsGroupCurrentMemberAssignmentValue(Message, frozen=True, gc=False):
    member_epoch: int = 0
    previous_member_epoch: int = 0
    state: int = 0
    active_tasks: tuple[StreamsGroupCurrentMemberAssignmentValueTaskIds, ...] = ()
    standby_tasks: tuple[StreamsGroupCurrentMemberAssignmentValueTaskIds, ...] = ()
    warmup_tasks: tuple[StreamsGroupCurrentMemberAssignmentValueTaskIds, ...] = ()
    active_tasks_pending_revocation: tuple[StreamsGroupCurrentMemberAssignmentValueTaskIds, ...] = ()
    standby_tasks_pending_revocation: tuple[StreamsGroupCurrentMemberAssignmentValueTaskIds, ...] = ()
    warmup_tasks_pending_revocation: tuple[StreamsGroupCurrentMemberAssignmentValueTaskIds, ...] = ()


class StreamsGroupTopologyKey(Message, frozen=True, gc=False):
    """Type 23: the topology of the application."""

    group_id: str = ""


class StreamsGroupTopologyValueTopicConfig(Message, frozen=True, gc=False):
    key: str = ""
    value: str = ""


class StreamsGroupTopologyValueTopicInfo(Message, frozen=True, gc=False):
    name: str = ""
    partitions: int = 0
    replication_factor: int = 0
    topic_configs: tuple[StreamsGroupTopologyValueTopicConfig, ...] = ()


class StreamsGroupTopologyValueCopartitionGroup(Message, frozen=True, gc=False):
    source_topics: tuple[int, ...] = ()
    source_topic_regex: tuple[int, ...] = ()
    repartition_source_topics: tuple[int, ...] = ()


class StreamsGroupTopologyValueSubtopology(Message, frozen=True, gc=False):
    subtopology_id: str = ""
    source_topics: tuple[str, ...] = ()
    source_topic_regex: tuple[str, ...] = ()
    state_changelog_topics: tuple[StreamsGroupTopologyValueTopicInfo, ...] = ()
    repartition_sink_topics: tuple[str, ...] = ()
    repartition_source_topics: tuple[StreamsGroupTopologyValueTopicInfo, ...] = ()
    copartition_groups: tuple[StreamsGroupTopologyValueCopartitionGroup, ...] = ()


class StreamsGroupTopologyValue(Message, frozen=True, gc=False):
    epoch: int = 0
    subtopologies: tuple[StreamsGroupTopologyValueSubtopology, ...] = ()
