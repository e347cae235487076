"""OAUTHBEARER (RFC 7628): the client sends a token that an issuer has signed.

    client   n,[a=USER],^Aauth=Bearer TOKEN^A[NAME=VALUE^A...]^A
    server   nothing, or {"status": "invalid_token"} and, behind the client's ^A, the failure

The signature is checked off the loop. Kafka: `OAuthBearerSaslServer`, `OAuthBearerClientInitialResponse`.
"""

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from coordinator.server.sasl.outcome import Challenge, Failure, Outcome, Success, Work

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
SECONDS_MAX: Final = 2**53  # of an `exp`: JSON has greater numbers, which no time is, and Python's even infinity
_INITIAL: Final = re.compile(
    r"n,(?:a=(?P<authorization>(?:[^=,\x00]|=2C|=3D)+))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]*\x01)*)\x01"
)
_BEARER: Final = re.compile(r"[Bb]earer +([-A-Za-z0-9._~+/]+=*) *")
_REFUSED: Final = json.dumps({"status": "invalid_token"}).encode()


class InvalidToken(Exception):  # noqa: N818  # an answer, not a failure
    """The token is not accepted."""


class Rules(Struct, frozen=True):
    """What a token must say."""

    issuer: str = ""
    audiences: tuple[str, ...] = ()
    skew_s: int = 30
    user_claim: str = "sub"


class Verifier:
    """Verifies tokens (JWT) by the public keys of their issuers."""

    def __init__(self, keys: Sequence[Mapping[str, Any]], rules: Rules, now_s: Callable[[], float] = time.time) -> None:
        """`keys` are public keys in the form of JWKS. Raises ValueError if one cannot be used."""
        from joserfc.errors import JoseError
        from joserfc.jwk import KeySet

        try:
            self._keys = KeySet.import_key_set({"keys": [dict(key) for key in keys]})
        except JoseError as error:
            raise ValueError(str(error)) from None
        except (TypeError, KeyError) as error:  # of keys that do not have the form of JWKS at all
            raise ValueError(f"a key cannot be read: {error!r}") from None
        self._rules = rules
        self._now_s = now_s

    def verify(self, token: str) -> Success:
        """Return the user that the token names. Raises InvalidToken."""
        from joserfc import jwt
        from joserfc.errors import JoseError

        try:
            claims = jwt.decode(token, self._keys, algorithms=list(ALGORITHMS)).claims
        except (JoseError, ValueError, TypeError, KeyError) as error:
            raise InvalidToken(f"the token cannot be verified: {type(error).__name__}") from None
        return self._check(claims)

    def _check(self, claims: Mapping[str, Any]) -> Success:
        rules, now_s = self._rules, self._now_s()
        user, expires_s = claims.get(rules.user_claim), claims.get("exp")
        if not isinstance(user, str) or not user:
            raise InvalidToken(f"the token has no {rules.user_claim}")
        if not isinstance(expires_s, int | float) or isinstance(expires_s, bool) or not abs(expires_s) < SECONDS_MAX:
            raise InvalidToken("the token has no exp")
        if now_s >= expires_s + rules.skew_s:
            raise InvalidToken("the token has expired")
        for name in ("nbf", "iat"):
            since_s = claims.get(name, 0)
            if not isinstance(since_s, int | float) or now_s < since_s - rules.skew_s:
                raise InvalidToken(f"the token is not valid yet ({name})")
        if rules.issuer and claims.get("iss") != rules.issuer:
            raise InvalidToken("the token is of another issuer")
        audience = claims.get("aud")
        audiences = audience if isinstance(audience, list) else [audience]
        if rules.audiences and not any(name in audiences for name in rules.audiences):
            raise InvalidToken("the token is for another audience")
        return Success(user, expires_s=float(expires_s))


class OAuthBearer:
    """One exchange of OAUTHBEARER."""

    def __init__(self, verify: Callable[[str], Success]) -> None:
        self._verify = verify
        self._reason: str | None = None  # why the token was refused; the client has been told that it was

    def step(self, token: bytes) -> Outcome:
        if self._reason is not None:
            return Failure(f"Authentication failed: {self._reason}")
        try:
            match = _INITIAL.fullmatch(token.decode())
        except UnicodeDecodeError:
            match = None
        if match is None:
            return Failure("Invalid OAUTHBEARER client first message")
        pairs = dict(pair.split("=", 1) for pair in match["pairs"].split("\x01") if pair)
        bearer = _BEARER.fullmatch(pairs.get("auth", ""))
        if bearer is None:
            return Failure("Invalid OAUTHBEARER client first message: 'auth' not specified")
        name = (match["authorization"] or "").replace("=2C", ",").replace("=3D", "=")
        return Work(lambda: self._find(bearer[1], name))

    def _find(self, token: str, authorization_id: str) -> Challenge | Success | Failure:
        try:
            success = self._verify(token)
        except InvalidToken as error:
            self._reason = str(error)
            return Challenge(_REFUSED)
        if authorization_id not in ("", success.user):
            return Failure(
                f"Authentication failed: Client requested an authorization id ({authorization_id})"
                f" that is different from the token's principal name ({success.user})"
            )
        return success
