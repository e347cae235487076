"""SCRAM credentials: what the server keeps instead of a password, and how both sides prove that they know it.

    salted password   PBKDF2(password, salt, iterations)    4,096 rounds or more: never computed at a login
    client key        HMAC(salted password, "Client Key")
    stored key        H(client key)                         kept: checks the client's proof, and makes none
    server key        HMAC(salted password, "Server Key")   kept: the server's own proof

RFC 5802. Kafka: `ScramFormatter`, `ScramMechanism`.
"""

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

ITERATIONS_MIN: Final = 4_096
ITERATIONS_MAX: Final = 16_384  # Kafka: `ScramControlManager.MAX_ITERATIONS`


class ScramMechanism(Struct, frozen=True):
    """A hash function, and how Kafka calls and numbers SCRAM with it."""

    name: str
    number: int
    digest: str

    def hash(self, data: bytes) -> bytes:
        """Return the hash of `data`."""
        return hashlib.new(self.digest, data).digest()


SHA_256: Final = ScramMechanism("SCRAM-SHA-256", 1, "sha256")
SHA_512: Final = ScramMechanism("SCRAM-SHA-512", 2, "sha512")
BY_NUMBER: Final[Mapping[int, ScramMechanism]] = {one.number: one for one in (SHA_256, SHA_512)}
BY_NAME: Final[Mapping[str, ScramMechanism]] = {one.name: one for one in (SHA_256, SHA_512)}


class Credential(Struct, frozen=True):
    """What the server keeps of a user's password for one mechanism."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int


def derive_credential(mechanism: ScramMechanism, salt: bytes, iterations: int, salted_password: bytes) -> Credential:
    """Derive what is kept from the salted password."""
    client_key = sign(mechanism, salted_password, b"Client Key")
    stored_key = mechanism.hash(client_key)
    return Credential(salt, stored_key, sign(mechanism, salted_password, b"Server Key"), iterations)


def hash_password(mechanism: ScramMechanism, password: str, salt: bytes, iterations: int) -> bytes:
    """Return the salted password. This takes milliseconds: not for the loop."""
    return hashlib.pbkdf2_hmac(mechanism.digest, password.encode(), salt, iterations)


def sign(mechanism: ScramMechanism, key: bytes, message: bytes) -> bytes:
    """Return the HMAC of a message."""
    return hmac.digest(key, message, mechanism.digest)


def is_proof(mechanism: ScramMechanism, credential: Credential, message: bytes, proof: bytes) -> bool:
    """Return whether the client's proof for the exchanged messages shows that it knows the password."""
    signature = sign(mechanism, credential.stored_key, message)
    if len(proof) != len(signature):
        return False
    client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
    return hmac.compare_digest(mechanism.hash(client_key), credential.stored_key)
