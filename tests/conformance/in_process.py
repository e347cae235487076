"""A Muster in this process, without sockets, on a clock that moves only while a story waits.

It takes the place of the TCP pump: the same bytes go in and out, and a wait of a minute is over at once, because the
clock jumps to whatever is due next.
"""

import copy
import time
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import to_builtins
from msgspec.structs import replace

from coordinator.config import Config
from coordinator.config_layers import read_pairs
from coordinator.core.events import Event
from coordinator.core.principal import Principal
from coordinator.server.sasl.listener import Sasl
from protocol.messages.init_producer_id import InitProducerIdRequest
from storage.files import Files
from storage.memory_files import MemoryFiles
from tests.conformance.client import Flight, Pump, Wire, is_over
from tests.conformance.servers import pairs
from tests.core.shard_checks import check_shard, check_views
from tests.server.in_memory import InMemory
from tests.simulation.promises import check_replay

HOST: Final = "127.0.0.1"
FRAME_BYTES_MAX: Final = 1 << 20
TICK_S: Final = 0.001  # the clock of the server counts whole milliseconds: no step of ours is to fall between two


class InProcess(Pump):
    """All connections of one story to a server of its own."""

    def __init__(self, settings: Mapping[str, str], users: Iterable[str] = ()) -> None:
        self._settings = read_pairs(pairs(settings)).values
        known = "".join(f' user_{user}="{user}"' for user in users)
        self.sasl = (
            Sasl(Config({**self._settings, "sasl.jaas.config": f"Plain required{known};"}), "SASL") if known else None
        )
        self._starts = 0
        self.happened: list[Event] = []  # to groups, without what the present server has told
        self._started_s = 0.0  # when the server that runs now was started, on the pump's clock
        self._server = self._start(MemoryFiles(), int(time.time() * 1000))
        super().__init__(HOST, self._server.listener.port)
        first = self._server.connect()
        for _ in range(4):  # as on a broker that has been used: small numbers are no names in a transcript
            first.ask(InitProducerIdRequest(None, 1000), 4)

    def _start(self, files: Files, wall_ms: int) -> InMemory:
        self._starts += 1
        return InMemory(
            files,
            topics={},
            wall_ms=wall_ms,
            seed=7 * self._starts,
            frame_bytes_max=FRAME_BYTES_MAX,
            host=HOST,
            **self._settings,
        )

    def restart(self) -> None:
        old = self._server
        self.happened += old.events
        self._started_s = self.now_s()
        old.node.close()
        self._server = self._start(old.files, old.clock.now_ms())

    def skip_epochs(self, transactional_id: str, epoch: int) -> None:
        """Tens of thousands of requests would take most of the time of a run."""
        known = self._server.node.world.ledger.transactions.by_id
        known[transactional_id] = replace(known[transactional_id], producer_epoch=epoch, last_producer_epoch=epoch - 1)

    def tell_events(self) -> set[str]:
        """Return what has happened to groups, each in a line without names and times."""
        return {describe(event) for event in (*self.happened, *self._server.events)}

    def check(self) -> None:
        """Check what holds whatever was asked: nothing failed, memory is counted, and is what the logs say."""
        server = self._server
        server.rest()
        world = server.node.world
        assert not world.edge.failures, world.edge.failures
        for partition in world.partitions:
            check_shard(partition.shard)
            check_views(partition.shard)
        settings = {**self._settings, "topics": {}}
        twin = InMemory(copy.deepcopy(server.files), is_loaded=False, wall_ms=server.clock.now_ms(), **settings)
        check_replay(world, twin.node.world)

    def now_s(self) -> float:
        return self._started_s + self._server.seconds

    def connect(self, one: Wire) -> "Client":
        return Client(self._server, one, self.sasl)

    def disconnect(self, one: Wire) -> None:
        """Nothing listens that a wire would have to be taken from."""

    def run(self, for_ms: float, until: "Wire | Flight | None" = None) -> bool:
        """Let happen what happens within `for_ms`, and stop at once when the awaited is there."""
        deadline = self.now_s() + for_ms / 1000
        self._advance(TICK_S)  # no request takes no time
        while not is_over(until):
            if self.now_s() >= deadline:
                return False
            self._advance(min(deadline - self.now_s(), self._until_due_s()))
        return True

    def _advance(self, seconds: float) -> None:
        self._server.advance(seconds)

    def _until_due_s(self) -> float:
        """Return how long nothing is due; never zero."""
        frontend = self._server.frontend
        if frontend.has_work:
            return TICK_S
        deadlines = (frontend.next_deadline_ms(), frontend.next_poll_ms())
        due_s = [(at_ms - self._server.clock.now_ms()) / 1000 for at_ms in deadlines if at_ms is not None]
        if (release_s := frontend.next_release_s()) is not None:
            due_s.append(release_s - self._server.seconds)
        return max(min(due_s, default=float("inf")), TICK_S)


def describe(event: Event) -> str:
    fields = to_builtins(event)
    for name in ("at_ms", "group", "cause", "member", "instance", "client_id", "last_beat_ms", "deadline_ms"):
        fields.pop(name, None)
    of_member = " of a member" if event.member else ""
    after = f" after {event.deadline_ms - event.last_beat_ms} ms" if event.last_beat_ms >= 0 else ""
    return f"{event.cause}{of_member}{after}: " + ", ".join(f"{name} {value}" for name, value in fields.items())


class Client:
    """A wire's end at the server: takes what either side sends to the other."""

    def __init__(self, server: InMemory, wire: Wire, sasl: Sasl | None) -> None:
        self._server, self._wire = server, wire
        self._connection = server.attach(self, sasl=sasl if wire.user == "" else None)
        if wire.user:
            self._connection.principal = Principal("User", wire.user)

    def sendall(self, data: bytes) -> None:
        self._server.frontend.receive(self._connection, data, is_alone=True)

    def receive(self, data: bytes) -> None:
        if data:
            self._wire.receive(data)
        if self._connection.closing:
            self._wire.receive(b"")

    def close(self) -> None:
        self._server.frontend.disconnect(self._connection)
