"""AlterUserScramCredentials: set and delete users' SCRAM credentials. The password itself is never sent."""

from protocol.schema import Field, Message, Schema
from protocol.wire import BYTES, INT8, INT16, INT32, NULLABLE_STRING, STRING, Array

CHANGES = {
    0: "KIP-554: the first version",
}


class AlterUserScramCredentialsRequestScramCredentialDeletion(Message):
    name: str = ""
    mechanism: int = 0  # 1 SCRAM-SHA-256, 2 SCRAM-SHA-512


REQUEST_SCRAM_CREDENTIAL_DELETION = Schema(
    AlterUserScramCredentialsRequestScramCredentialDeletion,
    (
        Field("name", STRING),
        Field("mechanism", INT8),
    ),
)


class AlterUserScramCredentialsRequestScramCredentialUpsertion(Message):
    name: str = ""
    mechanism: int = 0  # as above
    iterations: int = 0
    salt: bytes = b""
    salted_password: bytes = b""


REQUEST_SCRAM_CREDENTIAL_UPSERTION = Schema(
    AlterUserScramCredentialsRequestScramCredentialUpsertion,
    (
        Field("name", STRING),
        Field("mechanism", INT8),
        Field("iterations", INT32),
        Field("salt", BYTES),
        Field("salted_password", BYTES),
    ),
)


class AlterUserScramCredentialsRequest(Message):
    deletions: tuple[AlterUserScramCredentialsRequestScramCredentialDeletion, ...] = ()
    upsertions: tuple[AlterUserScramCredentialsRequestScramCredentialUpsertion, ...] = ()


REQUEST = Schema(
    AlterUserScramCredentialsRequest,
    (
        Field("deletions", Array(REQUEST_SCRAM_CREDENTIAL_DELETION)),
        Field("upsertions", Array(REQUEST_SCRAM_CREDENTIAL_UPSERTION)),
    ),
)


class AlterUserScramCredentialsResponseAlterUserScramCredentialsResult(Message):
    user: str = ""
    error_code: int = 0
    error_message: str | None = None


RESPONSE_ALTER_USER_SCRAM_CREDENTIALS_RESULT = Schema(
    AlterUserScramCredentialsResponseAlterUserScramCredentialsResult,
    (
        Field("user", STRING),
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
    ),
)


class AlterUserScramCredentialsResponse(Message):
    throttle_time_ms: int = 0
    results: tuple[AlterUserScramCredentialsResponseAlterUserScramCredentialsResult, ...] = ()


RESPONSE = Schema(
    AlterUserScramCredentialsResponse,
    (
        Field("throttle_time_ms", INT32),
        Field("results", Array(RESPONSE_ALTER_USER_SCRAM_CREDENTIALS_RESULT)),
    ),
)
