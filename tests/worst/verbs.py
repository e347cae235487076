"""A server that holds much, and what a call of its admin port costs: the longest step of the loop, and memory."""

import gc
from time import thread_time
from typing import Any, Final

import h11
import msgspec
import trio
import trio.lowlevel
from msgspec.structs import replace
from trio.testing import memory_stream_pair

from coordinator.admin import http, views
from coordinator.admin.app import Readiness
from coordinator.admin.control import control_operations
from coordinator.cli import admin_port
from coordinator.control.faults import Action, FaultSpec, Match
from coordinator.control.journal import JournalClient
from coordinator.core.decision import Done, Parked
from coordinator.core.events import Cause, Event
from coordinator.core.result import Call as RequestCall
from coordinator.dataplane.brokers import Broker, Where
from coordinator.events import RECENT_MAX, Ring
from coordinator.runtime.steps import ProcessorTime
from protocol.codec import encode_request, encode_response
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.control.steered import SteeredNode, stable_group
from tests.server.in_memory import InMemory
from tests.worst.server import Cost, Size, fill, resident_bytes
from tests.worst.verb_calls import Call

WHERE: Final = Where((Broker(0, "localhost", 9092),))
STEP_S, STEP_BYTES = 0.050, 16 << 20
PATHS: Final = (
    "/healthz",
    "/readyz",
    "/metrics",
    "/events",
    "/",
    "/v1/openapi.json",
)  # what is served beside operations
LONG: Final = {
    ("POST", "/v1/scenarios"): "a body of 1 MiB with 300,000 empty steps is decoded at once, and refused",
}
"""The operations that may take longer than a step, and why."""
STREAMS: Final = b"text/event-stream"


class WorstControl:
    """A server with an operator, and what is measured of a call to it. A call changes it: `in_a_copy` keeps it whole."""

    def __init__(self, size: Size) -> None:
        topics = {f"t{number}": size.partitions for number in range(1, size.topics)} | {"t0": size.most_partitions}
        self.server = server = SteeredNode(
            topics=topics, group_consumer_max_size=10_000, offsets_topic_num_partitions=4, journal_max_bytes=1 << 24
        )
        server.setup = replace(server.setup, meter=ProcessorTime(thread_time))  # of a node that is started later
        server.node.engine.unfinished.meter = server.setup.meter
        self._ticket = 1 << 40
        fill(self.ask, size)
        self.members = stable_group(server, "healthy")
        while server.node.engine.unfinished:
            server.node.engine.long_requests.step()
            server.node.engine.flush()
        self.ring = Ring()
        for number in range(RECENT_MAX):
            event = Event(number, "g0", Cause.MEMBER_JOINED, "Stable", "Empty", number, f"m{number}", client_id="c")
            self.ring.add("g0", msgspec.json.encode(event))
        InMemory(server.files, topics={})  # it reads the logs: the codecs of their records are made once for a process
        operator = server.operator
        operator.state.take_snapshot("s")
        operator.requests.add_fault(FaultSpec(Action(hold=True), Match(group="g0")))
        operator.requests.set_journal(1 << 24)
        self._fill_journal()
        self.operations = control_operations(operator, self.ring, 9092)
        self.handler = admin_port.make_handler(
            readiness=lambda: Readiness(ready=True, loading=0, total=4),
            stats=server.stats,
            count=lambda: views.count_in_steps(server.node, {}, 0.0, 0),
            ring=self.ring, operator=operator, is_read_only=False, server_port=9092, issuer=None, token=None,
        )  # fmt: skip
        server.frontend.turn.real_s = thread_time  # a turn ends by what it has used, and other work is no part of it
        gc.collect()
        gc.freeze()

    def _fill_journal(self) -> None:
        journal, client = self.server.operator.requests.journal, JournalClient("/127.0.0.1", 9, 1)
        frame = encode_request(12, 4, 1, "c", HeartbeatRequest("g0", 1, "m0"))[4:]
        answer = encode_response(12, 4, 1, HeartbeatResponse())
        while not journal.dropped:
            journal.note_response(journal.note_request(1, client, frame), answer, 1)

    def ask(self, api_key: int, version: int, request: Any) -> Any:
        """Return the response to a request, None if it stays parked."""
        server = self.server
        self._ticket += 1
        call = RequestCall(
            self._ticket, server.clock.now_ms(), version, "c", "/127.0.0.1", server.frontend.handler.fresh_id
        )
        outcome = server.node.engine.handle(api_key, request, call, WHERE)
        while isinstance(outcome, Parked) and server.node.engine.unfinished:
            server.node.engine.long_requests.step()
            outcome = next((one for ticket, one in server.node.engine.replies() if ticket == self._ticket), outcome)
        server.node.engine.flush()
        return outcome.response if isinstance(outcome, Done) else None

    def measure(self, call: Call) -> tuple[Cost, int, int]:
        """Return what a call costs, the status of its answer, and how many heartbeats were answered meanwhile."""
        meter, peer = StepMeter(), self.members[0].peer
        before = len(peer.answers)
        status = trio.run(self._answer, call, instruments=[meter])
        return meter.cost(call), status, len(peer.answers) - before

    async def _answer(self, call: Call) -> int:
        ours, theirs = memory_stream_pair()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._serve, name="turns")
            nursery.start_soon(http.conversation, theirs, self.handler, http.Hosts(), name="call")
            status = await _ask(ours, call)
            nursery.cancel_scope.cancel()
        return status

    async def _serve(self) -> None:
        """Do what the poller does, and be a member that sends heartbeats."""
        while True:
            if not self.server.poller.is_held:
                self.members[0].peer.send((HeartbeatRequest("g", 1, self.members[0].member_id), 3))
                self.server.turn()
                self.server.operator.wake()
            await trio.lowlevel.checkpoint()


async def _ask(stream: trio.StapledStream, call: Call) -> int:
    """Send a call, and read its response; of one without an end the first chunk. Returns its status."""
    connection, status = h11.Connection(h11.CLIENT), 0
    headers = [("Host", "localhost"), ("Content-Length", str(len(call.body)))]
    parts = [
        h11.Request(method=call.method, target=call.target, headers=headers),
        h11.Data(data=call.body),
        h11.EndOfMessage(),
    ]
    await stream.send_all(b"".join(connection.send(part) or b"" for part in parts))
    is_endless = False
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(bytes(await stream.receive_some(1 << 20)))
        elif isinstance(event, h11.Response):
            status = event.status_code
            is_endless = STREAMS in dict(event.headers).get(b"content-type", b"")
        elif isinstance(event, h11.EndOfMessage | h11.ConnectionClosed) or is_endless:
            return status


class StepMeter(trio.abc.Instrument):
    """Measures each step of the tasks `call` and `turns`."""

    def __init__(self) -> None:
        self._steps = 0
        self._longest_s, self._what, self._longest_bytes = 0.0, "", 0
        self._first = self._most = self._before = resident_bytes()
        self._began_s = 0.0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._before, self._began_s = resident_bytes(), thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        took_s, now = thread_time() - self._began_s, resident_bytes()
        self._most = max(self._most, now)
        if task.name not in ("call", "turns"):
            return
        self._steps += 1
        if took_s > self._longest_s:
            self._longest_s, self._what = took_s, task.name
        self._longest_bytes = max(self._longest_bytes, now - self._before)

    def cost(self, call: Call) -> Cost:
        grown = self._most - self._first
        return Cost(call.name, 1, len(call.body), self._steps, self._longest_s, self._what, self._longest_bytes, grown)
