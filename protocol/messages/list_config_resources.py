"""ListConfigResources: the names of what has configs of its own.

Version 0 was named ListClientMetricsResources and knows that one type, 16.
"""

from protocol.schema import Field, Message, Schema
from protocol.wire import INT8, INT16, INT32, STRING, Array

CHANGES = {
    0: "KIP-1000: the first version, for client metrics",
    1: "KIP-1142: resources of all types, or of those asked for",
}


class ListConfigResourcesRequest(Message):
    resource_types: tuple[int, ...] = ()  # empty: all


REQUEST = Schema(
    ListConfigResourcesRequest,
    (Field("resource_types", Array(INT8), since=1),),
)


class ListConfigResourcesResponseConfigResource(Message):
    resource_name: str = ""
    resource_type: int = 16


RESPONSE_CONFIG_RESOURCE = Schema(
    ListConfigResourcesResponseConfigResource,
    (
        Field("resource_name", STRING),
        Field("resource_type", INT8, since=1),
    ),
)


class ListConfigResourcesResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    config_resources: tuple[ListConfigResourcesResponseConfigResource, ...] = ()


RESPONSE = Schema(
    ListConfigResourcesResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("error_code", INT16),
        Field("config_resources", Array(RESPONSE_CONFIG_RESOURCE)),
    ),
)
