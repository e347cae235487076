"""A server that holds much, and the cost of one request to it: of each thing that nothing can interrupt."""

import gc
import resource
from collections.abc import Callable, Iterator
from time import thread_time
from typing import Any, Final, cast

from msgspec import Struct

from coordinator.config import Config
from coordinator.core.decision import Done, Outcome, Parked
from coordinator.core.principal import USER, Principal
from coordinator.core.result import Call
from coordinator.dataplane.brokers import Broker, Where
from coordinator.runtime.clock import Clock
from coordinator.runtime.dice import fresh_ids
from coordinator.runtime.node import Loading, Node, Setup
from coordinator.runtime.steps import ProcessorTime
from coordinator.server.decoding import LONG_BYTES, decode_more
from coordinator.server.encoding import SHORT
from protocol.codec import (
    decode_request,
    decode_request_in_steps,
    encode_request,
    encode_response,
    encode_response_in_pieces,
)
from protocol.errors import ProtocolError, UnsupportedVersion
from protocol.header import Request
from protocol.messages import (
    add_partitions_to_txn,
    consumer_group_heartbeat,
    create_acls,
    init_producer_id,
    join_group,
    share_group_heartbeat,
    streams_group_heartbeat,
)
from storage.memory_files import MemoryFiles
from tests import requests
from tests.worst.acceptance import given
from tests.worst.shapes import Names, Shape, largest

PAGE_BYTES: Final = resource.getpagesize()
WHERE: Final = Where((Broker(0, "localhost", 9092),))
CLIENT: Final = Principal(USER, "client")


Ask = Callable[[int, int, Any], Any]
"""Asks a server: API key, version, request; returns the response."""


class Size(Struct, frozen=True):
    """How much the server holds."""

    topics: int = 2_000
    partitions: int = 10  # of each topic but the first
    most_partitions: int = 10_000  # of the first topic
    groups: int = 2_000
    offsets: int = 20_000  # of the first group
    members: int = 500  # of a consumer group
    sharers: int = 50  # members of a share group, and of a streams group
    transactions: int = 2_000
    acls: int = 0  # none: without an authorizer


SMALL: Final = Size(200, 4, 1_000, 200, 1_000, 40, 10, 200)
GROUPS: Final = {"Consumer": "c", "Share": "s", "Streams": "k"}  # what the names of groups begin with, by kind


class Cost(Struct, frozen=True):
    """What a request has cost, in processor time and memory."""

    name: str
    elements: int
    frame_bytes: int
    steps: int
    longest_s: float  # of one thing that nothing can interrupt
    what: str  # that was
    longest_bytes: int  # by which the process has grown in one of them
    all_bytes: int


class WorstServer:
    """A node with much state, whose requests are decided as a server decides them."""

    def __init__(self, size: Size) -> None:
        self._elapsed_s = 0.0
        self._clock = Clock(1_700_000_000_000, lambda: self._elapsed_s)
        settings: dict[str, Any] = {"group.consumer.max.size": 10_000, "offsets.topic.num.partitions": 4}
        if size.acls:
            settings["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
            settings["super.users"] = "User:operator"
        topics = {f"t{number}": size.partitions for number in range(1, size.topics)} | {"t0": size.most_partitions}
        self.setup = setup = Setup(
            config=Config(settings), files=MemoryFiles(), data_dir="data", fresh_id=fresh_ids(7),
            real_ms=self._clock.now_ms, tell=lambda event: None, topics=topics, meter=ProcessorTime(thread_time),
        )  # fmt: skip
        self.node = Node(setup)
        self.node.open(self._clock.now_ms())
        for _ in self.node.load(self._clock.now_ms):
            pass
        self._ticket = 0
        self._fresh_id = fresh_ids(8)
        self._principal = Principal(USER, "operator")
        self._fill(size)
        gc.collect()
        gc.freeze()  # as a server does with what it has loaded
        self._principal = CLIENT if size.acls else self._principal
        by_name = self.node.world.ledger.catalog.topics_by_name
        ids = [by_name[name].id for name in ("t0", *sorted(topics.keys() - {"t0"})) if name in by_name]
        self._ids, self._partitions = ids, size.most_partitions
        state = next((state for key, state in self.node.engine.share_states.states() if key.group_id == "s0"), None)
        self._given_ids = {
            **self._filled, "partitions": size.partitions, "directory": self.node.world.dataplane._state.logs.path,
            "state_epoch": 0 if state is None else state.state_epoch,
        }  # fmt: skip

    def _fill(self, size: Size) -> None:
        self._filled = fill(self.ask, size)
        self._filled |= self._fill_static_group(size)

    def _fill_static_group(self, size: Size) -> dict[str, Any]:
        """Make a classic group of static members, in its first generation."""
        for number in range(size.sharers):
            joins = join_group.JoinGroupRequest(
                "j0", 60_000, 60_000, "", f"i{number}", "consumer", (join_group.JoinGroupRequestProtocol("range", b""),)
            )
            self._handle(11, 5, joins)
        tickets = range(self._ticket - size.sharers + 1, self._ticket + 1)
        for _ in range(2):  # the initial delay, and once more because members have joined meanwhile
            self.pass_time(3_000)
            self.fire()
        answers = {ticket: cast("Done", one).response for ticket, one in self.node.engine.replies()}
        first = answers[tickets[0]]
        self.node.engine.flush()
        return {"leader": first.leader, "generation": first.generation_id}

    def ask(self, api_key: int, version: int, request: Any) -> Any:
        """Return the response to a request, None if it stays parked."""
        outcome = self._handle(api_key, version, request)
        while isinstance(outcome, Parked) and self.node.engine.unfinished:
            self.node.engine.long_requests.step()
            outcome = next((one for ticket, one in self.node.engine.replies() if ticket == self._ticket), outcome)
        self.node.engine.flush()
        return outcome.response if isinstance(outcome, Done) else None

    def _handle(self, api_key: int, version: int, request: Any) -> Outcome:
        self._ticket += 1
        call = Call(self._ticket, self._clock.now_ms(), version, "c", "/127.0.0.1", self._fresh_id, self._principal)
        return self.node.engine.handle(api_key, request, call, WHERE)

    def measure(self, shape: Shape) -> Cost | None:
        """Give the node the largest request of a shape. None if it has none."""
        names = self.names(shape)
        count, data = largest(shape, names)
        if not count:
            return None
        small = encode_request(shape.api.key, shape.version, 1, "c", shape.request(1, names))[4:]
        self._answer(small, _Meter())  # what the first request of an API imports and compiles
        meter = _Meter()
        self._answer(data, meter)
        return meter.cost(shape.name, count, data)

    def names(self, shape: Shape) -> Names:
        """What there is, with the groups of the kind that the API is about."""
        group = next((name for kind, name in GROUPS.items() if kind in shape.api.name), "g")
        kinds = {"topic": "t", "group": group, "transaction": "x", "member": "m"}
        return Names(
            lambda kind, number: f"{kinds.get(kind, 'o')}{number}",
            lambda at: self._ids[at % len(self._ids)],
            self._partitions,
            given(shape.api.name, shape.path, shape.version, self._given_ids),
        )

    def measure_request(self, name: str, data: bytes) -> Cost:
        """Give the node a request, and measure all that follows from it."""
        meter = _Meter()
        self._answer(data, meter)
        return meter.cost(name, 1, data)

    def measure_work(self, name: str, begin: Callable[[], Any]) -> Cost:
        """Do what leads to work that is done in steps, and measure all of it."""
        meter = _Meter()
        meter.run("first step", begin)
        self._finish(meter)
        return meter.cost(name, 1, b"")

    def finish(self) -> None:
        """Do what is left of what was begun."""
        self._finish(_Meter())

    def measure_turns(self, name: str, begin: Callable[[], Any]) -> Cost:
        """Do what leads to work by timers and in steps, and measure each timer's turn and each step of it."""
        meter, engine = _Meter(), self.node.engine
        meter.run("first step", begin)
        meter.run("flush", engine.flush)
        while engine.unfinished or _is_due(engine.next_deadline_ms(), self.now_ms):
            if engine.unfinished:
                meter.run("afterwards", engine.long_requests.step)
            meter.run("timers", self.fire)
            meter.run("flush", engine.flush)
        return meter.cost(name, 1, b"")

    def measure_load(self, name: str, steps: Iterator[Loading]) -> Cost:
        """Measure each step of a start, but for what a thread does meanwhile."""
        meter = _Meter()
        while (step := meter.run(f"step {meter.steps}", lambda: next(steps, None))) is not None:
            if step.opens is not None:
                step.opens()
            meter.run("flush", self.node.engine.flush)
        self._finish(meter)
        return meter.cost(name, 1, b"")

    def end_connection(self) -> None:
        """Let the connection of all clients end."""
        self.node.engine.disconnect(0, self._clock.now_ms())

    def pass_time(self, ms: int) -> None:
        """Move the clock, and let nothing happen yet."""
        self._elapsed_s += ms / 1000

    def fire(self) -> None:
        """Do what is due, as much of it as one turn does."""
        self.node.engine.fire(self._clock.now_ms())

    @property
    def now_ms(self) -> int:
        return self._clock.now_ms()

    def _answer(self, data: bytes, meter: "_Meter") -> None:
        decoded = _decode(data, meter)
        if decoded is None:
            return
        key, version, held = decoded.api_key, decoded.version, [decoded.body]
        del decoded
        try:
            outcome = meter.run("first step", lambda: self._handle(key, version, held[0]))
        except (UnsupportedVersion, ProtocolError):
            return
        is_inline = key in SHORT and len(data) <= LONG_BYTES and isinstance(outcome, Done)  # else in pieces
        while isinstance(outcome, Parked) and self.node.engine.unfinished:
            meter.run(f"step {meter.steps}", self.node.engine.long_requests.step)
            meter.run("flush", self.node.engine.flush)
            found = meter.run("replies", self.node.engine.replies)
            outcome = next((one for ticket, one in found if ticket == self._ticket), outcome)
        if isinstance(outcome, Done):
            self._encode(key, version, outcome.response, meter, is_inline=is_inline)
        elif isinstance(outcome, Parked):
            self.node.engine.forget(self._ticket)
        meter.run("flush", self.node.engine.flush)
        held.append(outcome)
        del outcome
        meter.run("release", held.clear)
        self._finish(meter)

    def _finish(self, meter: "_Meter") -> None:
        while self.node.engine.unfinished:
            meter.run("afterwards", self.node.engine.long_requests.step)
            meter.run("flush", self.node.engine.flush)

    @staticmethod
    def _encode(key: int, version: int, response: Any, meter: "_Meter", *, is_inline: bool) -> None:
        if is_inline:
            meter.run("encode", lambda: encode_response(key, version, 1, response))
            return
        pieces = encode_response_in_pieces(key, version, 1, response)
        while meter.run("encode", lambda: next(pieces, None)) is not None:
            pass


def fill(ask: Ask, size: Size) -> dict[str, Any]:
    """Make what a server holds, by requests. Return the ids and epochs that it has given."""
    given_ids: dict[str, Any] = {}
    for number in range(size.groups):
        ask(8, 8, requests.commit(f"g{number}", {"t1": {0: 1}}))
    ask(8, 8, requests.commit("g0", {"t0": dict.fromkeys(range(min(size.offsets, size.most_partitions)), 1)}))
    for number in range(size.members):
        ask(68, 1, consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            "c0", f"m{number}", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=("t0",), topic_partitions=(),
        ))  # fmt: skip
    _fill_queues_and_streams(ask, size)
    for number in range(size.transactions):
        given_ids[f"x{number}"] = ask(22, 5, init_producer_id.InitProducerIdRequest(f"x{number}", 60_000)).producer_id
    answer = ask(22, 5, init_producer_id.InitProducerIdRequest("x0", 60_000))
    topic = add_partitions_to_txn.AddPartitionsToTxnRequestTopic("t0", tuple(range(size.most_partitions)))
    ask(24, 3, add_partitions_to_txn.AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="x0", v3_and_below_producer_id=answer.producer_id,
        v3_and_below_producer_epoch=answer.producer_epoch, v3_and_below_topics=(topic,),
    ))  # fmt: skip
    rule = create_acls.CreateAclsRequestAclCreation
    for kind in (2, 3, 4, 5):
        rules = [rule(kind, "*", 3, f"User:u{number}", "*", 2, 3) for number in range(size.acls // 4)]
        if rules:
            rules.append(rule(kind, "kafka-cluster" if kind == 4 else "*", 3, "User:client", "*", 2, 3))
            ask(30, 3, create_acls.CreateAclsRequest(tuple(rules)))
    for number in range(2):
        share = share_group_heartbeat.ShareGroupHeartbeatRequest("s1", "m", -number, subscribed_topic_names=("t0",))
        ask(76, 1, share)
    beats = (
        (68, 1, "c0", consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            "c0", "m0", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=("t0",), topic_partitions=())),
        (88, 0, "k0", _join_streams("m0")),
    )  # fmt: skip
    for key, version, group, request in beats:
        given_ids[group] = ask(key, version, request).member_epoch
    return given_ids


def _fill_queues_and_streams(ask: Ask, size: Size) -> None:
    """Make a share group and a streams group that have as many partitions and tasks as there are."""
    for number in range(size.sharers):
        member = share_group_heartbeat.ShareGroupHeartbeatRequest("s0", f"m{number}", 0, subscribed_topic_names=("t0",))
        ask(76, 1, member)
    for number in range(size.sharers):
        ask(88, 0, _join_streams(f"m{number}"))


def _join_streams(member: str) -> streams_group_heartbeat.StreamsGroupHeartbeatRequest:
    parts = (streams_group_heartbeat.StreamsGroupHeartbeatRequestSubtopology("0", ("t0",)),)
    return streams_group_heartbeat.StreamsGroupHeartbeatRequest(
        "k0", member, 0, rebalance_timeout_ms=60_000,
        topology=streams_group_heartbeat.StreamsGroupHeartbeatRequestTopology(1, parts), process_id=member,
        active_tasks=(), standby_tasks=(), warmup_tasks=(),
    )  # fmt: skip


def _is_due(at_ms: int | None, now_ms: int) -> bool:
    return at_ms is not None and at_ms <= now_ms


def _decode(data: bytes, meter: "_Meter") -> Request | None:
    """Decode a request as a server does, a long one in steps. None if it is refused."""
    try:
        if len(data) <= LONG_BYTES:
            return cast("Request", meter.run("decode", lambda: decode_request(data)))
        steps, pace = decode_request_in_steps(data), ProcessorTime(thread_time)
        while (request := meter.run("decode", lambda: decode_more(steps, pace))) is None:
            pass
    except ProtocolError:
        return None
    return cast("Request", request)


class Collector:
    """Measures the passes of Python's collector, which may come in any step and take as long as there are objects."""

    def __init__(self) -> None:
        self._began_s, self._passes = 0.0, list[float]()
        gc.callbacks.append(self._note)

    def _note(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._began_s = thread_time()
        else:
            self._passes.append(thread_time() - self._began_s)

    def take_passes(self) -> list[float]:
        """Return how long each pass took since this was last asked."""
        passes, self._passes = self._passes, []
        return passes


COLLECTOR: Final = Collector()


class _Meter:
    def __init__(self) -> None:
        self.steps = 0
        self._longest_s, self._what, self._longest_bytes = 0.0, "", 0
        self._began_bytes = self._most_bytes = resident_bytes()

    def run(self, what: str, action: Callable[[], Any]) -> Any:
        before = resident_bytes()
        COLLECTOR.take_passes()
        began_s = thread_time()
        result = action()
        took_s, after = thread_time() - began_s, resident_bytes()
        passes = COLLECTOR.take_passes()
        self.steps += 1
        self._note(what, took_s - sum(passes))
        self._note("collector", max(passes, default=0.0))
        self._longest_bytes = max(self._longest_bytes, after - before)
        self._most_bytes = max(self._most_bytes, after)
        return result

    def _note(self, what: str, took_s: float) -> None:
        if took_s > self._longest_s:
            self._longest_s, self._what = took_s, what

    def cost(self, name: str, count: int, data: bytes) -> Cost:
        grown = self._most_bytes - self._began_bytes
        return Cost(name, count, len(data), self.steps, self._longest_s, self._what, self._longest_bytes, grown)


def resident_bytes() -> int:
    """Return how much memory the process has."""
    with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 - many times a second
        return int(file.read().split()[1]) * PAGE_BYTES
