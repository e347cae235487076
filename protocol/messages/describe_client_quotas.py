"""DescribeClientQuotas: the quotas of users, clients and addresses that match a filter."""

from protocol.schema import Field, Message, Schema
from protocol.wire import BOOLEAN, FLOAT64, INT8, INT16, INT32, NULLABLE_STRING, STRING, Array, NullableArray

CHANGES = {
    0: "KIP-546: the first version",
    1: "KIP-482: flexible",
}


class DescribeClientQuotasRequestComponentData(Message):
    entity_type: str = ""  # user, client-id or ip
    match_type: int = 0  # 0 this name, 1 the default, 2 any name
    match: str | None = None  # null unless the match is by name


REQUEST_COMPONENT_DATA = Schema(
    DescribeClientQuotasRequestComponentData,
    (
        Field("entity_type", STRING),
        Field("match_type", INT8),
        Field("match", NULLABLE_STRING),
    ),
)


class DescribeClientQuotasRequest(Message):
    components: tuple[DescribeClientQuotasRequestComponentData, ...] = ()
    strict: bool = False  # whether other types in an entity exclude it


REQUEST = Schema(
    DescribeClientQuotasRequest,
    (
        Field("components", Array(REQUEST_COMPONENT_DATA)),
        Field("strict", BOOLEAN),
    ),
)


class DescribeClientQuotasResponseEntityData(Message):
    entity_type: str = ""  # user, client-id or ip
    entity_name: str | None = None  # null: the default


RESPONSE_ENTITY_DATA = Schema(
    DescribeClientQuotasResponseEntityData,
    (
        Field("entity_type", STRING),
        Field("entity_name", NULLABLE_STRING),
    ),
)


class DescribeClientQuotasResponseValueData(Message):
    key: str = ""
    value: float = 0.0


RESPONSE_VALUE_DATA = Schema(
    DescribeClientQuotasResponseValueData,
    (
        Field("key", STRING),
        Field("value", FLOAT64),
    ),
)


class DescribeClientQuotasResponseEntryData(Message):
    entity: tuple[DescribeClientQuotasResponseEntityData, ...] = ()
    values: tuple[DescribeClientQuotasResponseValueData, ...] = ()


RESPONSE_ENTRY_DATA = Schema(
    DescribeClientQuotasResponseEntryData,
    (
        Field("entity", Array(RESPONSE_ENTITY_DATA)),
        Field("values", Array(RESPONSE_VALUE_DATA)),
    ),
)


class DescribeClientQuotasResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    entries: tuple[DescribeClientQuotasResponseEntryData, ...] | None = ()  # null with an error


RESPONSE = Schema(
    DescribeClientQuotasResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
        Field("entries", NullableArray(RESPONSE_ENTRY_DATA)),
    ),
)
