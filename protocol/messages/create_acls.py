"""CreateAcls: add access rules."""

from protocol.schema import Field, Message, Schema
from protocol.wire import INT8, INT16, INT32, NULLABLE_STRING, STRING, Array

CHANGES = {
    0: "KIP-140: the first version",
    1: "KIP-290: prefixed patterns",
    2: "KIP-482: flexible",
    3: "KIP-373: users as a type of resource",
}


class CreateAclsRequestAclCreation(Message):
    resource_type: int = 0  # 2 topic, 3 group, 4 cluster, 5 transactional id, 6 token, 7 user; 1 any
    resource_name: str = ""
    resource_pattern_type: int = 3  # 1 any, 2 match, 3 literal, 4 prefixed
    principal: str = ""
    host: str = ""
    operation: int = 0  # 1 any, 2 all, 3 read, 4 write, 5 create, 6 delete, 7 alter, 8 describe, ...
    permission_type: int = 0  # 1 any, 2 deny, 3 allow


REQUEST_ACL_CREATION = Schema(
    CreateAclsRequestAclCreation,
    (
        Field("resource_type", INT8),
        Field("resource_name", STRING),
        Field("resource_pattern_type", INT8, since=1),
        Field("principal", STRING),
        Field("host", STRING),
        Field("operation", INT8),
        Field("permission_type", INT8),
    ),
)


class CreateAclsRequest(Message):
    creations: tuple[CreateAclsRequestAclCreation, ...] = ()


REQUEST = Schema(
    CreateAclsRequest,
    (Field("creations", Array(REQUEST_ACL_CREATION)),),
)


class CreateAclsResponseAclCreationResult(Message):
    error_code: int = 0
    error_message: str | None = None


RESPONSE_ACL_CREATION_RESULT = Schema(
    CreateAclsResponseAclCreationResult,
    (
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
    ),
)


class CreateAclsResponse(Message):
    throttle_time_ms: int = 0
    results: tuple[CreateAclsResponseAclCreationResult, ...] = ()  # in the order of the request


RESPONSE = Schema(
    CreateAclsResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("results", Array(RESPONSE_ACL_CREATION_RESULT)),
    ),
)
