"""Why something that was asked for is not done: the error that is answered, and a sentence for people."""

from typing import Final

from msgspec import Struct
from msgspec.structs import force_setattr

from protocol.errors import ErrorCode
from protocol.messages.join_group import JoinGroupResponse

TEXT_CHARACTERS_MAX: Final = 1_000  # characters: at most 4,000 of the 32,767 bytes that a text may have in an answer


class Refusal(Struct, frozen=True, gc=False):
    """Kafka's error code, and words for whoever reads the client's log; clients themselves read the code.

    The words may hold what the client sent, which may be as long as an answer's text or longer.
    """

    error: ErrorCode
    message: str | None = None

    def __post_init__(self) -> None:
        if self.message is not None and len(self.message) > TEXT_CHARACTERS_MAX:
            force_setattr(self, "message", truncate(self.message))


def truncate(text: str) -> str:
    """Return a text that fits into a response: of a long one the beginning and the end."""
    if len(text) <= TEXT_CHARACTERS_MAX:
        return text
    return f"{text[: TEXT_CHARACTERS_MAX // 2]} ... {text[-TEXT_CHARACTERS_MAX // 2 + 5 :]}"


def refuse_join(error: ErrorCode, member_id: str, version: int) -> JoinGroupResponse:
    """Refuse a JoinGroup. Before version 7 the protocol's name cannot be null, and is empty."""
    return JoinGroupResponse(
        error_code=error, member_id=member_id, protocol_name=None if version >= 7 else "", generation_id=-1
    )
