"""A request that a client sends again with other rows: of its frame, nothing but the rows is read.

│ key, version │ correlation id │ client id, group, member, topic │ rows │ tags ┆     an OffsetCommit of one topic
└── the same ──┴───── own ──────┴──────────── the same ───────────┴─ own ┴─ the same
"""

from __future__ import annotations

from struct import Struct as Layout
from typing import Any, Final, final

from msgspec import Struct
from msgspec.structs import replace

from protocol.header import Request
from protocol.rows import RowReader, Rows

_CORRELATION_ID: Final = Layout(">i")


@final
class RepeatedRows(Struct, frozen=True, gc=False):
    """What a request with one topic, whose partitions are rows, has beside these: the messages, and the bytes."""

    request: Request
    head: bytes  # API key and version
    before: bytes  # from the client id to the rows
    after: bytes
    start: int  # of the rows
    end: int
    frame_bytes: int
    read_rows: RowReader

    def read(self, frame: bytes) -> Request | None:
        """Return the request of a frame that differs in its correlation id and its rows alone, else None."""
        if (
            len(frame) != self.frame_bytes
            or frame[8 : self.start] != self.before
            or frame[self.end :] != self.after
            or frame[:4] != self.head
        ):
            return None
        rows = self.read_rows(frame, self.start, self.end)
        if rows is None:
            return None
        (correlation_id,) = _CORRELATION_ID.unpack_from(frame, 4)
        same = self.request
        body = replace(same.body, topics=(replace(same.body.topics[0], partitions=rows),))
        return Request(same.api_key, same.version, correlation_id, same.client_id, body)


def find_rows(request: Request, frame: bytes, bytes_max: int) -> RepeatedRows | None:
    """Return what a request that was read has beside its rows.

    None unless it has one topic, with rows, and at most so many bytes beside them.
    """
    topics: Any = request.body.topics
    if len(topics) != 1 or type(rows := topics[0].partitions) is not Rows or rows.shape.read is None:
        return None
    start, end = rows.start, rows.start + len(rows) * rows.shape.row_bytes
    before, after = frame[8:start], frame[end:]
    if len(before) + len(after) > bytes_max:
        return None
    body = replace(request.body, topics=(replace(topics[0], partitions=()),))
    return RepeatedRows(replace(request, body=body), frame[:4], before, after, start, end, len(frame), rows.shape.read)
