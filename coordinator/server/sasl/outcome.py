"""What follows from a client's token."""

from collections.abc import Callable
from typing import Final, Protocol

from msgspec import Struct

OTHER_ID: Final = "Authentication failed: Client requested an authorization id that is different from username"


class Challenge(Struct, frozen=True):
    """The exchange goes on: these bytes are for the client."""

    token: bytes


class Success(Struct, frozen=True):
    """The client is this user. `expires_s`: what it has shown is good until then, in seconds since 1970."""

    user: str
    token: bytes = b""
    expires_s: float | None = None


class Failure(Struct, frozen=True):
    """The client is nobody. The message is for the client, and must not help to guess."""

    message: str


class Work(Struct, frozen=True):
    """What follows takes too long for the loop: a thread finds it out. `find` raises nothing."""

    find: "Callable[[], Challenge | Success | Failure]"


Outcome = Challenge | Success | Failure | Work


class Machine(Protocol):
    """One exchange of one mechanism."""

    def step(self, token: bytes) -> Outcome:
        """Take the client's next token."""
