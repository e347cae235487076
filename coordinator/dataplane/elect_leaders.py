"""ElectLeaders: every partition has its preferred leader, so no election is needed."""

from typing import Final

from coordinator.dataplane.state import Env, State
from protocol.errors import ErrorCode
from protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersResponsePartitionResult,
    ElectLeadersResponseReplicaElectionResult,
)

PREFERRED, UNCLEAN = 0, 1
_NOT_NEEDED: Final = (ErrorCode.ELECTION_NOT_NEEDED, "The leader of the partition is the right one already.")
_UNKNOWN: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")


def elect_leaders(state: State, request: ElectLeadersRequest, env: Env) -> ElectLeadersResponse:
    """Answer for each partition; where all are meant, name the topics and no partition, as Kafka does."""
    if request.election_type not in (PREFERRED, UNCLEAN):
        return _refuse(request)
    if request.topic_partitions is None:
        results = tuple([ElectLeadersResponseReplicaElectionResult(name) for name in state.catalog.topics_by_name])
        return ElectLeadersResponse(replica_election_results=results)
    return ElectLeadersResponse(
        replica_election_results=tuple([
            ElectLeadersResponseReplicaElectionResult(
                one.topic,
                tuple([
                    ElectLeadersResponsePartitionResult(
                        index, *(_NOT_NEEDED if state.has(one.topic, index) else _UNKNOWN)
                    )
                    for index in one.partitions
                ]),
            )
            for one in request.topic_partitions
        ])
    )  # fmt: skip


def _refuse(request: ElectLeadersRequest) -> ElectLeadersResponse:
    error, message = ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}"
    results = [
        ElectLeadersResponseReplicaElectionResult(
            one.topic, tuple([ElectLeadersResponsePartitionResult(index, error, message) for index in one.partitions])
        )
        for one in request.topic_partitions or ()
    ]
    return ElectLeadersResponse(error_code=error, replica_election_results=tuple(results))
