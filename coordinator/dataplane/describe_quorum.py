"""DescribeQuorum: the one voter of the metadata log is the first broker; the log is that of the catalog.

Shown by tests/conformance/stories/admin_cluster.py.
"""

from typing import Final

from coordinator.core.decision import Steps
from coordinator.core.pace import chain_steps, map_in_steps
from coordinator.dataplane.state import Env, State
from protocol.errors import ErrorCode
from protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
    DescribeQuorumResponseNode,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseReplicaState,
    DescribeQuorumResponseTopicData,
)

METADATA_TOPIC: Final = "__cluster_metadata"
_EPOCH: Final = 1  # of the leader: there has been one election
_MESSAGE: Final = "This server does not host this topic-partition."


def describe_quorum(state: State, request: DescribeQuorumRequest, env: Env) -> Steps[DescribeQuorumResponse]:
    """Describe partition 0 of the metadata topic, which is the only one there is."""

    def describe(topic: DescribeQuorumRequestTopicData) -> Steps[DescribeQuorumResponseTopicData]:
        indexes = [one.partition_index for one in topic.partitions]
        partitions = yield from map_in_steps(indexes, lambda index: _partition(state, topic.topic_name, index, env))
        return DescribeQuorumResponseTopicData(topic.topic_name, tuple(partitions))

    topics = yield from chain_steps(request.topics, describe)
    has_any = any(one.error_code == ErrorCode.NONE for topic in topics for one in topic.partitions)
    nodes = (DescribeQuorumResponseNode(env.brokers[0].node_id),) if has_any else ()
    return DescribeQuorumResponse(error_message="", topics=tuple(topics), nodes=nodes)


def _partition(state: State, topic: str, index: int, env: Env) -> DescribeQuorumResponsePartitionData:
    if (topic, index) != (METADATA_TOPIC, 0):
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return DescribeQuorumResponsePartitionData(index, error, _MESSAGE)
    node_id, end_offset, now_ms = env.brokers[0].node_id, state.runtime.ledger.log.end_offset, env.call.now_ms
    voter = DescribeQuorumResponseReplicaState(
        replica_id=node_id, log_end_offset=end_offset, last_fetch_timestamp=now_ms, last_caught_up_timestamp=now_ms
    )
    return DescribeQuorumResponsePartitionData(
        index,
        error_message="",
        leader_id=node_id,
        leader_epoch=_EPOCH,
        high_watermark=end_offset,
        current_voters=(voter,),
    )
