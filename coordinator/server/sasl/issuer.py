"""An issuer of OAuth tokens for development: every client that asks gets a token, in any name."""

import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

LIFETIME_S: Final = 300
LIFETIME_MAX_S: Final = 86_400


class Issuer:
    """A key of its own, made at the start, and tokens signed with it."""

    def __init__(self, now_s: Callable[[], float] = time.time) -> None:
        """Raise ImportError where the library for tokens is missing."""
        from joserfc.jwk import RSAKey

        self._key = RSAKey.generate_key(2048, {"use": "sig", "alg": "RS256", "kid": secrets.token_hex(8)})
        self._now_s = now_s
        self.url = "muster"  # who the tokens say that they are from

    @property
    def keys(self) -> list[Mapping[str, Any]]:
        """The public key, as JWKS has it."""
        return [self._key.as_dict(private=False)]

    def issue(self, user: str, *, scope: str = "", audience: str = "", lifetime_s: int = LIFETIME_S) -> str:
        """Sign a token for a user. With a negative lifetime it has expired already."""
        from joserfc import jwt

        now_s = int(self._now_s())
        claims = {"iss": self.url, "sub": user, "iat": now_s + min(lifetime_s, 0), "exp": now_s + lifetime_s}
        claims |= {name: value for name, value in (("scope", scope), ("aud", audience)) if value}
        header = {"alg": "RS256", "kid": self._key.kid, "typ": "JWT"}
        return jwt.encode(header, claims, self._key)
