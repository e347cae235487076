"""DescribeAcls: the access rules that match a filter."""

from protocol.schema import Field, Message, Schema
from protocol.wire import INT8, INT16, INT32, NULLABLE_STRING, STRING, Array

CHANGES = {
    0: "KIP-140: the first version",
    1: "KIP-290: prefixed patterns",
    2: "KIP-482: flexible",
    3: "KIP-373: users as a type of resource",
}


class DescribeAclsRequest(Message):
    resource_type_filter: int = 0  # 2 topic, 3 group, 4 cluster, 5 transactional id, 6 token, 7 user; 1 any
    resource_name_filter: str | None = None  # null: any
    pattern_type_filter: int = 3  # 1 any, 2 match, 3 literal, 4 prefixed
    principal_filter: str | None = None  # null: any
    host_filter: str | None = None  # null: any
    operation: int = 0  # 1 any, 2 all, 3 read, 4 write, 5 create, 6 delete, 7 alter, 8 describe, ...
    permission_type: int = 0  # 1 any, 2 deny, 3 allow


REQUEST = Schema(
    DescribeAclsRequest,
    (
        Field("resource_type_filter", INT8),
        Field("resource_name_filter", NULLABLE_STRING),
        Field("pattern_type_filter", INT8, since=1),
        Field("principal_filter", NULLABLE_STRING),
        Field("host_filter", NULLABLE_STRING),
        Field("operation", INT8),
        Field("permission_type", INT8),
    ),
)


class DescribeAclsResponseAclDescription(Message):
    principal: str = ""
    host: str = ""
    operation: int = 0  # 1 any, 2 all, 3 read, 4 write, 5 create, 6 delete, 7 alter, 8 describe, ...
    permission_type: int = 0  # 1 any, 2 deny, 3 allow


RESPONSE_ACL_DESCRIPTION = Schema(
    DescribeAclsResponseAclDescription,
    (
        Field("principal", STRING),
        Field("host", STRING),
        Field("operation", INT8),
        Field("permission_type", INT8),
    ),
)


class DescribeAclsResponseDescribeAclsResource(Message):
    resource_type: int = 0
    resource_name: str = ""
    pattern_type: int = 3
    acls: tuple[DescribeAclsResponseAclDescription, ...] = ()


RESPONSE_DESCRIBE_ACLS_RESOURCE = Schema(
    DescribeAclsResponseDescribeAclsResource,
    (
        Field("resource_type", INT8),
        Field("resource_name", STRING),
        Field("pattern_type", INT8, since=1),
        Field("acls", Array(RESPONSE_ACL_DESCRIPTION)),
    ),
)


class DescribeAclsResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    resources: tuple[DescribeAclsResponseDescribeAclsResource, ...] = ()


RESPONSE = Schema(
    DescribeAclsResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
        Field("resources", Array(RESPONSE_DESCRIBE_ACLS_RESOURCE)),
    ),
)
