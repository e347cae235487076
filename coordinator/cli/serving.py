"""The life of a server process: bind, lock, load, serve, stop. What `muster serve` runs once its options are
understood."""

import contextlib
import gc
import logging
import os
import signal
import time
from collections.abc import Callable, Generator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final

import trio
from msgspec.structs import replace

from coordinator import own_modules
from coordinator.admin import CONNECTIONS_MAX
from coordinator.cli import fail
from coordinator.cli.credentials import reload_on_hangup, warn_of_listeners_without_users
from coordinator.cli.group_log import GroupLog
from coordinator.cli.listeners import Endpoint, shift_ports
from coordinator.cli.logs import QueuedHandler, set_up
from coordinator.cli.options import Options
from coordinator.cli.ready import check_ready_file, remove_ready_file, say_ready
from coordinator.cli.start import (
    StartFailed,
    bind,
    check_input,
    make_issuer,
    open_storage,
    read_admin_token,
    with_listeners,
)
from coordinator.control.inputs import AdvertisedListener, Origin
from coordinator.core.events import Event
from coordinator.dataplane.topic_logs import FILES_MAX
from coordinator.events import EventLog, Events, Ring
from coordinator.metrics import Snapshot as MetricsSnapshot
from coordinator.metrics import Stats
from coordinator.runtime.clock import Clock, CoordinatorClock
from coordinator.runtime.dice import fresh_ids
from coordinator.runtime.janitor import Janitor
from coordinator.runtime.node import Node, Setup
from coordinator.runtime.restart import free_node, prepare_node
from coordinator.runtime.snapshot import Snapshot, read_logs_in_steps
from coordinator.runtime.steps import ProcessorTime
from coordinator.server import descriptors
from coordinator.server.admission import Admission
from coordinator.server.allocator import Trimmer, give_back_freed_memory
from coordinator.server.collector import collect_everything, keep_passes_short
from coordinator.server.event_writer import EventWriter
from coordinator.server.frontend import Frontend
from coordinator.server.listener import Listener, format_address
from coordinator.server.loop_time import LOADING, UPKEEP, VERBS, WORK, LoopTime
from coordinator.server.poller import Poller
from coordinator.server.virtual_brokers import VirtualBrokers, join_listeners
from coordinator.server.waker import Waker
from coordinator.setting import ConfigError
from storage import replacement, reserve
from storage.data_format import UnknownFormat
from storage.files import DirectoryLocked, Files, StorageError
from storage.layout import DamagedLog
from storage.pending_reset import PendingReset
from storage.real_files import RealFiles

if TYPE_CHECKING:  # what not every server needs is imported where it is made
    from coordinator.cli.beside import Beside
    from coordinator.server.operator import Operator
    from coordinator.server.sasl.issuer import Issuer
    from coordinator.server.verbs.waits import Waits

log = logging.getLogger("muster")
group_log = logging.getLogger("muster.group")

LOADING_SECONDS: Final = 0.05  # between two looks whether what is restored is loaded
TEND_SECONDS: Final = 1.0  # between two rounds of the janitor, who has nothing to do in most of them


def serve(options: Options) -> int:
    """Serve until a signal says stop. Returns the exit code."""
    gc.freeze()  # what is imported stays, as what is loaded does
    gc.enable()
    keep_passes_short()
    give_back_freed_memory()
    lines = set_up(options.log_level, options.log_format)
    with contextlib.ExitStack() as stack:
        stack.callback(lines.close)
        try:
            check_ready_file(options.ready_file)
            check_input(exits_with_it=options.exits_with_stdin)
            issuer = make_issuer() if options.oauth_dev else None
            listeners = [
                bind(stack, "--listen", one, options.config, node_id, issuer)
                for number, node_id in enumerate(options.config.node_ids)
                for one in shift_ports(options.endpoints, number)
            ]
            listeners = join_listeners(listeners)
            admin = bind(stack, "--admin", Endpoint("ADMIN", "HTTP", options.admin)) if options.admin else None
            files, data_dir = open_storage(stack, options)
            remove_ready_file(options.ready_file)
            server = Server(options, listeners, admin, files, data_dir, lines, issuer)
            trio.run(server.run, instruments=[LoopTime(server.stats, time.perf_counter)])
            return server.exit_code
        except ConfigError as error:
            return fail("serve", error, 2)
        except UnknownFormat as error:
            return fail("serve", error)
        except (StorageError, DamagedLog) as error:
            return _report_storage_failure(options, error)
        except DirectoryLocked as error:
            return fail("serve", f"{options.data_dir} is in use by another muster, pid {error.pid or 'unknown'}")
        except StartFailed as error:
            return fail("serve", error)
        except BaseExceptionGroup as group:
            failure = _find_one_line(group)
            if failure is None:
                raise
            return _report_storage_failure(options, failure)


def _report_storage_failure(options: Options, failure: BaseException) -> int:
    """Report a failed log and end: the log is the truth, and the next start reads it. A full disk gets the reserve
    back, so that it can."""
    if isinstance(failure, StorageError) and failure.is_full and options.data_dir is not None:
        with contextlib.suppress(StorageError):
            reserve.give_way(RealFiles(), options.data_dir)
    return fail("serve", failure)


def _find_one_line(group: BaseExceptionGroup[BaseException]) -> BaseException | None:
    """Find the error that explains itself in one line among those that ended the tasks; None if there is none."""
    found = group.subgroup((StorageError, DamagedLog, StartFailed)) or group.subgroup(own_modules.is_missing)
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]  # type: ignore[assignment]  # a group or at last a leaf
    return StartFailed(own_modules.CHANGED) if isinstance(found, ImportError) else found


class Server:
    """One process: a node, the connections of clients, the admin port."""

    def __init__(
        self,
        options: Options,
        listeners: list[Listener],
        admin: Listener | None,
        files: Files,
        data_dir: str,
        lines: QueuedHandler,
        issuer: "Issuer | None" = None,
    ) -> None:
        self._options = options
        self._listeners = listeners
        self._admin = admin
        self._lines = lines
        self._issuer = issuer
        self._admin_token = read_admin_token(options.admin_token_file)
        self._real = Clock.real()
        self._clock = CoordinatorClock(self._real)
        self.stats = Stats()
        self._events = Events(
            Ring(bytes_max=options.config["events.max.bytes"]),
            None if options.data_dir is None else EventLog(files, data_dir),
        )
        if options.data_dir is not None:
            from coordinator.event_files import read_latest_events

            self._events.ring.restore(read_latest_events(files, data_dir))
        self._event_writer = EventWriter(self._events)
        own = [listener for listener in listeners if listener.where.node_id == options.config.node_id]
        config, self._ids = with_listeners(options.config, own), fresh_ids(options.seed)
        self._data_dir = data_dir
        self._waker = Waker()
        self._setup = Setup(
            config=config,
            files=files,
            data_dir=data_dir,
            fresh_id=self._ids,
            real_ms=self._real.now_ms,
            tell=self._tell,
            compat=options.compat,
            is_synced=options.fsync,
            waker=self._waker,
            topics=options.topics,
            meter=ProcessorTime(time.thread_time),
        )
        self._node = Node(self._setup)
        self._janitor: Janitor  # of the node, from when it is loaded
        self._frontend = Frontend(
            self._node.engine,
            self._clock,
            self.stats,
            self._ids,
            cpu_s=time.thread_time,
            frame_bytes_max=config["socket.request.max.bytes"],
            request_bytes_max=config["queued.max.request.bytes"],
            response_bytes_max=config["queued.max.response.bytes"],
            failed_authentication_s=config["connection.failed.authentication.delay.ms"] / 1000,
        )
        self._poller: Poller  # once the node is open
        self._brokers: VirtualBrokers
        self._operator: Operator | None = None  # once it has something to do
        self._next: Node | None = None  # in the place of this one, once it is restarted
        self._failure: StorageError | DamagedLog | None = None  # which ends the process
        self._files = files
        self._started_ms = self._clock.now_ms()
        self._opened_ms, self._ids_before = self._started_ms, 0  # of the node of the moment
        self._producer_ids_before = 0
        self._recovery_seconds = 0.0
        self._is_ready = False
        self.exit_code = 0
        self._stop: trio.CancelScope | None = None
        self._beside: Beside | None = None  # once it is started
        self._group_log = GroupLog()

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT."""
        with contextlib.closing(self._events):  # however the server ends
            await self._serve_until_signal()
            if self._failure is not None:
                raise self._failure
            self._node.close()

    async def _serve_until_signal(self) -> None:
        self._open()
        config = self._options.config
        self._poller = Poller(
            self._frontend,
            self._listeners,
            self._clock,
            after_turn=self._end_turn,
            connections_max=config["max.connections"],
            admission=Admission(config),
            idle_ms=config["connections.max.idle.ms"],
            parked_ms=config["connections.max.parked.ms"],
            authentication_ms=config["connections.max.authentication.ms"],
            room=self._room_for_clients(),
            real=self._real,
            waker=self._waker,
        )
        self._brokers = VirtualBrokers(self._listeners, self._poller)
        if config["journal.max.bytes"]:
            requests = self._make_operator().requests
            requests.set_journal(config["journal.max.bytes"])
            requests.begin_journal(self.origin)
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async with trio.open_nursery() as nursery:
                await nursery.start(self._poller.run)
                if self._admin is not None:
                    nursery.start_soon(self._serve_admin, self._admin)
                nursery.start_soon(self._load_and_tend, nursery)
                nursery.start_soon(self._event_writer.run)
                if any(one.tls or one.sasl for one in self._listeners):  # else a terminal that closes ends the server
                    nursery.start_soon(reload_on_hangup, self._listeners)
                if self._options.exits_with_stdin:
                    nursery.start_soon(self._stop_with_input)
                self._stop = nursery.cancel_scope
                async for number in signals:
                    if self._beside is not None and self._beside.pass_on(number):
                        continue  # its end is ours
                    self._end(signal.Signals(number).name, 128 + number)
                    break

    def _end(self, why: str, unfinished_code: int) -> None:
        """Stop serving. `unfinished_code` is the exit code if there is a command beside that has not run to its end."""
        log.info("stopping on %s", why)
        if self._options.beside:
            code = None if self._beside is None else self._beside.exit_code
            self.exit_code = unfinished_code if code is None else code
        self._poller.perform(lambda now_ms: None)  # what waits for the disk is answered
        assert self._stop is not None, "it serves"
        self._stop.cancel()

    async def _stop_with_input(self) -> None:
        """Stop at the end of standard input, which is a pipe: the process at its other end has died, or has closed
        it."""
        while True:
            await trio.lowlevel.wait_readable(0)
            if not os.read(0, 65_536):
                break
        self._end("end of standard input", 128 + signal.SIGKILL)

    async def _run_beside(self) -> None:
        """Run the command beside the server, and stop with it."""
        from coordinator.cli.beside import Beside, make_variables, print_timelines

        first = self._listeners[0].name  # each broker has a listener of that name
        kafka = [format_address(one.host, one.port) for one in self._listeners if one.name == first]
        admin = f"http://{self._admin.address}" if self._admin else None
        self._beside = Beside(self._options.beside, make_variables(kafka, admin))
        code, complaint = await self._beside.run()
        if complaint:
            fail("serve", complaint)
        elif code:
            print_timelines(self._events.ring)
        self._end(f"the end of {self._options.beside[0]}", code)

    # -- for the operator ----------------------------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """Whether everything is loaded."""
        return self._is_ready

    def begin_snapshot(self) -> Generator[None, None, Snapshot]:
        """Return all that the logs hold now, read in steps: the first one belongs to this turn."""
        self._node.engine.flush()
        self._node.engine.append()
        return read_logs_in_steps(self._files, self._data_dir)

    @property
    def pending_reset(self) -> PendingReset:
        """The file by which a start finishes a reset that was cut off."""
        return PendingReset(self._files, self._data_dir)

    @property
    def origin(self) -> Origin:
        """How the node of the moment has begun."""
        options, config = self._options, self._setup.config
        return Origin(
            opened_ms=self._opened_ms,
            seed=self._ids.seed,
            ids=self._ids_before,
            is_empty=self._node.began_empty,
            compat=options.compat,
            settings=config.given(),
            topics=options.topics,
            listeners=tuple(
                AdvertisedListener(one.name, one.where.node_id, one.host, one.port) for one in self._listeners
            ),
            is_synced=options.fsync,
            cluster_id=self._setup.cluster_id,
            producer_ids=self._producer_ids_before,
        )

    def prepare_restart(self, snapshot: Snapshot) -> None:
        """Make the logs of a snapshot the truth, and read their catalog. Raises StorageError if nothing has changed."""
        self._next = prepare_node(replace(self._setup, cluster_id=self._node.cluster_id), snapshot)

    def restart_in_steps(self, opened: Callable[[], None]) -> "Waits[None]":
        """Close every connection, and start again with the logs that were prepared, which are loaded in steps.

        The cluster keeps its id: a client that finds another one warns of it, in the report of the next test. There is
        no way back: a failure of the disk ends the process, and the next start does what is left.
        """
        assert self._next is not None, "the logs are prepared"
        self._poller.close_all("reset")
        self._setup = replace(self._setup, cluster_id=self._node.cluster_id)
        self._brokers.start_all()
        old = self._node
        self._producer_ids_before = old.world.ledger.transactions.next_producer_id
        old.abandon()
        self._is_ready = False
        try:
            replacement.finish(self._files, self._data_dir)
            self._node, self._next = self._next, None
            self._frontend.set_engine(self._node.engine)
            self.stats.forget_groups()
            self._open()
            opened()
            if not self._node.began_empty:  # else there is nothing to load, and the journal has no steps of it
                self._poller.release()
                yield from self._free(old)  # before there is much else that the collector looks at
            for step in self._node.load(self._clock.now_ms):
                if not self._node.began_empty:
                    self._poller.set_alarm()
                    yield step.opens
            self._janitor = self._make_janitor()
            self._is_ready = True
            if self._node.began_empty:
                self._poller.release()
                yield from self._free(old)
        except (StorageError, DamagedLog) as failure:
            self.fail(failure)
            raise
        finally:
            self._poller.set_alarm()

    def fail(self, failure: StorageError | DamagedLog) -> None:
        """End the process: what is on the disk is not what it has to be, and the next start puts it right."""
        self._failure = failure
        assert self._stop is not None, "it serves"
        self._stop.cancel()

    # -- within --------------------------------------------------------------------------------------------------------

    def _free(self, old: Node) -> "Waits[None]":
        for _ in free_node(old):
            self._poller.set_alarm()
            yield None
        collect_everything()

    def _open(self) -> None:
        self._opened_ms, self._ids_before = self._clock.now_ms(), self._ids.count
        self._node.open(self._opened_ms, self._producer_ids_before)

    def _end_turn(self) -> None:
        """Do what need not be done before the responses have left. Raises what ends the process."""
        if self._failure is not None:
            raise self._failure
        self._event_writer.end_turn()
        if self._operator is not None:
            self._operator.wake()

    def _make_operator(self) -> "Operator":
        """Return what does the operator's verbs; it is imported and made at the first call."""
        if self._operator is None:
            from coordinator.server.operator import Operator

            self._operator = Operator(
                lambda: self._node,
                self._frontend,
                self._poller,
                self._clock,
                self,
                self._brokers,
            )
        return self._operator

    def _room_for_clients(self) -> int:
        """Keep the descriptors that the logs and the admin port may need from the clients: an append that finds no
        descriptor ends the process."""
        kept = FILES_MAX + len(self._node.world.partitions) + CONNECTIONS_MAX
        return descriptors.room_for_clients(descriptors.raise_limit(), kept)

    async def _load_and_tend(self, nursery: trio.Nursery) -> None:
        """Load what the logs hold, between the turns of those who are served already; then look after them."""
        WORK.set(LOADING)
        began = time.monotonic()
        reported, records = began, 0
        for step in self._node.load(self._clock.now_ms):
            if step.opens is not None:
                await trio.to_thread.run_sync(step.opens)  # reads and checks all of it, while others are served
            records += step.records
            if time.monotonic() - reported >= 1:
                reported = time.monotonic()
                log.info("loading", extra={"records": records, "partitions_left": self._node.world.partitions.loading})
            self._poller.set_alarm()  # the timers of what is loaded by now
            await trio.lowlevel.checkpoint()
        self._poller.set_alarm()
        gc.collect()  # what was loaded stays: no later pass of the collector need look at it
        self._recovery_seconds = time.monotonic() - began
        self._janitor = self._make_janitor()
        self._is_ready = True
        self._poller.turn()  # wakes those who wait for what is loaded by now
        if self.pending_reset.read() is not None:
            for _ in self._make_operator().state.finish_reset_in_steps():
                await trio.lowlevel.checkpoint()
        say_ready(self._options, self._listeners, self._admin)
        if not self._node.world.ledger.catalog.scram:
            warn_of_listeners_without_users(self._listeners)
        if self._options.beside:
            nursery.start_soon(self._run_beside)
        WORK.set(UPKEEP)
        node, janitor = self._node, self._janitor
        trimmer = Trimmer()
        has_reserve, has_warned = self._options.data_dir is None, False
        while True:
            if not self._is_ready:  # a restore is loading another node
                await trio.sleep(LOADING_SECONDS)
                continue
            if node is not self._node:  # a reset has made another
                node, janitor = self._node, self._janitor
            for wait in janitor.round(self._clock.now_ms()):
                self._poller.set_alarm()
                if wait is not None:
                    await trio.to_thread.run_sync(wait)  # for the disk, while others are served
                else:
                    await trio.lowlevel.checkpoint()
                if node is not self._node:
                    break
            if not has_reserve:  # not before the janitor has had the room to compact
                has_reserve = reserve.keep(self._files, str(self._options.data_dir))
                if not has_reserve and not has_warned:
                    has_warned = True
                    log.warning("the disk is nearly full: there is no room for the reserve")
            trimmer.trim()
            await trio.sleep(TEND_SECONDS)

    def _make_janitor(self) -> Janitor:
        """Return the janitor of the node of the moment, which knows it for moves of the clock."""
        janitor = Janitor(self._node, self._clock.now_ms())
        self._node.set_upkeep(janitor)
        return janitor

    def _tell(self, event: Event) -> None:
        """Count what happened to a group, and write it to the log."""
        self.stats.count_event(event)
        self._events.tell(event)
        if group_log.isEnabledFor(logging.INFO):
            for level, message, facts in self._group_log.lines(event, is_debug=group_log.isEnabledFor(logging.DEBUG)):
                group_log.log(level, message, extra=facts)

    async def _serve_admin(self, listener: Listener) -> None:
        """Serve HTTP, from the first connection on: most of its modules are imported then, while clients are served."""
        WORK.set(VERBS)
        await trio.lowlevel.wait_readable(listener.sock)
        await trio.to_thread.run_sync(import_module, f"{__package__}.admin_port")
        from coordinator.admin import views
        from coordinator.cli import admin_port

        def held() -> Mapping[str, int]:
            return {
                "requests": self._frontend.connections.requests.total,
                "responses": self._frontend.outbox.unsent.total,
                "events": self._events.ring.bytes,
                **({} if self._operator is None else self._operator.held_bytes()),
            }

        def count() -> Generator[None, None, MetricsSnapshot]:
            return views.count_in_steps(
                self._node,
                self._poller.connections_by_listener(),
                self._recovery_seconds,
                self._started_ms,
                held(),
                self._lines.dropped,
            )

        handler = admin_port.make_handler(
            readiness=lambda: views.readiness(self._node, self._is_ready),
            stats=self.stats,
            count=count,
            ring=self._events.ring,
            operator=self._make_operator() if self._options.config["admin.control"] != "false" else None,
            is_read_only=self._options.config["admin.control"] == "read",
            server_port=self._listeners[0].port,
            issuer=self._issuer,
            token=self._admin_token,
        )
        hosts = (*self._options.config["admin.allowed.hosts"], listener.host)
        await admin_port.serve(listener.sock, handler, hosts)
