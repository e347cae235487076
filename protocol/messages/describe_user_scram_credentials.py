"""DescribeUserScramCredentials: which SCRAM credentials users have."""

from protocol.schema import Field, Message, Schema
from protocol.wire import INT8, INT16, INT32, NULLABLE_STRING, STRING, Array, NullableArray

CHANGES = {
    0: "KIP-554: the first version",
}


class DescribeUserScramCredentialsRequestUserName(Message):
    name: str = ""


REQUEST_USER_NAME = Schema(
    DescribeUserScramCredentialsRequestUserName,
    (Field("name", STRING),),
)


class DescribeUserScramCredentialsRequest(Message):
    users: tuple[DescribeUserScramCredentialsRequestUserName, ...] | None = ()  # null or empty: all


REQUEST = Schema(
    DescribeUserScramCredentialsRequest,
    (Field("users", NullableArray(REQUEST_USER_NAME)),),
)


class DescribeUserScramCredentialsResponseCredentialInfo(Message):
    mechanism: int = 0  # 1 SCRAM-SHA-256, 2 SCRAM-SHA-512
    iterations: int = 0


RESPONSE_CREDENTIAL_INFO = Schema(
    DescribeUserScramCredentialsResponseCredentialInfo,
    (
        Field("mechanism", INT8),
        Field("iterations", INT32),
    ),
)


class DescribeUserScramCredentialsResponseDescribeUserScramCredentialsResult(Message):
    user: str = ""
    error_code: int = 0
    error_message: str | None = None
    credential_infos: tuple[DescribeUserScramCredentialsResponseCredentialInfo, ...] = ()


RESPONSE_DESCRIBE_USER_SCRAM_CREDENTIALS_RESULT = Schema(
    DescribeUserScramCredentialsResponseDescribeUserScramCredentialsResult,
    (
        Field("user", STRING),
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
        Field("credential_infos", Array(RESPONSE_CREDENTIAL_INFO)),
    ),
)


class DescribeUserScramCredentialsResponse(Message):
    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    results: tuple[DescribeUserScramCredentialsResponseDescribeUserScramCredentialsResult, ...] = ()


RESPONSE = Schema(
    DescribeUserScramCredentialsResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
        Field("results", Array(RESPONSE_DESCRIBE_USER_SCRAM_CREDENTIALS_RESULT)),
    ),
)
