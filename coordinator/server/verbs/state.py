"""The state of the whole server, as an operator sets it: a reset, snapshots, topics and offsets from JSON."""

import logging
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol

import msgspec
from msgspec import UNSET, Struct, UnsetType

from coordinator.control.inputs import AskInput, Kind, Origin
from coordinator.control.names import Name
from coordinator.core.catalog.names import INTERNAL
from coordinator.core.decision import Done, Steps
from coordinator.core.kinds.registry import kind_of
from coordinator.core.pace import Pace, map_in_steps, sort_in_steps
from coordinator.core.principal import OPERATOR_PRINCIPAL
from coordinator.core.result import Call
from coordinator.core.share_state.values import StateKey
from coordinator.core.verbs import BY
from coordinator.dataplane.brokers import OPERATOR, Where
from coordinator.runtime.clock import CoordinatorClock
from coordinator.runtime.node import Node
from coordinator.runtime.snapshot import Snapshot
from coordinator.server.frontend import Frontend
from coordinator.server.poller import Poller
from coordinator.server.verbs.groups import GroupVerbs
from coordinator.server.verbs.one_at_a_time import OneAtATime
from coordinator.server.verbs.queues import Queue, seed_queues, view_queues
from coordinator.server.verbs.refusal import Refusal
from coordinator.server.verbs.requests import RequestVerbs
from coordinator.server.verbs.scenarios import ScenarioVerbs
from coordinator.server.verbs.topic_portions import cut_topics
from coordinator.server.verbs.waits import Waits, finish_waits
from protocol.apis import api_of
from protocol.bounds import TEXT_BYTES_MAX
from protocol.codec import encode_request
from protocol.errors import ErrorCode
from protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestCreatableTopic
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.steps import finish_steps
from storage.files import StorageError
from storage.pending_reset import PendingReset

log = logging.getLogger("muster.server")

OFFSET_MAX: Final = 2**63 - 1
RESTARTING: Final = "a reset or a restore is under way"


def _do_nothing() -> None:
    """Have nothing to do when a node is opened."""


class State(Struct, frozen=True, forbid_unknown_fields=True):
    """A state to start a test from: partitions by topic; offsets, and queues of share groups, by group, topic and
    partition."""

    topics: dict[Name, int] = {}
    offsets: dict[Name, dict[Name, dict[str, int]]] = {}
    queues: dict[Name, dict[Name, dict[str, Queue]]] | UnsetType = UNSET  # left out where there are none


class PrefixReset(Struct, frozen=True):
    """What a reset of a part removes: names that begin so, and with none of those to keep."""

    prefix: str
    keep: tuple[str, ...] = ()

    def removes(self, name: str) -> bool:
        """Return whether it is about this name of a group or a topic."""
        return name.startswith(self.prefix) and not name.startswith(self.keep)


class World(Protocol):
    """The surroundings of a node: they can start another in its place."""

    @property
    def is_ready(self) -> bool: ...
    @property
    def origin(self) -> Origin: ...
    @property
    def pending_reset(self) -> PendingReset: ...
    def begin_snapshot(self) -> Generator[None, None, Snapshot]: ...
    def prepare_restart(self, snapshot: Snapshot) -> None:
        """Put the logs of a snapshot in place, for `restart`. Raises StorageError if nothing has
        changed."""

    def restart_in_steps(self, opened: Callable[[], None]) -> Waits[None]:
        """Start another node, with the logs that were prepared, and serve clients again (`Poller.release`).

        `opened` is called before it loads, in steps. The note of resets that are going on is gone then."""

    def fail(self, failure: StorageError) -> None:
        """End the process: what is on the disk is not what it has to be, and the next start puts it right."""


class StateVerbs:
    """The verbs for the state of the server."""

    def __init__(
        self,
        node: Callable[[], Node],
        frontend: Frontend,
        poller: Poller,
        clock: CoordinatorClock,
        world: World,
        *,
        one_at_a_time: OneAtATime,
        groups: GroupVerbs,
        requests: RequestVerbs,
        scenarios: ScenarioVerbs,
    ) -> None:
        self._node = node
        self._frontend = frontend
        self._poller = poller
        self._clock = clock
        self._world = world
        self._groups = groups
        self._requests = requests
        self._scenarios = scenarios
        self._snapshots: dict[str, Snapshot] = {}
        self._resets: list[PrefixReset] = []  # that are going on
        self._one_at_a_time = one_at_a_time

    def reset(self) -> None:
        """Start again with an empty state: the topics of the start, no groups, no connections, no faults.

        Members from before the reset are refused, where they can be told from new ones.
        """
        finish_waits(self.reset_in_steps())

    def reset_in_steps(self, opened: Callable[[], None] = _do_nothing) -> Waits[None]:
        """Do the same in steps. It is to be done to its end. `opened` is called when all from before is gone, and no
        client has been served since."""
        yield from self._restart({}, self._keep_all_out(), opened)

    def _keep_all_out(self) -> Steps[None]:
        yield from self._groups.keep_out_in_steps((yield from self._groups.names_in_steps()))

    def _let_all_in(self) -> Steps[None]:
        self._requests.let_in()
        yield

    def reset_prefix_in_steps(self, prefix: str, keep: tuple[str, ...]) -> Generator[None, None, tuple[int, int]]:
        """Remove the groups and topics whose names begin with `prefix`, and with none of `keep`; return how many.

        A server that is killed meanwhile does the rest when it starts. Raises Refusal.
        """
        self._check_ready()
        what, others = PrefixReset(prefix, keep), self._resets
        try:
            self._note_resets([*others, what])
        except StorageError as failure:
            with suppress(StorageError):  # the file may have it already, and has the others still
                self._note_resets(others)
            raise Refusal(f"nothing has changed: {failure}", failure=failure) from None
        try:
            counts = yield from self._remove_in_steps(what)
        except Refusal:  # the caller is told of it, so no start has to do the rest
            self._note_end([what])
            raise
        self._note_end([what])
        return counts

    def _note_resets(self, resets: list[PrefixReset]) -> None:
        """Note the resets that are going on: workers of a test run may have one each."""
        is_synced = self._node().engine.is_synced
        self._resets = resets
        if resets:
            self._world.pending_reset.note(msgspec.json.encode(resets), is_synced=is_synced)
        else:
            self._world.pending_reset.clear(is_synced=is_synced)

    def finish_reset_in_steps(self) -> Generator[None, None, None]:
        """Do the rest of a reset that was cut off. Others may begin meanwhile: the file has all of them.

        Without --fsync a power cut may leave the file without its contents. What it said is lost then, as records are.
        """
        found = self._world.pending_reset.read()
        if found is None:
            return
        try:
            resets = msgspec.json.decode(found, type=list[PrefixReset])
        except msgspec.DecodeError as error:
            log.warning("a reset that was cut off cannot be finished: its file cannot be read (%s)", error)
            resets = []
        self._resets = [*resets, *self._resets]
        for what in resets:
            log.warning("a reset that was cut off is finished", extra={"prefix": what.prefix})
            try:
                yield from self._remove_in_steps(what)
            except Refusal as refusal:  # an operator has moved a group meanwhile
                log.warning("its rest is left as it is: %s", refusal, extra={"prefix": what.prefix})
        self._note_end(resets)

    def _note_end(self, over: list[PrefixReset]) -> None:
        """Note that resets are over. Where that fails the process ends: a later start would remove what is made under
        their prefixes from now on."""
        try:
            self._note_resets([one for one in self._resets if not any(one is what for what in over)])
        except StorageError as failure:
            self._world.fail(failure)
            raise

    def _remove_in_steps(self, what: PrefixReset) -> Generator[None, None, tuple[int, int]]:
        """Remove it, and return how much.

        A reset or a restore of everything meanwhile is as if it came afterwards: what it has put in place stays, and
        nothing is counted.
        """
        node, steps = self._node(), self._remove(what)
        while self._node() is node:
            try:
                next(steps)
            except StopIteration as end:
                counts: tuple[int, int] = end.value
                return counts
            yield
        return 0, 0

    def _remove(self, what: PrefixReset) -> Generator[None, None, tuple[int, int]]:
        self._scenarios.remove_of(what.removes)
        self._requests.remove_faults_of(what.removes)
        topics = yield from self.topics_in_steps(what.prefix, what.keep)
        groups = yield from self._groups.forget_all_in_steps(what.prefix, what.keep)
        for names in cut_topics(topics):
            yield from self.remove_topics_in_steps(names)
            yield
        return groups, len(topics)

    def take_snapshot(self, name: str) -> int:
        """Keep the contents of the logs under a name, read at once."""
        return finish_steps(self.take_snapshot_in_steps(name))

    def take_snapshot_in_steps(self, name: str) -> Generator[None, None, int]:
        """Keep what the logs hold now under a name. Return its size in bytes. Parked requests are not included."""
        self._check_ready()
        others = sum(size for other, size in self.snapshots().items() if other != name)
        self._check_room(others + sum(self._node().log_bytes().values()))  # nothing is read that would be refused
        snapshot = yield from self._world.begin_snapshot()
        others = sum(size for other, size in self.snapshots().items() if other != name)  # of this moment
        size = sum(map(len, snapshot.values()))
        self._check_room(others + size)
        self._snapshots[name] = snapshot
        return size

    def _check_room(self, size: int) -> None:
        bound = self._node().world.config["snapshots.max.bytes"]
        if size > bound:
            message = f"snapshots may take {bound} bytes in all (snapshots.max.bytes): remove one"
            raise Refusal(message, is_conflict=True)

    def restore(self, name: str) -> None:
        """Start again with the logs of a snapshot. Every connection is closed, and its members may come back."""
        finish_waits(self.restore_in_steps(name))

    def restore_in_steps(self, name: str, opened: Callable[[], None] = _do_nothing) -> Waits[None]:
        """Do the same in steps, as `reset_in_steps` does."""
        yield from self._restart(self.snapshot(name), self._let_all_in(), opened)

    def snapshot(self, name: str) -> Snapshot:
        """Return a snapshot. Raises Refusal if there is none with this name."""
        if name not in self._snapshots:
            raise Refusal(f"there is no snapshot {name!r}", is_conflict=True)
        return self._snapshots[name]

    def snapshots(self) -> dict[str, int]:
        """Return the bytes of each snapshot, by name."""
        return {name: sum(map(len, one.values())) for name, one in sorted(self._snapshots.items())}

    def remove_snapshot(self, name: str) -> None:
        """Remove a snapshot."""
        self.snapshot(name)
        del self._snapshots[name]

    def _restart(self, snapshot: Snapshot, prepared: Steps[None], opened: Callable[[], None]) -> Waits[None]:
        """Start again with these logs. `prepared` is done once they are written, before anything else changes, and no
        client is served from then on."""

        def begin() -> None:
            self._resets = []
            self._requests.begin_journal(self._world.origin)
            opened()

        self._check_ready()
        with self._one_at_a_time.during(RESTARTING):
            try:
                yield partial(self._world.prepare_restart, snapshot)
            except StorageError as failure:
                raise Refusal(f"nothing has changed: {failure}", failure=failure) from None
            self._poller.hold()
            try:
                yield from prepared
                self._scenarios.clear()
                self._requests.remove_faults()
                self._clock.set_rate(1.0)
                yield from self._world.restart_in_steps(begin)
            finally:
                self._poller.release()
        self._poller.turn()  # wakes those who wait for what is loaded by now

    def _check_ready(self) -> None:
        if not self._world.is_ready:
            raise Refusal("the server is still loading", is_conflict=True)

    def contents(self, prefix: str = "") -> State:
        """Return topics, and groups with their offsets, whose names begin with `prefix`."""
        return finish_steps(self.contents_in_steps(prefix))

    def contents_in_steps(self, prefix: str = "") -> Generator[None, None, State]:
        """Return the same in steps."""
        topics = yield from self.topics_in_steps(prefix)
        known = self._node().world.ledger.catalog.topics
        offsets, pace = dict[str, Any](), Pace()
        for view in (yield from self._groups.views_in_steps(prefix)):
            if pace.is_due():
                yield
            kept = dict[str, dict[str, int]]()
            for topic, by_partition in view.offsets.items():
                if pace.is_due():
                    yield
                if topic in known:  # the offsets of a topic that is gone are removed in steps after it
                    kept[topic] = by_partition
            if kept:
                offsets[view.group] = kept
        states = self._node().engine.share_states.states()
        queues = yield from view_queues(states, known, prefix)
        return State(topics, offsets, queues or UNSET)

    def topics(self, prefix: str = "") -> dict[str, int]:
        """Return the partitions of the topics whose names begin with `prefix`, but for the coordinator's own."""
        return finish_steps(self.topics_in_steps(prefix))

    def topics_in_steps(self, prefix: str = "", keep: tuple[str, ...] = ()) -> Steps[dict[str, int]]:
        """Return the same in steps, but for those that begin with one of `keep`."""
        topics, pace, names = self._node().world.ledger.catalog.topics, Pace(), list[str]()
        for name in topics:
            if pace.is_due():
                yield
            if name.startswith(prefix) and not name.startswith(keep) and name not in INTERNAL:
                names.append(name)
        counts = yield from map_in_steps(
            (yield from sort_in_steps(names)), lambda name: (name, topics[name].partitions)
        )
        return dict(counts)

    def seed(self, state: State) -> None:
        """Create topics and commit offsets, as a client without a group would. Raises Refusal."""
        for group_id in (*state.offsets, *(state.queues or ())):
            if len(group_id.encode()) > TEXT_BYTES_MAX:  # of letters that take several bytes
                raise Refusal(f"invalid group of {len(group_id)} letters: expected {TEXT_BYTES_MAX} bytes at most")
        topics = self._node().world.ledger.catalog.topics
        missing = dict[str, int]()
        for name, count in state.topics.items():
            if name not in topics:
                missing[name] = count
            elif (partitions := topics[name].partitions) != count:
                raise Refusal(f"topic {name!r} has {partitions} partitions, and not {count}", is_conflict=True)
        if missing:
            wanted = tuple(CreateTopicsRequestCreatableTopic(name, count, -1) for name, count in missing.items())
            for topic in self._ask(CreateTopicsRequest(wanted, timeout_ms=1_000), 7).topics:
                if topic.error_code:
                    raise Refusal(f"topic {topic.name!r}: {topic.error_message}")
        for group_id, offsets in state.offsets.items():
            for answer in self._ask(_commit(group_id, offsets), 8).topics:
                for partition in answer.partitions:
                    if partition.error_code:
                        what = f"group {group_id!r}, {answer.name}-{partition.partition_index}"
                        raise Refusal(f"{what}: {self._explain(group_id, ErrorCode(partition.error_code))}")
        if state.queues:
            known = self._node().world.ledger.catalog.topics
            seed_queues(state.queues, self._ask, known, self._read_state_epoch, self._explain)

    def _explain(self, group_id: str, code: ErrorCode) -> str:
        """Return the name of an error, with what the group is if that is the reason."""
        group = self._node().world.partitions.owner(group_id).shard.groups.get(group_id)
        if group is None or code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return code.name
        return f"{code.name}: it is a {kind_of(group).name} group with {len(group.members)} members"

    def _read_state_epoch(self, key: StateKey) -> int:
        """Return the epoch in which a state may be written."""
        found = self._node().engine.share_states.summary(key)
        if isinstance(found, ErrorCode):
            raise Refusal(f"share group {key.group_id!r}, partition {key.partition}: {found.name}", is_conflict=True)
        return found.state_epoch

    def remove_topics(self, names: tuple[str, ...]) -> None:
        """Delete topics. There can be others of their names when this returns."""
        finish_steps(self.remove_topics_in_steps(names))

    def remove_topics_in_steps(self, names: tuple[str, ...]) -> Steps[None]:
        """Do the same in steps, of topics that have so few partitions together that they are few steps."""
        node, ticket = self._node(), self._frontend.connections.next_ticket()
        self._ask(DeleteTopicsRequest(topic_names=names, timeout_ms=1_000), 5, ticket)
        while node.engine.unfinished.find(ticket) is not None:
            yield
            self._poller.perform(lambda _: None)

    def _ask(self, request: Any, version: int, ticket: int = 0) -> Any:
        """Let the node decide a request of the operator. One that may have further steps has a ticket, and no response
        then."""
        node, api = self._node(), api_of(request)

        def decide(now_ms: int) -> Any:
            if node.world.note_input is not None:
                frame = encode_request(api.key, version, 0, BY, request)[4:]
                node.world.note_input(Kind.ASK, AskInput(frame, now_ms, ticket))
            fresh_id = self._frontend.handler.fresh_id
            call = Call(ticket, now_ms, version, BY, "/operator", fresh_id, OPERATOR_PRINCIPAL)
            outcome = node.engine.handle(api.key, request, call, Where((), OPERATOR))
            return outcome.response if isinstance(outcome, Done) else None

        return self._poller.perform(decide)


def _commit(group_id: str, offsets: dict[str, dict[str, int]]) -> OffsetCommitRequest:
    topics = []
    for topic, partitions in offsets.items():
        if invalid := [index for index in partitions if not (index.isascii() and index.isdigit() and len(index) < 10)]:
            raise Refusal(f"invalid partition {invalid[0]!r} of {topic!r}: expected a number")
        if outside := [offset for offset in partitions.values() if not 0 <= offset <= OFFSET_MAX]:
            raise Refusal(f"invalid offset {outside[0]} of {topic!r}: expected 0 to {OFFSET_MAX}")
        entries = (OffsetCommitRequestPartition(int(index), offset) for index, offset in partitions.items())
        topics.append(OffsetCommitRequestTopic(topic, partitions=tuple(entries)))
    return OffsetCommitRequest(group_id, topics=tuple(topics))
