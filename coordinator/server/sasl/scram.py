"""SCRAM (RFC 5802): the client shows that it knows the password, and the server that it knows the user.

    client   n,,n=USER,r=NONCE
    server   r=NONCE and its own,s=SALT,i=ITERATIONS
    client   c=biws,r=BOTH NONCES,p=PROOF
    server   v=PROOF

A user that does not exist gets a salt as well, always the same, and fails at the end as with a wrong password.
Kafka: `ScramSaslServer`, `ScramMessages`.
"""

import base64
import binascii
import re
import secrets
from collections.abc import Callable
from typing import Final

from coordinator.core.scram import ITERATIONS_MIN, Credential, ScramMechanism, is_proof, sign
from coordinator.server.sasl.outcome import OTHER_ID, Challenge, Failure, Outcome, Success

_VALUE: Final = r"[\x01-\x2b\x2d-\x7e\x80-\U0010ffff]+"  # anything but NUL and a comma
_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7e\x80-\U0010ffff]|=2C|=3D)+"
_PRINTABLE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64: Final = r"[A-Za-z0-9+/]+={0,2}"
_EXTENSIONS: Final = rf"(?:,[A-Za-z]={_VALUE})*"
_FIRST: Final = re.compile(rf"(n,(?:a=({_NAME}))?,)((?:m={_VALUE},)?n=({_NAME}),r=({_PRINTABLE})({_EXTENSIONS}))")
_FINAL: Final = re.compile(rf"(c=({_BASE64}),r=({_PRINTABLE}){_EXTENSIONS}),p=({_BASE64})")
_SECRET: Final = secrets.token_bytes(32)  # of which the salts of users are made that do not exist


class Scram:
    """One exchange of SCRAM."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        credential_of: Callable[[str], Credential | None],
        nonce: Callable[[], str] = lambda: secrets.token_urlsafe(24),
    ) -> None:
        self._mechanism = mechanism
        self._credential_of = credential_of
        self._nonce = nonce
        self._user = ""
        self._header = ""
        self._client_first = ""
        self._server_first = ""
        self._nonces = ""
        self._credential: Credential | None = None
        self._is_begun = False

    def step(self, token: bytes) -> Outcome:
        try:
            text = token.decode()
        except UnicodeDecodeError:
            return self._failure()
        return self._finish(text) if self._is_begun else self._begin(text)

    def _begin(self, text: str) -> Outcome:
        match = _FIRST.fullmatch(text)
        if match is None:
            return self._failure()
        self._header, authorization_id, self._client_first, name, client_nonce, extensions = match.groups()
        self._user = _unescape(name)
        if authorization_id and _unescape(authorization_id) != self._user:
            return Failure(OTHER_ID)
        if "tokenauth=true" in extensions:
            return Failure("Authentication failed: there are no delegation tokens")
        self._credential = self._credential_of(self._user)
        salt, iterations = self._salt()
        self._nonces = client_nonce + self._nonce()
        self._server_first = f"r={self._nonces},s={base64.b64encode(salt).decode()},i={iterations}"
        self._is_begun = True
        return Challenge(self._server_first.encode())

    def _finish(self, text: str) -> Outcome:
        match = _FINAL.fullmatch(text)
        if match is None:
            return self._failure()
        without_proof, binding, nonces, proof = match.groups()
        if nonces != self._nonces or _decode(binding) != self._header.encode():
            return self._failure()
        message = f"{self._client_first},{self._server_first},{without_proof}".encode()
        credential = self._credential or Credential(b"", bytes(32), bytes(32), ITERATIONS_MIN)
        if not is_proof(self._mechanism, credential, message, _decode(proof)) or self._credential is None:
            return self._failure()
        signature = sign(self._mechanism, credential.server_key, message)
        return Success(self._user, b"v=" + base64.b64encode(signature))

    def _salt(self) -> tuple[bytes, int]:
        if self._credential is not None:
            return self._credential.salt, self._credential.iterations
        return sign(self._mechanism, _SECRET, self._user.encode())[:16], ITERATIONS_MIN

    def _failure(self) -> Failure:
        return Failure(
            "Authentication failed during authentication due to invalid credentials with SASL mechanism"
            f" {self._mechanism.name}"
        )


def _unescape(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _decode(text: str) -> bytes:
    """Return the bytes of base64, none if it is not."""
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return b""
