"""Responses on their way out. This is the one place that decides whether a response may leave.

    add ─► outgoing ─► end_turn ─┬─ all that it rests on is in the log ──────────► take ─► the poller sends
                                 └─ it requires a sync that has not ended ─► held ─┴─ withdrawn: the records are lost

Responses of a connection leave in the order of its requests: behind one that is held, all others are held as well.
Without --fsync nothing is held, as the poller sends only what a turn has left when its records are appended. With it,
a response requires one sync, of those that `runtime/group_commit.py` numbers: a response that tells of a single group
that of the group's latest record, any other that of all that was decided before. If the disk fails a topic's log, the
responses that rest on it are replaced by others; if it fails one of the coordinator's own, the process ends.

Latencies are counted here too: a request is over when its response may leave.
"""

from collections import deque
from collections.abc import Collection, Sequence
from typing import Any, Final

from msgspec import Struct

from coordinator.core.decision import Done, Silent
from coordinator.metrics import Stats
from coordinator.runtime.engine import Engine
from coordinator.server.budget import Budget
from coordinator.server.connection import Connection, HeldResponses, ParkedRequest, Piece
from coordinator.server.connections import Connections
from coordinator.server.turn import Turn
from protocol.apis import keys_with
from protocol.codec import encode_response
from protocol.errors import ErrorCode
from protocol.header import Request
from protocol.traits import Trait
from storage.segment import SHARED_BYTES_MIN

NEWEST: Final = 2**62
"""Larger than the number of any sync: a response that requires it waits for the newest one."""
HELD_BYTES_MAX: Final = 4 * 1_048_576
"""Of responses that wait for the disk. Beyond it, nothing more is decided until they have left."""
JOINED_BYTES_MAX: Final = SHARED_BYTES_MIN - 1
"""Responses that are sent as one piece. Larger ones are not copied, and may hold ranges of files."""
OF_TOPICS: Final = keys_with(Trait.OF_TOPICS)
HEARTBEATS: Final = keys_with(Trait.HEARTBEAT)


class Revocable(Struct, frozen=True, gc=False):
    """A response that may rest on records of topics, and the pieces of it that are outgoing or held; none if it is
    not whole yet."""

    connection: Connection
    request: Request | ParkedRequest
    response: Any
    frame: list[Piece]


class DecidedRequests(Struct, frozen=True):
    """Requests that a turn has decided, for their latencies."""

    began_s: float  # the turn
    at_once: list[int]  # the API keys of those that arrived in that turn
    late: list[tuple[int, float]]  # of those that arrived before: API key, and when


class SyncWait:
    """All that waits for one sync."""

    __slots__ = ("bytes", "connections", "decided", "revocable")

    def __init__(self) -> None:
        self.connections: dict[Connection, None] = {}  # those that have responses which require it
        self.bytes = 0  # of these responses
        self.revocable: list[Revocable] = []  # of the turns before it
        self.decided: list[DecidedRequests] = []  # by these turns


class Outbox:
    """The responses of all connections, from the moment that they are bytes until the poller takes them.

    It alone writes `outgoing`, `outgoing_bytes`, `required_sync`, `held` and `held_bytes` of a connection.
    """

    def __init__(
        self, engine: Engine, turn: Turn, connections: Connections, stats: Stats, response_bytes_max: int
    ) -> None:
        self._turn = turn
        self._connections = connections
        self._stats = stats
        self.unsent: Budget[Connection] = Budget(response_bytes_max)  # bytes that the clients' sockets do not take
        self.decided: list[int] = []  # by this turn: the API keys of requests that arrived in it
        self._decided_late: list[tuple[int, float]] = []  # of those that arrived before: API key, and when
        self.replies: deque[tuple[int, Done | Silent]] = deque()  # to parked requests, by ticket, to be encoded
        self.set_engine(engine)

    def set_engine(self, engine: Engine) -> None:
        """Go on with this engine, and forget the responses of another one."""
        self._engine = engine
        self._commit = engine.group_commit
        self.is_synced = engine.is_synced
        self._waits: dict[int, SyncWait] = {}  # by the number of the sync
        self.held_bytes = 0  # of responses that wait for a sync
        self._revocable: list[Revocable] = []  # of this turn
        self.replies.clear()

    # -- into the box --------------------------------------------------------------------------------------------------

    def add(self, connection: Connection, piece: Piece, group_id: str | None = None) -> None:
        """Put a response, or a piece of it, behind the others of its connection.

        With a `group_id` it tells of that group alone; without, it may rest on all that was decided before.
        """
        size = len(piece)
        connection.outgoing.append(piece)
        connection.outgoing_bytes += size
        self._turn.response_bytes += size
        if self.is_synced:
            required = NEWEST if group_id is None else self._commit.find_covering_sync_of(group_id)
            if required > connection.required_sync:
                connection.required_sync = required

    def note_revocable(
        self, connection: Connection, request: Request | ParkedRequest, response: Any, frame: list[Piece]
    ) -> None:
        """Note which response the pieces of a frame are, if it may rest on records of topics, which can be lost."""
        if self.is_synced and request.api_key in OF_TOPICS:
            self._revocable.append(Revocable(connection, request, response, frame))

    def drop(self, connection: Connection) -> None:
        """Drop all responses of a connection that have not left."""
        connection.outgoing, connection.outgoing_bytes = [], 0
        connection.held.clear()
        connection.held_bytes = 0

    def note_unsent(self, connection: Connection, unsent_bytes: int) -> None:
        """Note how many bytes of responses wait in the poller, because the client does not take them."""
        self.unsent.set(connection, unsent_bytes)
        self._engine.note_unsent(self.unsent.total)

    # -- out of it -----------------------------------------------------------------------------------------------------

    def take(self, connection: Connection) -> Sequence[Piece]:
        """Remove and return the responses that may leave, joined into one piece if they are small."""
        outgoing, size = connection.outgoing, connection.outgoing_bytes
        if outgoing:
            connection.outgoing, connection.outgoing_bytes = [], 0
        return outgoing if len(outgoing) < 2 or size > JOINED_BYTES_MAX else (b"".join(outgoing),)  # type: ignore[arg-type]  # no range is that small

    @property
    def next_s(self) -> float | None:
        """With --fsync, when the next sync begins at the latest, by the real clock; None if that is not known.

        What waits for a sync that is under way has no time: the poller is woken when it is over."""
        return self._commit.next_sync_s()

    def sync(self) -> None:
        """Wait until all that was decided is on the disk: what requires it leaves at the end of this turn."""
        self._engine.append()

    def begin_turn(self) -> None:
        """Where responses are held: complete the sync that is over, and begin the next one. If too much waits for the
        disk, wait for it."""
        if self.held_bytes > HELD_BYTES_MAX or self._commit.has_gathered_much:
            self.sync()
        self._commit.continue_syncs()

    def end_turn(self, touched: dict[Connection, None]) -> None:
        """With --fsync, hold the responses whose sync has not ended, and let go those whose sync has: their
        connections are touched."""
        if lost := self._commit.take_lost():
            self._withdraw(lost)
        newest, ended = self._commit.find_covering_sync(), self._commit.last_ended
        for connection in touched:
            required, connection.required_sync = min(connection.required_sync, newest), 0
            if connection.outgoing and (connection.held or required > ended):
                self._hold(connection, required)
        if newest > ended:
            wait = self._wait_for(newest)
            wait.revocable += self._revocable
            wait.decided.append(self._take_decided())
        else:  # what the next sync was to cover is lost: it does not begin, and nobody waits for another one
            ended = max([ended, *self._waits])
        self._revocable = []
        for number in sorted([number for number in self._waits if number <= ended]):
            self._release(self._waits.pop(number), ended, touched)

    def _wait_for(self, number: int) -> SyncWait:
        wait = self._waits.get(number)
        if wait is None:
            wait = self._waits[number] = SyncWait()
        return wait

    def _hold(self, connection: Connection, required: int) -> None:
        """Let the outgoing responses of a connection wait for a sync, behind those that wait already."""
        held, size = connection.held, connection.outgoing_bytes
        if held:
            required = max(required, held[-1].required_sync)
        held.append(HeldResponses(required, connection.outgoing, size))
        connection.held_bytes += size
        connection.outgoing, connection.outgoing_bytes = [], 0
        wait = self._wait_for(required)
        wait.connections[connection] = None
        wait.bytes += size
        self.held_bytes += size

    def _release(self, wait: SyncWait, ended: int, touched: dict[Connection, None]) -> None:
        """Let go what has waited for a sync, and count the latencies of the requests."""
        self.held_bytes -= wait.bytes
        for connection in wait.connections:
            held = connection.held
            while held and held[0].required_sync <= ended:
                released = held.pop(0)
                connection.outgoing += released.pieces
                connection.outgoing_bytes += released.bytes
                connection.held_bytes -= released.bytes
            touched[connection] = None
        for decided in wait.decided:
            self._count(decided.began_s, decided.at_once, decided.late, self._turn.real_s())

    # -- records that are lost -----------------------------------------------------------------------------------------

    def _withdraw(self, lost: Collection[tuple[str, int]]) -> None:
        """Replace the responses that rest on records of these partitions, which are lost.

        One that is not whole, or that a fault delays or shortens, cannot be replaced: its connection is closed.
        """
        withdraw = self._engine.world.dataplane.withdraw
        for number, (ticket, outcome) in enumerate(self.replies):
            if isinstance(outcome, Done):
                self.replies[number] = ticket, Done(withdraw(outcome.response, lost))
        for revocable in (*[self._waits[number].revocable for number in sorted(self._waits)], self._revocable):
            for number, one in enumerate(revocable):
                without = withdraw(one.response, lost)
                if without is one.response:
                    continue
                request = one.request
                self._stats.count_error(request.api_key, ErrorCode.KAFKA_STORAGE_ERROR)
                data = encode_response(request.api_key, request.version, request.correlation_id, without)
                if one.frame and self._replace(one.connection, one.frame, data):
                    revocable[number] = Revocable(one.connection, request, without, [data])
                else:
                    self._abandon(one.connection, request)

    def _replace(self, connection: Connection, frame: list[Piece], data: bytes) -> bool:
        """Replace the frame of a response by `data`. Return whether the frame was still there."""
        for pieces in (*[held.pieces for held in connection.held], connection.outgoing):
            at = next((at for at, piece in enumerate(pieces) if piece is frame[0]), None)
            if at is not None:
                pieces[at : at + len(frame)] = [data]
                self._recount(connection)
                return True
        return False

    def _recount(self, connection: Connection) -> None:
        connection.outgoing_bytes = sum(map(len, connection.outgoing))
        connection.held = [HeldResponses(one.required_sync, one.pieces, sum(map(len, one.pieces)))
                           for one in connection.held]  # fmt: skip
        connection.held_bytes = sum([one.bytes for one in connection.held])

    def _abandon(self, connection: Connection, request: Request | ParkedRequest) -> None:
        """Close a connection without the responses that it would get."""
        self.drop(connection)
        if connection.parked is request:  # its response is being encoded, or delayed: nobody waits for that any more
            self._connections.unpark(connection)
        self._connections.close(connection, "internal error")

    # -- latencies -----------------------------------------------------------------------------------------------------

    def note_decided_late(self, api_key: int, arrived_s: float) -> None:
        """Note that a request is decided in a later turn than that in which it arrived."""
        self._decided_late.append((api_key, arrived_s))

    def count_latencies(self) -> None:
        """Count how long the requests have taken that this turn has decided and that did not wait for the disk: from
        their arrival to the end of the append."""
        turn = self._turn
        if self.decided or self._decided_late:
            self._count(turn.began_s, self.decided, self._decided_late, turn.ended_s)
            self.decided, self._decided_late = [], []

    def _take_decided(self) -> DecidedRequests:
        """Return what was decided and waits for the disk. Heartbeats hardly ever do."""
        at_once, late = self.decided, self._decided_late
        self.decided = [key for key in at_once if key in HEARTBEATS]
        self._decided_late = [one for one in late if one[0] in HEARTBEATS]
        return DecidedRequests(
            self._turn.began_s,
            [key for key in at_once if key not in HEARTBEATS],
            [one for one in late if one[0] not in HEARTBEATS],
        )

    def _count(self, began_s: float, at_once: list[int], late: list[tuple[int, float]], left_s: float) -> None:
        count = self._stats.count_response
        if len(at_once) == 1:
            count(at_once[0], left_s - began_s)
        else:
            for api_key in set(at_once):
                count(api_key, left_s - began_s, at_once.count(api_key))
        for api_key, arrived_s in late:
            count(api_key, left_s - arrived_s)
