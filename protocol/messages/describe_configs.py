"""DescribeConfigs: the configs of topics (2), brokers (4), broker loggers (8), client metrics (16), groups (32).

A config's source is a number as well: 1 topic, 2 broker (dynamic), 3 all brokers (dynamic), 4 the broker's file,
5 default, 6 broker logger, 7 client metrics, 8 group.
"""

from protocol.schema import Field, Message, Schema
from protocol.wire import BOOLEAN, INT8, INT16, INT32, NULLABLE_STRING, STRING, Array, NullableArray

CHANGES = {
    0: "KIP-133: the first version",
    1: "KIP-226: a config's source instead of whether it is a default; synonyms",
    2: "KIP-219: same bytes; a throttled client gets its answer at once and waits by itself",
    3: "KIP-569: a config's type and documentation",
    4: "KIP-482: flexible, so compact lengths and tagged fields",
}


class DescribeConfigsRequestResource(Message):
    resource_type: int = 0
    resource_name: str = ""
    configuration_keys: tuple[str, ...] | None = ()  # None: all


REQUEST_RESOURCE = Schema(
    DescribeConfigsRequestResource,
    (
        Field("resource_type", INT8),
        Field("resource_name", STRING),
        Field("configuration_keys", NullableArray(STRING)),
    ),
)


class DescribeConfigsRequest(Message):
    resources: tuple[DescribeConfigsRequestResource, ...] = ()
    include_synonyms: bool = False
    include_documentation: bool = False


REQUEST = Schema(
    DescribeConfigsRequest,
    (
        Field("resources", Array(REQUEST_RESOURCE)),
        Field("include_synonyms", BOOLEAN, since=1),
        Field("include_documentation", BOOLEAN, since=3),
    ),
)


class DescribeConfigsResponseSynonym(Message):
    name: str = ""
    value: str | None = ""
    source: int = 0


RESPONSE_SYNONYM = Schema(
    DescribeConfigsResponseSynonym,
    (
        Field("name", STRING, since=1),
        Field("value", NULLABLE_STRING, since=1),
        Field("source", INT8, since=1),
    ),
)


class DescribeConfigsResponseResourceResult(Message):
    name: str = ""
    value: str | None = ""  # None: sensitive, or not set
    read_only: bool = False
    is_default: bool = False
    config_source: int = -1  # -1 in version 0, which says is_default instead
    is_sensitive: bool = False
    synonyms: tuple[DescribeConfigsResponseSynonym, ...] = ()
    config_type: int = 0
    documentation: str | None = ""


RESPONSE_RESOURCE_RESULT = Schema(
    DescribeConfigsResponseResourceResult,
    (
        Field("name", STRING),
        Field("value", NULLABLE_STRING),
        Field("read_only", BOOLEAN),
        Field("is_default", BOOLEAN, until=0),
        Field("config_source", INT8, since=1),
        Field("is_sensitive", BOOLEAN),
        Field("synonyms", Array(RESPONSE_SYNONYM), since=1),
        Field("config_type", INT8, since=3),
        Field("documentation", NULLABLE_STRING, since=3),
    ),
)


class DescribeConfigsResponseResult(Message):
    error_code: int = 0
    error_message: str | None = ""
    resource_type: int = 0
    resource_name: str = ""
    configs: tuple[DescribeConfigsResponseResourceResult, ...] = ()


RESPONSE_RESULT = Schema(
    DescribeConfigsResponseResult,
    (
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
        Field("resource_type", INT8),
        Field("resource_name", STRING),
        Field("configs", Array(RESPONSE_RESOURCE_RESULT)),
    ),
)


class DescribeConfigsResponse(Message):
    throttle_time_ms: int = 0
    results: tuple[DescribeConfigsResponseResult, ...] = ()


RESPONSE = Schema(
    DescribeConfigsResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("results", Array(RESPONSE_RESULT)),
    ),
)
