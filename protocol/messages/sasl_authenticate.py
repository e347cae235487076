"""SaslAuthenticate: a token of the SASL mechanism, and the server's next one."""

from protocol.schema import Field, Message, Schema
from protocol.wire import BYTES, INT16, INT64, NULLABLE_STRING

CHANGES = {
    0: "KIP-152: the first version",
    1: "KIP-368: how long the session may live before the client must authenticate again",
    2: "KIP-482: flexible, so compact lengths and tagged fields",
}


class SaslAuthenticateRequest(Message):
    auth_bytes: bytes = b""


REQUEST = Schema(
    SaslAuthenticateRequest,
    (Field("auth_bytes", BYTES),),
)


class SaslAuthenticateResponse(Message):
    error_code: int = 0
    error_message: str | None = ""
    auth_bytes: bytes = b""
    session_lifetime_ms: int = 0  # 0: without end


RESPONSE = Schema(
    SaslAuthenticateResponse,
    (
        Field("error_code", INT16),
        Field("error_message", NULLABLE_STRING),
        Field("auth_bytes", BYTES),
        Field("session_lifetime_ms", INT64, since=1),
    ),
)
