"""Why something that was asked for is not done."""

from msgspec import Struct

from protocol.errors import ErrorCode


class Refusal(Struct, frozen=True):
    """Kafka's error code, and words for whoever reads the client's log."""

    error: ErrorCode
    message: str | None = None
