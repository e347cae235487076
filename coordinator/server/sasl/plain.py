"""PLAIN (RFC 4616): `[authorization id] NUL user NUL password`. Kafka: `PlainSaslServer`."""

import hashlib
import hmac
from collections.abc import Callable

from coordinator.server.sasl.outcome import OTHER_ID, Failure, Outcome, Success


class Plain:
    """One exchange of PLAIN."""

    def __init__(self, password_of: Callable[[str], str | None]) -> None:
        self._password_of = password_of

    def step(self, token: bytes) -> Outcome:
        try:
            words = token.decode().split("\0")
        except UnicodeDecodeError:
            return Failure("Invalid SASL/PLAIN response: expected UTF-8")
        if len(words) != 3:
            return Failure(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(words)}")
        authorization_id, user, password = words
        if not user:
            return Failure("Authentication failed: username not specified")
        if not password:
            return Failure("Authentication failed: password not specified")
        expected = self._password_of(user)
        # Equally long, so that neither the length nor the first difference shows in the time.
        is_right = hmac.compare_digest(_digest(password), _digest(expected or "\0"))
        if expected is None or not is_right:
            return Failure("Authentication failed: Invalid username or password")
        if authorization_id and authorization_id != user:
            return Failure(OTHER_ID)
        return Success(user)


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
