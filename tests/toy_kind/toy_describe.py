"""The messages of ToyDescribe: who is there."""

from protocol.schema import Field, Message, Schema
from protocol.wire import BOOLEAN, INT16, INT32, STRING, Array

CHANGES: dict[int, str] = {}


class ToyDescribeRequest(Message):
    names: tuple[str, ...] = ()
    include_authorized_operations: bool = False


class ToyDescribeResponseGroup(Message):
    error_code: int = 0
    group_id: str = ""
    visits: int = 0
    guests: tuple[str, ...] = ()


class ToyDescribeResponse(Message):
    groups: tuple[ToyDescribeResponseGroup, ...] = ()


REQUEST = Schema(ToyDescribeRequest, (Field("names", Array(STRING)), Field("include_authorized_operations", BOOLEAN)))
RESPONSE = Schema(
    ToyDescribeResponse,
    (
        Field(
            "groups",
            Array(
                Schema(
                    ToyDescribeResponseGroup,
                    (
                        Field("error_code", INT16),
                        Field("group_id", STRING),
                        Field("visits", INT32),
                        Field("guests", Array(STRING)),
                    ),
                )
            ),
        ),
    ),
)
