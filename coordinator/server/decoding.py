"""Long requests, decoded in steps: other requests are decided in between.

A long request waits in the backlog of its connection while it is decoded, and counts as bytes there. One request is
decoded at a time, because what has been read of it takes memory: up to 16 times its bytes. The others wait until it is
decided, unless its connection can decide nothing: it is closed, or its client does not read its responses. Then the
request is begun anew later.
"""

from collections.abc import Generator
from typing import Final

from coordinator.runtime.steps import StepMeter
from coordinator.server.connection import Connection
from coordinator.server.urgency import URGENT_BYTES
from protocol.codec import decode_request_in_steps
from protocol.errors import ProtocolError
from protocol.header import Request

LONG_BYTES: Final = URGENT_BYTES  # what is longer is not urgent, and need not be decided when it arrives


class LongRequests:
    """The long request that is being decoded, if there is one."""

    def __init__(self) -> None:
        self._connection: Connection | None = None
        self._steps: Generator[None, None, Request] | None = None

    def decode(self, connection: Connection, frame: bytes, meter: StepMeter) -> Request | None:
        """Do a step of the next request of a connection. Returns the request when all of it is read, else None.

        Raises ProtocolError.
        """
        if self._connection is not connection:
            if self._connection is not None and self._connection.may_decide():
                return None  # that one first
            self._connection, self._steps = connection, decode_request_in_steps(frame)
        assert self._steps is not None, "a connection has steps"
        try:
            request = decode_more(self._steps, meter)
        except ProtocolError:
            self.forget(connection)
            raise
        if request is not None:
            self.forget(connection)
        return request

    def forget(self, connection: Connection) -> None:
        """Decode the request of a connection no further."""
        if self._connection is connection:
            self._connection = self._steps = None


def decode_more(steps: Generator[None, None, Request], meter: StepMeter) -> Request | None:
    """Do a step of decoding. Returns the request when all of it is read, else None. Raises ProtocolError."""
    meter.begin()
    try:
        next(steps)
        while not meter.is_over():
            next(steps)
    except StopIteration as end:
        request: Request = end.value
        return request
    return None
