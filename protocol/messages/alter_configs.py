"""AlterConfigs: replace all configs of a resource; what is not named falls back to its default.

`incremental_alter_configs` took its place; old clients still send this one.
"""

from protocol.schema import Field, Message, Schema
from protocol.wire import BOOLEAN, INT8, INT16, INT32, NULLABLE_STRING, STRING, Array

CHANGES = {
    0: "KIP-133: the first version",
    1: "KIP-219: same bytes; a throttled client gets its answer at once and waits by itself",
    2: "KIP-482: flexible, so compact lengths and tagged fields",
}


class AlterConfigsRequestAlterableConfig(Message):
    name: str = ""
    value: str | None = ""


REQUEST_ALTERABLE_CONFIG = Schema(
    AlterConfigsRequestAlterableConfig,
    (
        Field("name", STRING),
        Field("value", NULLABLE_STRING),
    ),
)


class AlterConfigsRequestResource(Message):
    resource_type: int = 0
    resource_name: str = ""
    configs: tuple[AlterConfigsRequestAlterableConfig, ...] = ()


REQUEST_RESOURCE = Schema(
    AlterConfigsRequestResource,
    (
        Field("resource_type", INT8),
        Field("resource_name", STRING),
        Field("configs", Array(REQUEST_ALTERABLE_CONFIG)),
    ),
)


class AlterConfigsRequest(Message):
    resources: tuple[AlterConfigsRequestResource, ...] = ()
    validate_only: bool = False


REQUEST = Schema(
    AlterConfigsRequest,
    (
        Field("resources", Array(REQUEST_RESOURCE)),
        Field("validate_only", BOOLEAN),
    ),
)


class AlterConfigsResponseResource(Message):
    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""


RESPONSE_RESOURCE = Schema(
    AlterConfigsResponseResource,
    (
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
        Field("resource_type", INT8),
        Field("resource_name", STRING),
    ),
)


class AlterConfigsResponse(Message):
    throttle_time_ms: int = 0
    responses: tuple[AlterConfigsResponseResource, ...] = ()


RESPONSE = Schema(
    AlterConfigsResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("responses", Array(RESPONSE_RESOURCE)),
    ),
)
