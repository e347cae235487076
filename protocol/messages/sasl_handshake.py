"""SaslHandshake: the mechanism by which the client will authenticate.

After version 0 the tokens follow as bare frames of size and bytes; after version 1 they come in SaslAuthenticate.
Its versions stay inflexible, because old clients choose among them badly (KAFKA-9577).
"""

from protocol.schema import Field, Message, Schema
from protocol.wire import INT16, STRING, Array

CHANGES = {
    0: "KIP-43: the first version",
    1: "KIP-152: same bytes; tokens follow in SaslAuthenticate",
}


class SaslHandshakeRequest(Message):
    mechanism: str = ""


REQUEST = Schema(
    SaslHandshakeRequest,
    (Field("mechanism", STRING),),
)


class SaslHandshakeResponse(Message):
    error_code: int = 0
    mechanisms: tuple[str, ...] = ()  # what the server offers, beside an error too


RESPONSE = Schema(
    SaslHandshakeResponse,
    (
        Field("error_code", INT16),
        Field("mechanisms", Array(STRING)),
    ),
)
