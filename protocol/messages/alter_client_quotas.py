"""AlterClientQuotas: set and remove the quotas of users, clients and addresses."""

from protocol.schema import Field, Message, Schema
from protocol.wire import BOOLEAN, FLOAT64, INT16, INT32, NULLABLE_STRING, STRING, Array

CHANGES = {
    0: "KIP-546: the first version",
    1: "KIP-482: flexible",
}


class AlterClientQuotasRequestEntityData(Message):
    entity_type: str = ""  # user, client-id or ip
    entity_name: str | None = None  # null: the default


REQUEST_ENTITY_DATA = Schema(
    AlterClientQuotasRequestEntityData,
    (
        Field("entity_type", STRING),
        Field("entity_name", NULLABLE_STRING),
    ),
)


class AlterClientQuotasRequestOpData(Message):
    key: str = ""
    value: float = 0.0
    remove: bool = False  # the value is ignored


REQUEST_OP_DATA = Schema(
    AlterClientQuotasRequestOpData,
    (
        Field("key", STRING),
        Field("value", FLOAT64),
        Field("remove", BOOLEAN),
    ),
)


class AlterClientQuotasRequestEntryData(Message):
    entity: tuple[AlterClientQuotasRequestEntityData, ...] = ()
    ops: tuple[AlterClientQuotasRequestOpData, ...] = ()


REQUEST_ENTRY_DATA = Schema(
    AlterClientQuotasRequestEntryData,
    (
        Field("entity", Array(REQUEST_ENTITY_DATA)),
        Field("ops", Array(REQUEST_OP_DATA)),
    ),
)


class AlterClientQuotasRequest(Message):
    entries: tuple[AlterClientQuotasRequestEntryData, ...] = ()
    validate_only: bool = False


REQUEST = Schema(
    AlterClientQuotasRequest,
    (
        Field("entries", Array(REQUEST_ENTRY_DATA)),
        Field("validate_only", BOOLEAN),
    ),
)


class AlterClientQuotasResponseEntityData(Message):
    entity_type: str = ""
    entity_name: str | None = None


RESPONSE_ENTITY_DATA = Schema(
    AlterClientQuotasResponseEntityData,
    (
        Field("entity_type", STRING),
        Field("entity_name", NULLABLE_STRING),
    ),
)


class AlterClientQuotasResponseEntryData(Message):
    error_code: int = 0
    error_message: str | None = None
    entity: tuple[AlterClientQuotasResponseEntityData, ...] = ()


RESPONSE_ENTRY_DATA = Schema(
    AlterClientQuotasResponseEntryData,
    (
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
        Field("entity", Array(RESPONSE_ENTITY_DATA)),
    ),
)


class AlterClientQuotasResponse(Message):
    throttle_time_ms: int = 0
    entries: tuple[AlterClientQuotasResponseEntryData, ...] = ()


RESPONSE = Schema(
    AlterClientQuotasResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("entries", Array(RESPONSE_ENTRY_DATA)),
    ),
)
