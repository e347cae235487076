"""The client's side of SASL, for tests: tokens as clients send them."""

import base64
import hashlib
import hmac
import time
from collections.abc import Mapping
from typing import Any

from coordinator.config import Config
from coordinator.server.sasl.issuer import Issuer
from coordinator.server.sasl.listener import Sasl
from protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from protocol.messages.sasl_handshake import SaslHandshakeRequest

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret" user_bob="other";'


def sasl(issuer: Issuer | None = None, /, **values: Any) -> Sasl:
    """A listener's SASL with the users alice and bob; `values` are settings with `_` for `.`."""
    settings = {"sasl.jaas.config": JAAS} | {name.replace("_", "."): value for name, value in values.items()}
    return Sasl(Config(settings), "SASL", issuer.keys if issuer else ())


def plain(user: str, password: str, authorization_id: str = "") -> bytes:
    return f"{authorization_id}\0{user}\0{password}".encode()


def bearer(token: str, authorization_id: str = "") -> bytes:
    return f"n,{f'a={authorization_id}' if authorization_id else ''},\x01auth=Bearer {token}\x01\x01".encode()


class ScramClient:
    """The client's side of SCRAM."""

    def __init__(self, digest: str, user: str, password: str) -> None:
        self._digest = digest
        self._password = password
        self.first = f"n={user},r=clientnonce"
        self.signature = b""

    def begin(self, peer: Any) -> bytes:
        """Choose the mechanism, send the first message, and return the server's."""
        shake_hands(peer, f"SCRAM-SHA-{self._digest.removeprefix('sha')}")
        return bytes(authenticate(peer, b"n,," + self.first.encode()).auth_bytes)

    def final(self, challenge: bytes, *, nonces: str | None = None, header: bytes = b"n,,") -> bytes:
        """The token that answers the server's. `header` is bound to it: that of the first message, by right."""
        facts = dict(part.split("=", 1) for part in challenge.decode().split(","))
        salted = hashlib.pbkdf2_hmac(
            self._digest, self._password.encode(), base64.b64decode(facts["s"]), int(facts["i"])
        )
        without_proof = f"c={base64.b64encode(header).decode()},r={nonces or facts['r']}"
        message = f"{self.first},{challenge.decode()},{without_proof}".encode()
        client_key = hmac.digest(salted, b"Client Key", self._digest)
        stored = hashlib.new(self._digest, client_key).digest()
        proof = bytes(a ^ b for a, b in zip(client_key, hmac.digest(stored, message, self._digest), strict=True))
        self.signature = hmac.digest(hmac.digest(salted, b"Server Key", self._digest), message, self._digest)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()


def shake_hands(peer: Any, mechanism: str, version: int = 1) -> Any:
    """Send SaslHandshake, and return the response."""
    return peer.ask(SaslHandshakeRequest(mechanism), version)


def authenticate(peer: Any, token: bytes) -> Any:
    """Send a token, and return the response, None while there is none."""
    return peer.ask(SaslAuthenticateRequest(token), 2)


def log_in(peer: Any, user: str = "alice", password: str = "secret") -> Any:
    """Authenticate by PLAIN."""
    shake_hands(peer, "PLAIN")
    return authenticate(peer, plain(user, password))


def claims(**others: Any) -> Mapping[str, Any]:
    """What a token may say."""
    return {"sub": "carol", "exp": time.time() + 300} | others
