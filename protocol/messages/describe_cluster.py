"""DescribeCluster: the cluster's id, controller and brokers.

The endpoint's type is 1 for brokers and 2 for controllers.
"""

from protocol.schema import Field, Message, Schema
from protocol.wire import BOOLEAN, INT8, INT16, INT32, NULLABLE_STRING, STRING, Array

CHANGES = {
    0: "KIP-700: the first version",
    1: "KIP-919: controllers may be asked for",
    2: "KIP-1073: fenced brokers, if asked",
}


class DescribeClusterRequest(Message):
    include_cluster_authorized_operations: bool = False
    endpoint_type: int = 1
    include_fenced_brokers: bool = False


REQUEST = Schema(
    DescribeClusterRequest,
    (
        Field("include_cluster_authorized_operations", BOOLEAN),
        Field("endpoint_type", INT8, since=1),
        Field("include_fenced_brokers", BOOLEAN, since=2),
    ),
)


class DescribeClusterResponseBroker(Message):
    broker_id: int = 0
    host: str = ""
    port: int = 0
    rack: str | None = None
    is_fenced: bool = False


RESPONSE_BROKER = Schema(
    DescribeClusterResponseBroker,
    (
        Field("broker_id", INT32),
        Field("host", STRING),
        Field("port", INT32),
        Field("rack", NULLABLE_STRING),
        Field("is_fenced", BOOLEAN, since=2),
    ),
)


class DescribeClusterResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    endpoint_type: int = 1
    cluster_id: str = ""
    controller_id: int = -1  # -1: none
    brokers: tuple[DescribeClusterResponseBroker, ...] = ()
    cluster_authorized_operations: int = -(2**31)  # bits by operation; the default: not asked for


RESPONSE = Schema(
    DescribeClusterResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
        Field("endpoint_type", INT8, since=1),
        Field("cluster_id", STRING),
        Field("controller_id", INT32),
        Field("brokers", Array(RESPONSE_BROKER)),
        Field("cluster_authorized_operations", INT32),
    ),
)
