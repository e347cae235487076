"""Raw connections to one broker, many requests in flight, and when each answer came.

All connections of a story are pumped together, so an answer is stamped when it arrives even while the story waits for
another one. Times are seconds of the pump's clock; bounds are in milliseconds.
"""

import selectors
import socket
import struct
import time
from collections import deque
from typing import Protocol

from tests.conformance import wire


class Lost(Exception):  # noqa: N818 - it says what happened
    """No answer came in time, or the connection was closed instead."""


class Flight:
    """One request on its way: which API and version, when it was sent, and the frame that came back."""

    def __init__(self, api: str, version: int, correlation_id: int, pump: "Pump") -> None:
        self.api, self.version, self.correlation_id, self._pump = api, version, correlation_id, pump
        self.sent_at = pump.now_s()
        self.arrived_at: float | None = None
        self.frame: bytes | None = None

    @property
    def waited_s(self) -> float:
        """Seconds from sending to the arrival of the answer, or until now."""
        return (self._pump.now_s() if self.arrived_at is None else self.arrived_at) - self.sent_at


class Socket(Protocol):
    """What a connection needs of a socket."""

    def sendall(self, data: bytes, /) -> None: ...

    def close(self) -> None: ...


class Wire:
    """One connection. Answers come in the order asked; their correlation ids are checked."""

    def __init__(self, pump: "Pump", client_id: str | None, user: str | None = None) -> None:
        self.pump, self.client_id, self.user = pump, client_id, user
        self.buffer = bytearray()
        self.flights: deque[Flight] = deque()
        self.is_closed = False
        self.correlation_id = 0
        self.socket: Socket = pump.connect(self)

    def send(self, api: str, version: int, values: dict[str, wire.Plain]) -> Flight:
        self.correlation_id += 1
        frame = wire.request_frame(api, version, self.correlation_id, self.client_id, values)
        return self.send_bytes(api, version, frame)

    def send_bytes(self, api: str, version: int, frame: bytes) -> Flight:
        """Send `frame` as it is; the answer will be read as one of `api` in `version`."""
        flight = Flight(api, version, struct.unpack_from(">i", frame, 8)[0] if len(frame) >= 12 else 0, self.pump)
        self.flights.append(flight)
        try:
            self.socket.sendall(frame)
        except OSError:
            self.close()
        return flight

    def receive(self, chunk: bytes) -> None:
        """Take what has arrived, nothing for the end, and stamp the flights that it answers."""
        if not chunk:
            return self.close()
        self.buffer += chunk
        while len(self.buffer) >= 4 and len(self.buffer) >= 4 + (size := struct.unpack_from(">i", self.buffer)[0]):
            frame = bytes(self.buffer[4 : 4 + size])
            del self.buffer[: 4 + size]
            flight = self.flights.popleft()
            flight.arrived_at, flight.frame = self.pump.now_s(), frame
            if (got := struct.unpack_from(">i", frame)[0]) != flight.correlation_id:
                raise Lost(f"{flight.api}: correlation id {got} answers {flight.correlation_id}")
        return None

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self.pump.disconnect(self)
            self.socket.close()


class Pump:
    """All connections of one story to one broker, by TCP and in real time.

    A connection with a user goes to `users_port` and authenticates itself by SASL/PLAIN, or by the story's own requests
    if the user is empty; the others are anonymous.
    """

    def __init__(self, host: str, port: int, users_port: int | None = None) -> None:
        self.host, self.port, self.users_port = host, port, users_port
        self.selector = selectors.DefaultSelector()
        self.sockets: dict[Wire, socket.socket] = {}

    def restart(self) -> None:
        """Stop the broker as an operator does, and start it again on the same files and the same port."""
        raise RuntimeError("this story shares its broker with others: give it a server that it can restart")

    def skip_epochs(self, transactional_id: str, epoch: int) -> None:
        """Give the id's producer this epoch if the broker is one whose state can be set; else requests have to."""

    def now_s(self) -> float:
        """What the clock shows by which answers are timed."""
        return time.monotonic()

    def connect(self, one: Wire) -> Socket:
        """What the wire sends to; what comes back is handed to it while the pump runs."""
        port = self.port if one.user is None else self.users_port
        assert port is not None, "no listener of this server knows users"
        made = self.sockets[one] = socket.create_connection((self.host, port), timeout=10)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if one.user:
            authenticate(made, one.user)
        self.selector.register(made, selectors.EVENT_READ, one)
        return made

    def disconnect(self, one: Wire) -> None:
        self.selector.unregister(self.sockets.pop(one))

    def run(self, for_ms: float, until: "Wire | Flight | None" = None) -> bool:
        """Take what arrives for at most `for_ms`, or until the flight is answered or the wire closed. True if so."""
        deadline = time.monotonic() + for_ms / 1000
        while not is_over(until):
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            if not self.selector.get_map():  # every connection is closed: only time can pass
                time.sleep(left)
                continue
            for key, _ in self.selector.select(left):
                key.data.receive(received(key.data.pump.sockets[key.data]))
        return True

    def close(self) -> None:
        for one in list(self.sockets):
            one.close()
        self.selector.close()


def authenticate(one: socket.socket, user: str) -> None:
    """Log in by SASL/PLAIN as a user whose password is the user's name. Raises Lost when that is refused."""
    token = f"\0{user}\0{user}".encode()
    for api, version, values in (
        ("sasl_handshake", 1, {"mechanism": "PLAIN"}),
        ("sasl_authenticate", 2, {"auth_bytes": token}),
    ):
        one.sendall(wire.request_frame(api, version, 1, None, values))
        (size,) = struct.unpack(">i", exactly(one, 4))
        error = wire.response_values(api, version, exactly(one, size))["error_code"]
        if error != "NONE":
            raise Lost(f"{api}: {error}")


def exactly(one: socket.socket, size: int) -> bytes:
    """So many bytes. Raises Lost when the connection ends before."""
    found = b""
    while len(found) < size:
        chunk = one.recv(size - len(found))
        if not chunk:
            raise Lost("the connection was closed during authentication")
        found += chunk
    return found


def received(one: socket.socket) -> bytes:
    """What has arrived; nothing if the connection is at its end, however it came to it."""
    try:
        return one.recv(1 << 20)
    except OSError:
        return b""


def is_over(awaited: "Wire | Flight | None") -> bool:
    if isinstance(awaited, Wire):
        return awaited.is_closed
    return awaited is not None and awaited.arrived_at is not None
