"""SaslHandshake and SaslAuthenticate on a listener that authenticates nobody: both come too late, as Kafka has it."""

from protocol.errors import ErrorCode
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def sasl_handshake(request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Refuse a client that expects SASL on a listener without it."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


def sasl_authenticate(request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    """Refuse the same client when it did not send SaslHandshake first."""
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )
