"""A heartbeat that is sent again: nearly all of them are, and they are most of what a server does.

A connection keeps its latest successful heartbeat: the bytes of request and response, and what it has done
(`core/renewal.py`). While its group is the same value, the same bytes are answered by the same bytes, and only the
session is renewed. Without this file, each heartbeat would be decided like any other request.
"""

from typing import Final

from msgspec import Struct

from coordinator.core.renewal import Renewal

FRAME_BYTES_MAX: Final = 256  # of a heartbeat that is kept


class RepeatedHeartbeat(Struct, frozen=True, gc=False):
    """A successful heartbeat, and the frames of the request and its response without the correlation id."""

    renewal: Renewal
    client_id: str | None
    expires_s: float  # the client's authentication, by the real clock
    request_head: bytes
    request_tail: bytes
    response_head: bytes
    response_tail: bytes

    def repeat(self, frame: bytes, client_id: str | None, now_ms: int) -> bytes | None:
        """Do it again, and return the response. Return None for another request, or if something has happened to the
        group: it has to be decided then. `client_id` is that of the connection's latest request."""
        if frame[8:] != self.request_tail or frame[:4] != self.request_head or client_id != self.client_id:
            return None
        renewal = self.renewal
        if not (renewal.validity.is_current and renewal.timer.postpone(now_ms + renewal.timeout_ms)):
            return None
        return self.response_head + frame[4:8] + self.response_tail


def keep(
    renewal: Renewal | None, client_id: str | None, expires_s: float, frame: bytes, response: bytes
) -> RepeatedHeartbeat | None:
    """Return a successful heartbeat as a connection keeps it; None if it must be decided each time."""
    if renewal is None or len(frame) > FRAME_BYTES_MAX:
        return None
    return RepeatedHeartbeat(renewal, client_id, expires_s, frame[:4], frame[8:], response[:4], response[8:])
