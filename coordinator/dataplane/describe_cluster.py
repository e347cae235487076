"""DescribeCluster: the brokers, and the controller.

Shown by tests/conformance/stories/{topics,acl_parts}.py.
"""

from typing import Final

from coordinator.core.acls.names import NOT_ASKED
from coordinator.dataplane.metadata import CLUSTER_OPERATIONS
from coordinator.dataplane.state import Env, State
from protocol.errors import ErrorCode
from protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeClusterResponseBroker,
)

BROKERS, CONTROLLERS = 1, 2  # types of endpoints (KIP-919)
_WRONG_ENDPOINT: Final = {
    CONTROLLERS: (ErrorCode.MISMATCHED_ENDPOINT_TYPE, "The request was sent to an endpoint of type BROKER"),
}


def describe_cluster(state: State, request: DescribeClusterRequest, env: Env) -> DescribeClusterResponse:
    """Describe the brokers. Controllers have no endpoints of their own here."""
    if request.endpoint_type != BROKERS:
        error, message = _WRONG_ENDPOINT.get(
            request.endpoint_type, (ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, "Unsupported endpoint type")
        )
        return DescribeClusterResponse(error_code=error, error_message=message)
    asks = request.include_cluster_authorized_operations
    brokers = env.brokers
    return DescribeClusterResponse(
        cluster_id=state.cluster_id,
        controller_id=brokers[0].node_id,
        brokers=tuple([DescribeClusterResponseBroker(b.node_id, b.host, b.port, b.rack) for b in brokers]),
        cluster_authorized_operations=CLUSTER_OPERATIONS if asks else NOT_ASKED,
    )
