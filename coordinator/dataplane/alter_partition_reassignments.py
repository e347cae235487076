"""AlterPartitionReassignments: a partition can be given the replicas that it has, and no others.

Shown by tests/conformance/stories/admin_cluster.py.
"""

from coordinator.core.decision import Steps
from coordinator.core.pace import chain_steps, map_in_steps
from coordinator.core.refusal import Refusal
from coordinator.dataplane.brokers import replicas_of
from coordinator.dataplane.state import Env, State
from protocol.errors import ErrorCode
from protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsRequestReassignablePartition,
    AlterPartitionReassignmentsRequestReassignableTopic,
    AlterPartitionReassignmentsResponse,
    AlterPartitionReassignmentsResponseReassignablePartitionResponse,
    AlterPartitionReassignmentsResponseReassignableTopicResponse,
)


def alter_partition_reassignments(
    state: State, request: AlterPartitionReassignmentsRequest, env: Env
) -> Steps[AlterPartitionReassignmentsResponse]:
    """Answer for each partition. The message of a response without topics is empty, as in Kafka."""

    def alter(
        topic: AlterPartitionReassignmentsRequestReassignableTopic,
    ) -> Steps[AlterPartitionReassignmentsResponseReassignableTopicResponse]:
        results = yield from map_in_steps(topic.partitions, lambda one: _result(state, topic.name, one, request, env))
        return AlterPartitionReassignmentsResponseReassignableTopicResponse(topic.name, tuple(results))

    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None if request.topics else "",
        responses=tuple((yield from chain_steps(request.topics, alter))),
    )


def _result(
    state: State,
    topic: str,
    one: AlterPartitionReassignmentsRequestReassignablePartition,
    request: AlterPartitionReassignmentsRequest,
    env: Env,
) -> AlterPartitionReassignmentsResponseReassignablePartitionResponse:
    wrong = _validate(state, topic, one, request.allow_replication_factor_change, env)
    error, message = (ErrorCode.NONE, None) if wrong is None else (wrong.error, wrong.message)
    return AlterPartitionReassignmentsResponseReassignablePartitionResponse(one.partition_index, error, message)


def _validate(
    state: State,
    topic: str,
    one: AlterPartitionReassignmentsRequestReassignablePartition,
    may_change_count: bool,
    env: Env,
) -> Refusal | None:
    if not state.has(topic, one.partition_index):
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    if one.replicas is None:
        return Refusal(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    ids = one.replicas
    if not ids or len(set(ids)) != len(ids) or not {broker.node_id for broker in env.brokers}.issuperset(ids):
        message = "The replicas are empty, or not different registered brokers."
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
    copies = state.catalog.topics_by_name[topic].replication_factor
    current = replicas_of(one.partition_index, copies, env.where.brokers)
    if len(ids) != len(current) and not may_change_count:
        return Refusal(ErrorCode.INVALID_REPLICATION_FACTOR, "The number of replicas may not change.")
    if set(ids) != set(current):
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "The replicas of a partition cannot be moved.")
    return None
