"""ListPartitionReassignments: replicas never move here, so none is on its way.

Shown by tests/conformance/stories/admin_cluster.py.
"""

from coordinator.dataplane.state import Env, State
from protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


def list_partition_reassignments(
    state: State, request: ListPartitionReassignmentsRequest, env: Env
) -> ListPartitionReassignmentsResponse:
    """List no reassignment; topics that do not exist are no error, as in Kafka."""
    return ListPartitionReassignmentsResponse()
