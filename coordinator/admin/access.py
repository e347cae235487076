"""Check the token of requests to the admin port, in either of two forms.

Authorization: Bearer TOKEN
Authorization: Basic ...       any name, and the token as the password: what a browser asks its user for
"""

import base64
import binascii
import hashlib
import hmac
from pathlib import Path
from typing import Final

from coordinator.admin.http import Handler, Request, Response, Stream, refuse

OPEN: Final = ("/healthz", "/readyz", "/oauth/token", "/oauth/jwks")
"""Health checks have no secrets, and the issuer of tokens for development gives them to everybody."""
TOKEN_CHARACTERS_MIN: Final = 16

_CHALLENGES: Final = (("WWW-Authenticate", "Bearer"), ("WWW-Authenticate", 'Basic realm="muster"'))


def read_token(file: str) -> str:
    """Return the token in a file. Raises OSError, and ValueError for one that is easily guessed."""
    token = Path(file).read_text("utf-8").strip()
    if len(token) < TOKEN_CHARACTERS_MIN or not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError(f"expected {TOKEN_CHARACTERS_MIN} printable ASCII characters or more, without spaces")
    return token


def require_token(handler: Handler, token: str) -> Handler:
    """Answer only those who know the token, except for paths that are open to all."""
    expected = _digest(token)

    async def handle(request: Request) -> Response | Stream:
        if request.path in OPEN or hmac.compare_digest(_digest(_given(request)), expected):
            return await handler(request)
        return refuse(request.path, "expected the token of --admin-token-file", 401, _CHALLENGES)

    return handle


def _given(request: Request) -> str:
    kind, _, value = request.headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return value.strip()
    if kind.lower() == "basic":
        try:
            return base64.b64decode(value, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return ""
    return ""


def _digest(text: str) -> bytes:
    """Equally long for every text, so that the time of a comparison tells nothing."""
    return hashlib.sha256(text.encode()).digest()
