"""Connections between clients and the server: slow, cut into chunks, and now and then lost in one way or another."""

from collections.abc import Callable
from random import Random
from typing import Any

from msgspec.structs import replace

from protocol.apis import api_of
from protocol.codec import encode_request
from tests.simulation.clock import EventQueue
from tests.simulation.requests import Request
from tests.simulation.server import Server, Session

Heard = Callable[[Any], None]
"""Gets the answer, or None when there is none: the connection is gone, or the client has waited for long enough."""


class Network:
    """Carries chunks. `trouble` is how likely each request is to meet a fault of its connection."""

    def __init__(self, clock: EventQueue, server: Server, dice: Random) -> None:
        self.clock, self.server, self.dice = clock, server, dice
        self.trouble = 0.0
        self.faults = 0
        self.members: list[Any] = []
        self._positions = 0

    def delay_ms(self) -> int:
        late = 2_000 if self.trouble and self.dice.random() < self.trouble else 0
        return int(self.dice.expovariate(1 / 3)) + late

    def has_trouble(self) -> bool:
        if not self.trouble or self.dice.random() >= self.trouble:
            return False
        self.faults += 1
        return True

    def position(self) -> int:
        """A number that nobody has sent before."""
        self._positions += 1
        return self._positions

    def topic_name(self, topic_id: bytes) -> str:
        return self.server.promises.topic_names[topic_id]

    def topic_id(self, name: str) -> bytes:
        return self.server.promises.topic_id(name)

    def take(self, member: Any, owned: set[tuple[str, int]]) -> None:
        """A member owns this from now on."""
        member.owned = owned
        self.server.promises.owned(self.server, member, self.members)

    def take_tasks(self, member: Any, tasks: Any) -> None:
        """A member of an application runs these tasks from now on."""
        member.tasks = tasks
        self.server.promises.run(self.server, member, self.members)


class Link:
    """The client's end of a connection."""

    def __init__(self, network: Network, client_id: str) -> None:
        self._network = network
        self._client_id = client_id
        self._waiting: dict[int, Heard] = {}
        self._numbers = 0
        self._sends_at_ms = self._hears_at_ms = 0  # chunks do not overtake each other
        self.is_open = True
        self._is_cut = False  # what is sent from now on does not arrive, and the client does not know
        self._session: Session | None = network.server.connect(client_id, self._closed)

    def ask(self, message: Any, version: int, timeout_ms: int, heard: Heard) -> None:
        """Send a request. Exactly one of these follows: its answer, or None."""
        network = self._network
        self._numbers += 1
        number = self._numbers
        self._waiting[number] = heard
        network.clock.after(timeout_ms, lambda: self.close() if number in self._waiting else None)
        if self._session is None:
            network.clock.after(1, self.close)
            return
        key = api_of(message).key
        data = encode_request(key, version, number, self._client_id, message)
        request = Request(number, key, version, message, lambda response: self._answer(number, response))
        if network.has_trouble():
            self._meet_trouble(data, request)
        else:
            self._send(data, request)

    def _send(self, data: bytes, request: Request) -> None:
        cut = self._network.dice.randrange(len(data)) if self._network.dice.random() < 0.1 else 0
        if cut:
            self._carry(data[:cut], None)
        self._carry(data[cut:], request)

    def _carry(self, chunk: bytes, completes: Request | None) -> None:
        session, server, clock = self._session, self._network.server, self._network.clock
        assert session is not None, "the connection was made"
        self._sends_at_ms = max(clock.now_ms + self._network.delay_ms(), self._sends_at_ms)
        if not self._is_cut:
            clock.after(self._sends_at_ms - clock.now_ms, lambda: server.receive(session, chunk, completes))

    def _meet_trouble(self, data: bytes, request: Request) -> None:
        """The request is lost, or half of it; or it arrives and its client is gone; or it arrives twice."""
        session, server, clock = self._session, self._network.server, self._network.clock
        assert session is not None, "the connection was made"
        unheard = replace(request, heard=lambda _: None)
        kind = self._network.dice.choice(("lost", "half", "closed", "silent", "twice", "slow"))
        if kind == "half":
            self._carry(data[: len(data) // 2], None)
        if kind in ("closed", "silent"):
            self._carry(data, unheard)
        self._is_cut = self._is_cut or kind in ("lost", "half", "closed", "silent")
        if self._is_cut:  # the server learns at once or late that nobody is there
            late_ms = self._network.delay_ms() if kind == "closed" else 20_000
            clock.after(max(self._sends_at_ms - clock.now_ms, 0) + late_ms, lambda: server.disconnect(session))
        if kind == "twice":
            self._carry(data, unheard)
            self._carry(data, request)
        if kind == "slow":
            server.slow_down(session, self._network.dice.choice((200, 5_000)))
            self._carry(data, request)

    def _answer(self, number: int, response: Any) -> None:
        """The answer has left the server: it arrives a little later, unless the connection has gone by then."""
        clock = self._network.clock
        self._hears_at_ms = max(clock.now_ms + self._network.delay_ms(), self._hears_at_ms)
        clock.after(self._hears_at_ms - clock.now_ms, lambda: self._arrive(number, response))

    def _arrive(self, number: int, response: Any) -> None:
        heard = self._waiting.pop(number, None)
        if heard is not None:
            heard(response)

    def close(self) -> None:
        """The client closes the connection; whoever waits gets nothing."""
        if self.is_open:
            self._closed()
            if self._session is not None:
                session, server = self._session, self._network.server
                self._network.clock.after(self._network.delay_ms(), lambda: server.disconnect(session))

    def _closed(self) -> None:
        self.is_open = False
        waiting, self._waiting = self._waiting, {}
        for heard in waiting.values():
            heard(None)
