"""IncrementalAlterConfigs: set, delete or extend single configs and leave the rest alone.

The operation is 0 set, 1 delete, 2 append to a list, 3 subtract from a list.
"""

from protocol.schema import Field, Message, Schema
from protocol.wire import BOOLEAN, INT8, INT16, INT32, NULLABLE_STRING, STRING, Array

CHANGES = {
    0: "KIP-339: the first version",
    1: "KIP-482: flexible, so compact lengths and tagged fields",
}


class IncrementalAlterConfigsRequestAlterableConfig(Message):
    name: str = ""
    config_operation: int = 0
    value: str | None = ""  # None where the operation deletes


REQUEST_ALTERABLE_CONFIG = Schema(
    IncrementalAlterConfigsRequestAlterableConfig,
    (
        Field("name", STRING),
        Field("config_operation", INT8),
        Field("value", NULLABLE_STRING),
    ),
)


class IncrementalAlterConfigsRequestResource(Message):
    resource_type: int = 0
    resource_name: str = ""
    configs: tuple[IncrementalAlterConfigsRequestAlterableConfig, ...] = ()


REQUEST_RESOURCE = Schema(
    IncrementalAlterConfigsRequestResource,
    (
        Field("resource_type", INT8),
        Field("resource_name", STRING),
        Field("configs", Array(REQUEST_ALTERABLE_CONFIG)),
    ),
)


class IncrementalAlterConfigsRequest(Message):
    resources: tuple[IncrementalAlterConfigsRequestResource, ...] = ()
    validate_only: bool = False


REQUEST = Schema(
    IncrementalAlterConfigsRequest,
    (
        Field("resources", Array(REQUEST_RESOURCE)),
        Field("validate_only", BOOLEAN),
    ),
)


class IncrementalAlterConfigsResponseResource(Message):
    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""


RESPONSE_RESOURCE = Schema(
    IncrementalAlterConfigsResponseResource,
    (
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
        Field("resource_type", INT8),
        Field("resource_name", STRING),
    ),
)


class IncrementalAlterConfigsResponse(Message):
    throttle_time_ms: int = 0
    responses: tuple[IncrementalAlterConfigsResponseResource, ...] = ()


RESPONSE = Schema(
    IncrementalAlterConfigsResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("responses", Array(RESPONSE_RESOURCE)),
    ),
)
