"""SaslHandshake and SaslAuthenticate on a listener without SASL, or after authentication: refused, as in Kafka.

Shown by tests/server/test_sasl.py and tests/conformance/stories/authentication.py.
"""

from protocol.errors import ErrorCode
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def sasl_handshake(request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    """Refuse a client that expects SASL on a listener without it."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


def sasl_authenticate(request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    """Refuse a client that expects SASL, and has sent no SaslHandshake."""
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )
