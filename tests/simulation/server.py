"""A server process of a simulated history: started, stalled, killed and started again, always on the same disk."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

from msgspec.structs import replace

from coordinator.core.events import Event
from coordinator.core.moves import BrokerVerb
from coordinator.core.verbs import VerbResponse
from coordinator.runtime.janitor import Janitor
from coordinator.runtime.node import Node
from coordinator.server.connection import Connection
from protocol.codec import decode_response
from protocol.framing import FrameBuffer
from storage.files import StorageError
from storage.layout import DamagedLog
from tests.server.in_memory import DATA_DIR, InMemory
from tests.simulation.broken import Broken, promise
from tests.simulation.clock import EventQueue
from tests.simulation.promises import Promises
from tests.simulation.requests import Request
from tests.storage.crashing_disk import CrashingDisk, ProcessKill

RESTART_MS = (500, 4_000)
UPKEEP_MS = 7_000  # between two rounds of the janitor
COMPACTION_BYTES_MIN = 4_096  # so that a history of a few hundred kilobytes is compacted often


class Slowness:
    """How long syncs take that go on beside the turns, in simulated milliseconds."""

    def __init__(self, dice: Random, some_ms: Sequence[int]) -> None:
        self._dice, self._some_ms = dice, some_ms

    def take_ms(self) -> int:
        """How long the next one takes."""
        return self._dice.choice(self._some_ms)

    def is_patient(self) -> bool:
        """Whether the next cut of the power waits for a sync."""
        return self._dice.random() < 0.5


class Session:
    """The server's end of one connection."""

    def __init__(self, connection: Connection, on_close: Callable[[], None]) -> None:
        self.connection = connection
        self.on_close = on_close
        self.outstanding: deque[Request] = deque()
        self.first: Request | None = None  # that is parked, and since when
        self.first_ms = 0
        self.held: Request | None = None  # the first whose response waits for the disk, and since when
        self.held_ms = 0
        self.is_slow = False  # its client takes no answers for now
        self.is_closed = False
        self.unsent: list[tuple[Request, Any]] = []
        self.unsent_bytes = 0
        self.frames = FrameBuffer(1 << 24)


class Server:
    """Takes chunks while it runs. A storage failure or a kill ends the process; it starts again a little later."""

    def __init__(
        self,
        clock: EventQueue,
        dice: Random,
        promises: Promises,
        *,
        is_synced: bool,
        slowness: Slowness | None,
        topics: Mapping[str, int],
        settings: Mapping[str, Any],
    ) -> None:
        """Without a `slowness`, syncs take no time."""
        self.clock = clock
        self.disk = CrashingDisk()
        self.disk.is_slow = slowness is not None
        self._slowness = slowness
        self._syncing: object = None  # whose end is an event already
        self._cuts_in_sync = False  # whether the power is cut while the next sync is under way
        self.disk.make_directory(DATA_DIR)
        self.is_synced = is_synced
        self.wall_shift_ms = 0  # how far the wall clock is off at the next start
        self.requests = self.starts = self.compactions = self.turns = 0
        self.process: InMemory | None = None
        self.is_ready = False
        self._dice, self.promises = dice, promises
        self._topics, self.settings = topics, settings
        self._sessions: dict[Connection, Session] = {}
        self._answers: list[tuple[Session, Request, Any]] = []
        self._inbox: list[tuple[Session, Callable[[], object]]] = []
        self._is_alone = False  # whether the turn has begun with a single one of them
        self._boot_ms = 0
        self._frozen_s: float | None = None
        self._stalled_until_ms = 0
        self._turn_at_ms: int | None = None
        self._upkeep: Iterator[None] | None = None

    # -- the process ---------------------------------------------------------------------------------------------------

    @property
    def is_up(self) -> bool:
        return self.process is not None

    @property
    def node(self) -> Node:
        assert self.process is not None, "the server runs"
        return self.process.node

    def take_events(self) -> list[Event]:
        """Return what has happened to groups since this was last asked."""
        if self.process is None:
            return []
        events, self.process.events[:] = self.process.events[:], []
        return events

    def now_ms(self) -> int:
        """The server's own time."""
        assert self.process is not None, "the server runs"
        return self.process.clock.now_ms()

    def start(self) -> None:
        """Begin a process on what is on the disk; it serves while it loads."""
        self.starts += 1
        self._boot_ms, self._frozen_s, self._stalled_until_ms = self.clock.now_ms, None, 0
        self.process = self._guard(self._boot)
        if self.process is not None:
            self._janitor = Janitor(self.process.node, self.now_ms(), rest_rounds=0)
            self.clock.after(1, self._in_this_life(self._load))

    def _boot(self) -> InMemory:
        process = InMemory(
            self.disk,
            is_loaded=False,
            is_synced=self.is_synced,
            topics=self._topics,
            monotonic=self._seconds,
            waker=self,
            wall_ms=self.clock.now_ms + self.wall_shift_ms,
            seed=self._dice.randrange(1 << 30),
            **self.settings,
        )
        handler = process.frontend.handler
        decide = handler.decide

        def note_and_decide(connection: Connection, frame: bytes, *decoded: Any) -> int:
            outstanding = self._sessions[connection].outstanding
            self.promises.note_decision(next(request for request in outstanding if not request.is_decided))
            return decide(connection, frame, *decoded)

        handler.decide = note_and_decide
        return process

    def wake(self) -> None:
        """A sync has ended."""
        self._schedule_turn(self._dice.choice((0, 0, 1)))

    def _watch_disk(self) -> None:
        """Let a sync that has begun end in its time, if the power lasts."""
        if self.disk.syncing and self.disk.syncing[0] is not self._syncing and self._slowness is not None:
            self._syncing = syncing = self.disk.syncing[0]
            ms = self._slowness.take_ms()
            if self._cuts_in_sync:
                self._cuts_in_sync = False
                self.clock.after(
                    ms // 2, self._in_this_life(lambda: self._end("power cut", self.disk.crash(self._dice)))
                )
                ms += 1
            self.clock.after(ms, self._in_this_life(syncing.end))

    def _seconds(self) -> float:
        return (self.clock.now_ms - self._boot_ms) / 1000 if self._frozen_s is None else self._frozen_s

    def _load(self) -> None:
        """Take one step of the loading; turns may come in between."""
        assert self.process is not None, "only a running process loads"
        loading = self.process.loading
        step = self._guard(lambda: next(loading, "loaded"))
        if step == "loaded":
            self.is_ready = True
            self.promises.note(self.clock.now_ms, "loaded")
            self.clock.after(UPKEEP_MS, self._in_this_life(self._tend))
            self._schedule_turn(0)
        elif self.is_up:
            self.clock.after(self._dice.choice((0, 1, 20)), self._in_this_life(self._load))

    def _tend(self) -> None:
        """Take one step of the upkeep, between the turns."""
        if self._upkeep is None:
            for log in self.node.compacted_logs():
                log.config = replace(log.config, compaction_bytes_min=COMPACTION_BYTES_MIN)
            self._upkeep = self._janitor.round(self.now_ms())
        upkeep = self._upkeep
        if self._guard(lambda: next(upkeep, "done")) == "done":
            self._upkeep = None
            self.clock.after(UPKEEP_MS, self._in_this_life(self._tend))
        elif self.is_up:
            self.clock.after(self._dice.choice((0, 1, 5)), self._in_this_life(self._tend))

    def stop(self) -> None:
        """Stop as on SIGTERM."""
        if self.process is not None:
            self._guard(self.process.node.close)
            if self.is_up:
                self._end("stopped", self.disk.copy())

    def kill(self) -> None:
        """End as on SIGKILL, now: what was read and not yet decided is lost, what was written is there."""
        if self.is_up:
            self._end("killed", self.disk.copy())

    def cut_power(self) -> None:
        """End, and leave on the disk what a power cut may leave; on a slow disk, while it syncs as often as not."""
        if self.is_up and self.is_synced and self._slowness is not None and self._slowness.is_patient():
            self._cuts_in_sync = True
        elif self.is_up:
            self._end("power cut", self.disk.crash(self._dice))

    def kill_within(self, calls: int) -> None:
        """End as on SIGKILL at the disk call after so many."""
        self.disk.killed_at = self.disk.calls + calls

    def fail_within(self, calls: int, errno: int) -> None:
        """Let the disk call after so many fail."""
        self.disk.fail[self.disk.calls + calls] = errno

    def command(self, *verbs: BrokerVerb) -> None:
        """Do what an operator asks of brokers and coordinators, all of it in one turn."""
        process = self.process
        assert process is not None, "the server runs"

        def act() -> None:
            process.frontend.begin()
            for verb in verbs:
                self.promises.note(self.now_ms(), repr(verb))
                done = process.node.command(verb, process.frontend.turn.now_ms, process.frontend.handler.fresh_id)
                promise(done == VerbResponse(), "a coordinator can always move", lambda d=done: repr(d))

        self._guard(act)
        if self.is_up:
            self._schedule_turn(0)

    def stall(self, ms: int) -> None:
        """Give the process no CPU for a while: what arrives meanwhile is read in one turn."""
        self._stalled_until_ms = self.clock.now_ms + ms
        self._schedule_turn(ms)

    def freeze_clock(self, ms: int) -> None:
        """Let the process's clock stand for a while, then jump to the right time."""
        self._frozen_s = self._seconds()
        self.clock.after(ms, self._in_this_life(self._thaw))

    def _thaw(self) -> None:
        self._frozen_s = None
        self._schedule_turn(0)

    def _end(self, how: str, left: CrashingDisk) -> None:
        sessions, self._sessions = self._sessions, {}
        lost = [request for session in sessions.values() for request in session.outstanding]
        self.promises.ended(self, how, lost)
        self.process, self.is_ready, self._upkeep = None, False, None
        self._inbox.clear()
        self._turn_at_ms = None
        self.disk = left
        for session in sessions.values():
            session.is_closed = True
            self.clock.after(self._dice.choice((1, 50, 12_000)), session.on_close)
        self.clock.after(self._dice.randint(*RESTART_MS), self.start)

    def _in_this_life(self, act: Callable[[], None]) -> Callable[[], None]:
        process = self.process
        return lambda: act() if self.process is process and process is not None else None

    def _guard(self, act: Callable[[], Any]) -> Any:
        """Call the product. A failing disk or a kill ends the process; anything else that is raised is a fault."""
        try:
            result = act()
            self._watch_disk()
            return result
        except StorageError as failure:
            self._end(f"disk: {failure}", self.disk.copy())
        except ProcessKill as killed:
            self._end(f"killed at {killed}", self.disk.copy())
        except DamagedLog as damage:
            promise(False, f"what a crash leaves can be opened: {damage}")
        except AssertionError:
            raise
        except Exception as error:
            raise Broken(f"no internal error: {type(error).__name__}: {error}") from error

    # -- its connections -----------------------------------------------------------------------------------------------

    def connect(self, client_id: str, on_close: Callable[[], None]) -> Session | None:
        """A client connects; None while nobody listens."""
        if self.process is None:
            return None
        connection = self.process.frontend.connect("127.0.0.1", self.process.listener)
        session = self._sessions[connection] = Session(connection, on_close)
        return session

    def disconnect(self, session: Session) -> None:
        """The client is gone, and the server sees it."""
        self._arrive(lambda: self._close(session), session)

    def _close(self, session: Session) -> None:
        assert self.process is not None, "the server runs"
        self.promises.unanswered(self, list(session.outstanding))
        session.is_closed = True
        self._sessions.pop(session.connection, None)
        self.process.frontend.disconnect(session.connection)

    def receive(self, session: Session, chunk: bytes, completes: Request | None) -> None:
        """A chunk arrives; `completes` is the request whose last byte it has."""
        self._arrive(lambda: self._take(session, chunk, completes), session)

    def _arrive(self, act: Callable[[], object], session: Session) -> None:
        """Do this in the next turn, if the connection is still there by then."""
        if self.is_up and not session.is_closed:
            self._inbox.append((session, act))
            self._schedule_turn(self._dice.choice((0, 0, 1)))

    def slow_down(self, session: Session, ms: int) -> None:
        """The client takes no answers for a while."""
        session.is_slow = True
        self.clock.after(ms, self._in_this_life(lambda: self._resume(session)))

    def _resume(self, session: Session) -> None:
        session.is_slow = False
        if session.is_closed or self.process is None:
            return
        unsent, session.unsent, session.unsent_bytes = session.unsent, [], 0
        self.process.frontend.outbox.note_unsent(session.connection, 0)
        for request, response in unsent:
            request.heard(response)
        self._arrive(lambda: self.process and self.process.frontend.resume(session.connection), session)

    # -- a turn --------------------------------------------------------------------------------------------------------

    def _schedule_turn(self, delay_ms: int) -> None:
        if not self.is_up:
            return
        at_ms = max(self.clock.now_ms + delay_ms, self._stalled_until_ms)
        if self._turn_at_ms is None or at_ms < self._turn_at_ms:
            self._turn_at_ms = at_ms
            self.clock.after(at_ms - self.clock.now_ms, self._in_this_life(lambda: self._turn(at_ms)))

    def _turn(self, at_ms: int) -> None:
        if at_ms != self._turn_at_ms:
            return
        self._turn_at_ms = None
        if self.clock.now_ms < self._stalled_until_ms:
            self._schedule_turn(0)
            return
        touched = self._guard(self._decide)
        if touched is None or self.process is None:
            return
        self._note_decided_requests()
        for connection in touched:
            self._deliver(connection)
        self._settle()
        self.promises.turned(self, self._sessions.values())
        if self.process.frontend.has_work or self._inbox:
            self._schedule_turn(1)
        due_ms = self.process.frontend.next_deadline_ms()
        if due_ms is not None:
            self._schedule_turn(max(due_ms - self.now_ms(), 0) + 1)
        release_s = self.process.frontend.next_release_s()
        if release_s is not None:
            self._schedule_turn(max(int((release_s - self._seconds()) * 1000), 0) + 1)

    def _note_decided_requests(self) -> None:
        """Note of each request the turn that has decided it: its response may wait for the disk for some more."""
        self.turns += 1
        for session in self._sessions.values():
            waiting = len(session.connection.backlog) + (session.connection.parked is not None)
            for number in range(len(session.outstanding) - waiting):
                request = session.outstanding[number]
                request.turn = request.turn or self.turns

    def _decide(self) -> list[Connection]:
        assert self.process is not None, "the server runs"
        frontend = self.process.frontend
        frontend.begin()
        self._is_alone = len(self._inbox) == 1
        while self._inbox and not frontend.turn.is_over:
            session, act = self._inbox.pop(0)
            if not session.is_closed:
                act()
        touched = list(frontend.finish(None if self._inbox else self.now_ms()))
        frontend.end_turn()
        return touched

    def _take(self, session: Session, chunk: bytes, completes: Request | None) -> None:
        assert self.process is not None, "the server runs"
        if completes is not None:
            self.requests += 1
            completes.delivered_ms = self.now_ms()
            session.outstanding.append(completes)
            self.promises.delivered(completes)
        self.process.frontend.receive(session.connection, chunk, is_alone=self._is_alone)

    def _deliver(self, connection: Connection) -> None:
        session = self._sessions.get(connection)
        if session is None or self.process is None:
            return
        data = b"".join(self.process.frontend.outbox.take(connection))
        if session.is_slow and data:
            session.unsent_bytes += len(data)
            self.process.frontend.block(connection)
            self.process.frontend.outbox.note_unsent(connection, session.unsent_bytes)
        self._read(session, data)
        promise(not connection.closing, "a valid request closes no connection", lambda: f"{list(session.outstanding)}")

    def _read(self, session: Session, data: bytes) -> None:
        """Match answers with requests. What they say counts from here on, whether the client gets them or not."""
        session.frames.feed(data)
        for frame in session.frames:
            correlation_id = int.from_bytes(frame[:4], "big")
            promise(bool(session.outstanding), "a request is answered once, and nothing else is")
            request = session.outstanding.popleft()
            promise(request.correlation_id == correlation_id, "a connection's requests are answered in their order")
            response = decode_response(request.api_key, request.version, frame).body
            self._answers.append((session, request, response))

    def _settle(self) -> None:
        """Judge the answers of a turn in the order in which their requests were decided, and let them be heard."""
        answers, self._answers = self._answers, []
        for session, request, response in sorted(answers, key=lambda each: (each[1].turn, each[1].order)):
            self.promises.answered(self, request, response)
            if session.is_slow:
                session.unsent.append((request, response))
            else:
                request.heard(response)
