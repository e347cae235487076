"""ElectLeaders: every partition has its preferred leader, so no election is needed.

Shown by tests/conformance/stories/admin_cluster.py.
"""

from typing import Final

from coordinator.core.decision import Steps
from coordinator.core.pace import chain_steps, map_in_steps
from coordinator.core.response_budget import ResponseBudget
from coordinator.dataplane.state import Env, State
from protocol.errors import ErrorCode
from protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersRequestTopicPartitions,
    ElectLeadersResponse,
    ElectLeadersResponsePartitionResult,
    ElectLeadersResponseReplicaElectionResult,
)

PREFERRED, UNCLEAN = 0, 1
_NOT_NEEDED: Final = (ErrorCode.ELECTION_NOT_NEEDED, "The leader of the partition is the right one already.")
_UNKNOWN: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")


def elect_leaders(state: State, request: ElectLeadersRequest, env: Env) -> Steps[ElectLeadersResponse]:
    """Answer for each partition; where all are meant, name the topics and no partition, as Kafka does."""
    refused = None
    if request.election_type not in (PREFERRED, UNCLEAN):
        refused = (ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    elif request.topic_partitions is None:
        names = tuple(state.catalog.topics_by_name)
        ResponseBudget().charge_elements(len(names))
        return ElectLeadersResponse(
            replica_election_results=tuple((yield from map_in_steps(names, ElectLeadersResponseReplicaElectionResult)))
        )

    def result(topic: str, index: int) -> ElectLeadersResponsePartitionResult:
        told = refused or (_NOT_NEEDED if state.has(topic, index) else _UNKNOWN)
        return ElectLeadersResponsePartitionResult(index, *told)

    def results(one: ElectLeadersRequestTopicPartitions) -> Steps[ElectLeadersResponseReplicaElectionResult]:
        partitions = yield from map_in_steps(one.partitions, lambda index: result(one.topic, index))
        return ElectLeadersResponseReplicaElectionResult(one.topic, tuple(partitions))

    topics = yield from chain_steps(request.topic_partitions or (), results)
    return ElectLeadersResponse(
        error_code=ErrorCode.NONE if refused is None else refused[0], replica_election_results=tuple(topics)
    )
