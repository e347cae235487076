"""The messages of ToyVisit: a member comes, or comes again."""

from protocol.schema import Field, Message, Schema
from protocol.wire import INT16, INT32, STRING

CHANGES: dict[int, str] = {}


class ToyVisitRequest(Message):
    group_id: str = ""
    member_id: str = ""


class ToyVisitResponse(Message):
    error_code: int = 0
    visits: int = 0


REQUEST = Schema(ToyVisitRequest, (Field("group_id", STRING), Field("member_id", STRING)))
RESPONSE = Schema(ToyVisitResponse, (Field("error_code", INT16), Field("visits", INT32)))
