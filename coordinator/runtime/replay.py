"""Feed a journal to a node of its own, and compare its responses with those of the journal.

The node begins as the one of the journal did, with the same seed, time and settings, and is given the same inputs in
the same order: so it is to give the same responses, and to write the same logs, byte by byte. What differs has changed
in Muster between the two versions, or depends on something that it should not depend on.

Not compared are requests that met a fault, which changed what was sent, requests without a response in the journal, and
DescribeLogDirs, whose response says where the logs are, and how much room their disk has.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from msgspec import Struct

from coordinator.config import Config
from coordinator.config_layers import read_table
from coordinator.control.inputs import AdvanceInput, AdvertisedListener, AskInput, Input, Kind, StepInput, VerbInput
from coordinator.control.journal import Entry
from coordinator.control.journal_file import WITHOUT_CHECKPOINTS, JournalError, Recording
from coordinator.core.decision import Done, Parked, Silent
from coordinator.core.events import Event
from coordinator.core.principal import OPERATOR_PRINCIPAL
from coordinator.core.result import Call
from coordinator.core.verbs import BY
from coordinator.dataplane.brokers import OPERATOR, Broker, introduce
from coordinator.runtime.advance import Advance
from coordinator.runtime.dice import fresh_ids
from coordinator.runtime.node import Node, Setup, Where
from coordinator.runtime.steps import Checkpoints, Endless
from coordinator.runtime.world import Replies
from coordinator.setting import ConfigError
from protocol.apis import keys_with
from protocol.codec import decode_request, encode_response
from protocol.errors import ProtocolError, UnsupportedVersion
from protocol.steps import finish_steps
from protocol.traits import Trait
from storage.files import Files

OPERATOR_HOST: Final = "/operator"
OF_THE_MACHINE: Final = keys_with(Trait.OF_THE_MACHINE)
Perform = Callable[["Replay", Any], object]


class Difference(Struct, frozen=True):
    """A request whose response is not the one of the journal."""

    entry: Entry
    response: bytes | None  # None: the node has not answered


class Replay:
    """A journal, and a node that is given its inputs."""

    def __init__(self, recording: Recording, files: Files, data_dir: str) -> None:
        """Open the node in a directory without logs. Raises JournalError for settings that cannot be used."""
        origin = recording.origin
        self._items = recording.items
        self._ids = fresh_ids(origin.seed)
        self._ids.skip(origin.ids)
        self._reals = deque(
            one.value for one in recording.items if isinstance(one, Input) and one.kind is Kind.REAL
        )  # what the real clock is to show, reading by reading
        self._real_ms = origin.opened_ms
        self._where = _wheres(origin.listeners)
        self._parked: dict[int, Entry] = {}  # by ticket
        self._responses: dict[int, bytes] = {}  # by the number of the request
        self._advance: Advance | None = None
        self._retention: Iterator[None] = iter(())
        self.events: list[Event] = []
        self.requests = 0  # that were given to the node
        setup = Setup(
            config=_config(origin.settings),
            files=files,
            data_dir=data_dir,
            fresh_id=self._ids,
            real_ms=self._read_real_clock,
            tell=self.events.append,
            compat=origin.compat,
            is_synced=origin.is_synced,
            topics=origin.topics,
            meter=Endless() if recording.format == WITHOUT_CHECKPOINTS else Checkpoints(),
            cluster_id=origin.cluster_id,
        )
        self.node = Node(setup)
        self.node.engine.group_commit.follow_journal()
        self.node.open(origin.opened_ms, origin.producer_ids)

    def run(self) -> list[Difference]:
        """Give the node all inputs. Returns the requests that it has answered in another way, in their order.

        Raises JournalError for a request that cannot be read; then nothing was given to the node.
        """
        for item in self._items:
            if isinstance(item, Entry):
                self._check(item)
        for item in self._items:
            if isinstance(item, Input):
                _PERFORM[item.kind](self, item.value)
            elif item.is_decided:
                self._decide(item)
        return list(self._differences())

    @property
    def compared(self) -> int:
        """How many responses the journal has that can be compared."""
        return sum(1 for _ in self._comparable_entries())

    def close(self) -> None:
        """Append what is left, and close the logs."""
        self.node.close()

    def _check(self, entry: Entry) -> None:
        client = entry.client
        if (client.listener, client.broker) not in self._where:
            reason = f"broker {client.broker} has no listener {client.listener!r}"
            raise JournalError(f"request {entry.number}: {reason}")
        try:
            decode_request(entry.frame)
        except ProtocolError as error:
            raise JournalError(f"request {entry.number} cannot be read: {error}") from None

    # -- inputs --------------------------------------------------------------------------------------------------------

    def _decide(self, entry: Entry) -> None:
        request = decode_request(entry.frame)
        call = Call(
            entry.ticket, entry.at_ms, request.version, request.client_id, entry.client.host, self._ids,
            entry.client.principal, entry.client.listener, connection=entry.client.connection,
        )  # fmt: skip
        self.requests += 1
        try:
            where = self._where[entry.client.listener, entry.client.broker]
            decision = self.node.engine.handle(request.api_key, request.body, call, where)
        except (UnsupportedVersion, ProtocolError):
            return  # it is answered, or its connection closed, without the node
        if isinstance(decision, Parked):
            self._parked[entry.ticket] = entry
        else:
            self._answer(entry, decision)

    def _repeat_step(self, noted: StepInput | None) -> None:
        long_requests = self.node.engine.long_requests
        long_requests.repeat_step(noted)
        self._reply(long_requests.take_replies())

    def _reply(self, replies: Replies) -> None:
        for ticket, outcome in replies:
            entry = self._parked.pop(ticket, None)
            if entry is not None:
                self._answer(entry, outcome)

    def _answer(self, entry: Entry, outcome: Done | Silent) -> None:
        if isinstance(outcome, Done):
            self._responses[entry.number] = encode_response(
                entry.api_key, entry.version, entry.correlation_id, outcome.response
            )

    def _forget(self, ticket: int) -> None:
        self._parked.pop(ticket, None)
        self.node.engine.forget(ticket)

    def _ask(self, asked: AskInput) -> None:
        request = decode_request(asked.frame)
        call = Call(asked.ticket, asked.now_ms, request.version, BY, OPERATOR_HOST, self._ids, OPERATOR_PRINCIPAL)
        self.node.engine.handle(request.api_key, request.body, call, Where((), OPERATOR))

    def _begin_advance(self, noted: AdvanceInput) -> None:
        renewed = iter(noted.renewed)
        self._advance = Advance(self.node.world, noted.target_ms, lambda _: next(renewed, False), lambda _: None)

    def _end_advance(self, now_ms: int) -> None:
        if self._advance is not None:
            finish_steps(self._advance.arrive(now_ms))
            self._advance.close()
            self._advance = None

    def _retain(self, now_ms: int) -> None:
        self._retention = self.node.world.dataplane.tend(now_ms)
        next(self._retention, None)

    def _expire_ids(self, now_ms: int) -> None:
        self.node.forget_transactional_ids(now_ms)

    def _prune(self, now_ms: int) -> None:
        self.node.prune_share_states(now_ms)

    def _load(self, now_ms: int) -> None:
        for _ in self.node.load(lambda: now_ms):
            pass

    def _read_real_clock(self) -> int:
        """Return what the clock showed at this reading; if there were fewer readings, what it showed at the latest."""
        if self._reals:
            self._real_ms = self._reals.popleft()
        return self._real_ms

    # -- what comes of it ----------------------------------------------------------------------------------------------

    def _comparable_entries(self) -> Iterable[Entry]:
        for item in self._items:
            if isinstance(item, Entry) and item.is_decided and item.response is not None and not item.fault:
                if item.api_key not in OF_THE_MACHINE:
                    yield item

    def _differences(self) -> Iterator[Difference]:
        for entry in self._comparable_entries():
            response = self._responses.get(entry.number)
            if response != entry.response:
                yield Difference(entry, response)


def _wheres(listeners: Iterable[AdvertisedListener]) -> dict[tuple[str, int], Where]:
    """Return what clients are told, by the listener and the broker that they come to."""
    by_name: dict[str, dict[int, Broker]] = {}
    for one in listeners:
        by_name.setdefault(one.name, {})[one.node_id] = Broker(one.node_id, one.host, one.port)
    return {(name, node_id): where for name, some in by_name.items() for node_id, where in introduce(some).items()}


def _verb(replay: Replay, verb: VerbInput) -> None:
    replay.node.command(verb.fields, verb.now_ms, replay._ids)


_PERFORM: Final[dict[Kind, Perform]] = {
    Kind.LOAD: Replay._load,
    Kind.FIRE: lambda replay, now_ms: replay.node.engine.fire(now_ms),
    Kind.REAL: lambda replay, value: None,  # it is read when the node asks
    Kind.REPLIES: lambda replay, value: replay._reply(replay.node.engine.replies()),
    Kind.STEP: Replay._repeat_step,
    Kind.FORGET: Replay._forget,
    Kind.DISCONNECT: lambda replay, connection: replay.node.engine.disconnect(
        connection, replay.node.world.dataplane.shown_ms
    ),
    Kind.TIME: lambda replay, now_ms: replay.node.engine.note_time(now_ms),
    Kind.HELD: lambda replay, held: replay.node.engine.note_unsent(held),
    Kind.FLUSH: lambda replay, value: replay.node.engine.flush(),
    Kind.SYNC: lambda replay, value: replay.node.engine.group_commit.begin_sync(),
    Kind.SYNCED: lambda replay, value: replay.node.engine.group_commit.end_sync(),
    Kind.VERB: _verb,
    Kind.ASK: Replay._ask,
    Kind.ADVANCE: Replay._begin_advance,
    Kind.ADVANCED: Replay._end_advance,
    Kind.RETAIN: Replay._retain,
    Kind.RETAIN_STEP: lambda replay, value: next(replay._retention, None),
    Kind.FINISH: lambda replay, now_ms: replay.node.engine.recorder.finish_transactions(now_ms),
    Kind.EXPIRE_IDS: Replay._expire_ids,
    Kind.PRUNE: Replay._prune,
}


def _config(settings: Any) -> Config:
    try:
        return Config(read_table(settings, lambda name: "the journal").values)
    except ConfigError as error:
        raise JournalError(f"the settings of the journal cannot be used: {error}") from None
