"""What holds whatever happens, in plain sentences. `mutants` shows that each can fail."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from coordinator.core.events import Cause
from coordinator.core.kinds.classic.group import ClassicGroup
from coordinator.core.kinds.classic.states import State
from coordinator.core.kinds.consumer.group import ConsumerGroup
from coordinator.core.kinds.streams.group import StreamsGroup
from coordinator.runtime import loader
from coordinator.runtime.world import World
from protocol.error_codes import error_counter
from protocol.errors import ErrorCode
from protocol.messages import consumer_protocol as embedded
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.fetch import FetchRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.offset_fetch import OffsetFetchRequest
from protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from protocol.messages.share_fetch import ShareFetchRequest
from protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.core import durable
from tests.core.kinds.consumer.commands import check as check_consumer_group
from tests.server.in_memory import InMemory
from tests.simulation.broken import Broken, promise
from tests.simulation.journal import Journal
from tests.simulation.offsets import Offsets
from tests.simulation.requests import Request
from tests.simulation.streams_promises import TaskPromises

if TYPE_CHECKING:
    from tests.simulation.server import Server, Session

LONGEST_MS: Final = 60_000 + 3_000 + 1_000  # a rebalance timeout, the initial delay, and a second
FETCH_WAITS_MS: Final = 1_000
HELD_MS: Final = 90_000  # two syncs, and a process without a processor
TRACE: Final = 40  # how many of the latest events a broken promise shows
FETCHES: Final = (FetchRequest, ShareFetchRequest)
PARKED: Final = (JoinGroupRequest, SyncGroupRequest, *FETCHES, ShareAcknowledgeRequest)  # the last one in its steps


@cache
def _codes(cls: type[Any]) -> Callable[[Any], Iterable[int]]:
    return error_counter(cls)


def codes_in(answer: Any) -> set[int]:
    """The error codes of an answer, however deep they lie."""
    return set(_codes(type(answer))(answer))


class Promises:
    """Watches a server from outside, by what it is sent and answers, and from inside between two turns."""

    def __init__(self, retention_ms: int, policy: str) -> None:
        self.retention_ms = retention_ms
        self.policy = policy  # group.consumer.migration.policy
        self.lasting_topics = ("t", "u")  # which are never deleted, so that a name is a topic
        self.replays = 0
        self.offsets = Offsets()
        self.journal = Journal()
        self.topic_names: dict[bytes, str] = {}
        self.generations = 0
        self.trace: list[str] = []
        self._order = 0
        self._owners: dict[str, dict[tuple[int, str, int], str]] = {}  # by group: (generation, partition) -> member
        self._latest: dict[str, tuple[type, int]] = {}  # by group: its class, and the latest generation or epoch
        self._dealt: dict[tuple[str, int], dict[str, int]] = {}  # by group and generation: how many partitions by topic
        self._topics: object = None
        self._has_forgotten = False  # a power cut without --fsync may have taken what was acknowledged
        self.errors = ErrorLog()
        self.tasks = TaskPromises()

    def note(self, now_ms: int, text: str) -> None:
        """Keep a line for the trace of a broken promise."""
        self.trace.append(f"{now_ms} {text}")
        del self.trace[:-TRACE]

    # -- from outside --------------------------------------------------------------------------------------------------

    def delivered(self, request: Request) -> None:
        """A request has arrived."""
        self._count(request)
        message = request.message
        if isinstance(message, SyncGroupRequest) and message.assignments:
            self._dealt[message.group_id, message.generation_id] = Counter(
                topic.topic
                for share in message.assignments
                for topic in embedded.read_assignment(share.assignment).assigned_partitions
                for _ in topic.partitions
            )

    def note_decision(self, request: Request) -> None:
        """A request is about to be decided: other connections' may have arrived before it and be decided behind it."""
        self._count(request)
        request.is_decided = True

    def _count(self, request: Request) -> None:
        self._order += 1
        request.order = self._order

    def answered(self, server: Server, request: Request, response: Any) -> None:
        """An answer leaves the server."""
        now_ms = server.now_ms()
        errors = codes_in(response)
        self.note(now_ms, f"{type(request.message).__name__} v{request.version} {_brief(request.message)} -> {errors}")
        promise(ErrorCode.UNKNOWN_SERVER_ERROR not in errors, "no internal error", lambda: repr(request.message))
        self.offsets.answered(request, response, now_ms)
        self.journal.answered(request, response)
        promise(
            not self.journal.wrong, "what is produced and committed is read, and nothing else", self.journal.wrong.pop
        )
        if isinstance(response, SyncGroupResponse) and not response.error_code:
            self._assigned(server, request.message, response)
        elif isinstance(request.message, OffsetFetchRequest):
            self._fetched(request.message, response, now_ms)
        elif isinstance(request.message, StreamsGroupHeartbeatRequest) and not response.error_code:
            self._forget_ended_groups(server)
            self.tasks.told(server, request.message, response)

    def _assigned(self, server: Server, request: SyncGroupRequest, response: SyncGroupResponse) -> None:
        group = server.node.world.partitions.owner(request.group_id).shard.groups.get(request.group_id)
        if not isinstance(group, ClassicGroup) or not response.assignment:
            return
        generation = request.generation_id
        who = request.group_instance_id or request.member_id
        owners = self._owners.setdefault(request.group_id, {})
        for topic in embedded.read_assignment(response.assignment).assigned_partitions:
            for partition in topic.partitions:
                owner = owners.setdefault((generation, topic.topic, partition), who)
                promise(
                    owner == who,
                    "no two own a partition in a generation",
                    lambda o=owner, t=topic.topic, p=partition: f"{o} and {who} own {t}-{p} in {generation}",
                )

    def _fetched(self, request: OffsetFetchRequest, response: Any, now_ms: int) -> None:
        for group in response.groups:
            if group.error_code:
                continue
            for topic in group.topics:
                for one in topic.partitions:
                    key = (group.group_id, topic.name, one.partition_index)
                    if not one.error_code:
                        self._read(key, one.committed_offset, now_ms)

    def _read(self, key: tuple[str, str, int], offset: int, now_ms: int) -> None:
        state = self.offsets.at(key)
        promise(
            state.observe(offset, self.offsets.latest_ms(key, now_ms), self.retention_ms),
            "what was acknowledged is there, and what was refused or aborted is not",
            lambda: f"{key} is {offset}, not {state.known} or one of {state.maybe}",
        )

    def owned(self, server: Server, member: Any, members: Iterable[Any]) -> None:
        """A member has taken what it was assigned: of those who are in, nobody else owns any of it."""
        if not server.is_ready:
            return
        group = server.node.world.partitions.owner(member.group).shard.groups.get(member.group)
        for other in members:
            is_in = group is not None and self._is_known(group, other) and self._is_known(group, member)
            if other is not member and other.group == member.group and is_in:
                both = {one for one in member.owned & other.owned if one[0] in self.lasting_topics}
                promise(
                    not both,
                    "no two members own a partition",
                    lambda o=other, b=both: f"{member.member_id}, {o.member_id}: {b}",
                )

    def run(self, server: Server, member: Any, members: Iterable[Any]) -> None:
        """A member of an application runs what it was given: nobody else runs any of it, and no copy is beside it."""
        if not server.is_ready:
            return
        group = server.node.world.partitions.owner(member.group).shard.groups.get(member.group)
        if isinstance(group, StreamsGroup) and self._is_known(group, member):
            others = [one for one in members if one.group == member.group and self._is_known(group, one)]
            self.tasks.check_running(member, others)

    def _is_known(self, group: Any, member: Any) -> bool:
        """Whether the group has the member, at the epoch that it was told.

        A power cut without --fsync may take back what was told last: the member is fenced at its next heartbeat.
        """
        known = group.members.get(member.member_id)
        if known is None:
            return False
        latest = group.generation if isinstance(group, ClassicGroup) else known.epoch
        return not (self._has_forgotten and member.epoch > latest)

    def topic_id(self, name: str) -> bytes:
        """The latest topic of that name."""
        return next(topic_id for topic_id, known in reversed(self.topic_names.items()) if known == name)

    def unanswered(self, server: Server, requests: list[Request]) -> None:
        """Nobody will hear whether these were decided."""
        for request in requests:
            if request.order:
                self.offsets.unanswered(request, server.now_ms())
                self.journal.unanswered(request)

    # -- between two turns ---------------------------------------------------------------------------------------------

    def turned(self, server: Server, sessions: Iterable[Session]) -> None:
        """A turn has ended: whoever is not parked is answered, and nobody is parked for too long."""
        now_ms = server.now_ms()
        for session in sessions:
            connection, outstanding = session.connection, session.outstanding
            if connection.is_blocked or connection.is_queued or not outstanding:
                continue
            first = outstanding[0]
            if connection.held:
                if session.held is not first:
                    session.held, session.held_ms = first, now_ms
                promise(
                    now_ms - session.held_ms <= HELD_MS,
                    "no response waits for the disk for longer than it takes",
                    lambda f=first: repr(f.message),
                )
                continue
            promise(
                connection.parked is not None,
                "every request is answered, or parked",
                lambda o=outstanding[0]: repr(o.message),
            )
            if session.first is not first:
                session.first, session.first_ms = first, now_ms
            promise(isinstance(first.message, PARKED), "only these are parked", lambda f=first: repr(f.message))
            longest_ms = FETCH_WAITS_MS if isinstance(first.message, FETCHES) else LONGEST_MS
            promise(
                now_ms - session.first_ms <= longest_ms,
                "nobody is parked for longer than a rebalance may take",
                lambda f=first, s=session: f"{now_ms - s.first_ms} ms: {f.message!r}",
            )
        closed = server.node.world.dataplane.closed_partitions
        promise(
            not closed or server.disk.failures > 0, "a log is closed only if its disk has failed", lambda: f"{closed}"
        )
        self._look_at_topics(server)
        self._look_at_generations(server)
        self.tasks.look(server)
        self.errors.check()

    def _look_at_topics(self, server: Server) -> None:
        topics = server.node.world.ledger.catalog.topics
        if topics is not self._topics:
            self._topics = topics
            self.topic_names.update({topic.id: topic.name for topic in topics.values()})

    def _look_at_generations(self, server: Server) -> None:
        for group_id in tuple(self._latest):
            if not server.node.world.partitions.owner(group_id).is_loaded:
                return
            if group_id not in server.node.world.partitions.owner(group_id).shard.groups:
                self._forget(group_id)  # it is gone: another of that name counts anew
        self._forget_ended_groups(server)
        commit = server.node.engine.group_commit
        for partition in server.node.world.partitions:
            for group_id, group in partition.shard.groups.items():
                kind, before = self._latest.get(group_id, (None, 0))
                if kind is ConsumerGroup and isinstance(group, ClassicGroup):
                    self._dealt[group_id, group.generation] = self._sizes(server)
                if isinstance(group, ConsumerGroup) and (group_id, group.assignment_epoch) not in self._dealt:
                    self._dealt[group_id, group.assignment_epoch] = self._sizes(server)
                if kind is not type(group):  # an empty group of the other protocol was replaced by a new one
                    self._latest[group_id], before = (type(group), 0), 0
                    self._owners.pop(group_id, None)
                if isinstance(group, ClassicGroup) and group.state not in (State.STABLE, State.EMPTY):
                    continue  # what an unfinished rebalance has counted is not in the log
                if server.is_synced and commit.find_covering_sync_of(group_id) > commit.last_ended:
                    continue  # nor is what waits for a sync: a power cut takes it, and nobody was told
                number = group.generation if isinstance(group, ClassicGroup) else group.epoch
                self.generations += number != before
                self._latest[group_id] = (type(group), number)
                promise(
                    number >= before,
                    "generations and epochs never decrease",
                    lambda g=group_id, n=number, b=before: f"{g} is at {n} after {b}",
                )

    def _forget_ended_groups(self, server: Server) -> None:
        """Forget groups that others of their names have replaced, as empty ones are when the protocol changes."""
        for event in server.take_events():
            is_replaced = event.cause is Cause.PROTOCOL_UPGRADED and event.before == "Empty"
            if is_replaced or event.cause is Cause.GROUP_CREATED:
                self._forget(event.group)

    def _forget(self, group_id: str) -> None:
        self._latest.pop(group_id, None)
        self._owners.pop(group_id, None)
        self.tasks.forget(group_id)
        self._dealt = {key: sizes for key, sizes in self._dealt.items() if key[0] != group_id}

    def ended(self, server: Server, how: str, lost: list[Request]) -> None:
        """The process has ended."""
        self._forget_ended_groups(server)
        if server.is_up:
            self.offsets.note_clock(self._order, server.now_ms())
        self.note(server.clock.now_ms, how)
        self.unanswered(server, lost)
        if how == "power cut" and not server.is_synced:
            self._has_forgotten = True
            self.offsets.forget()
            self.journal.forget()
            self._latest.clear()
            self._owners.clear()
            self.tasks.forget_all()

    # -- now and then --------------------------------------------------------------------------------------------------

    def audit(self, server: Server) -> None:
        """The server's memory is what its logs say, indices agree with the members, and timers time what exists."""
        if not server.is_ready or server.node.world.coordinators.loads:  # what is being loaded is in the logs only
            return
        group_commit = server.node.engine.group_commit
        if group_commit.find_covering_sync() > group_commit.last_begun:  # what waits for the disk is in memory only
            return
        self._compare_with_replay(server)
        for partition in server.node.world.partitions:
            shard = partition.shard
            for group in shard.groups.values():
                self._check_group(shard, group)
            for (kind, group_id, member_id), _ in shard.timers.items():
                if kind != "expiry" and not _is_timed(kind, member_id, shard.groups.get(group_id)):
                    raise Broken(f"timers are only for what exists: {kind} {member_id} of {shard.groups.get(group_id)}")

    def _check_group(self, shard: Any, group: Any) -> None:
        sentence = "the counters and indices of a group agree with its members"
        if isinstance(group, ConsumerGroup):
            try:
                check_consumer_group(group, shard.limits_of(group.group_id))
            except AssertionError as error:
                raise Broken(f"{sentence}: {error}") from error
        elif isinstance(group, ClassicGroup):
            parked = sum(member.join_ticket is not None for member in group.members.values())
            promise(group.joined == parked, sentence, lambda: f"{group.joined} joined, {parked} are parked")
        for member in group.members.values():
            is_waiting = isinstance(group, ClassicGroup) and member.is_parked
            promise(
                is_waiting or ("session", group.group_id, member.member_id) in shard.timers,
                "every member has a session that ends",
                lambda m=member: repr(m),
            )

    def _compare_with_replay(self, server: Server) -> None:
        """Read a copy of the logs into a node of its own."""
        self.replays += 1
        settings = {**server.settings, "topics": {}}
        twin = InMemory(server.disk.copy(), is_loaded=False, wall_ms=server.now_ms(), **settings).node
        check_replay(server.node.world, twin.world)

    # -- when nothing has disturbed a group for minutes ----------------------------------------------------------------

    @staticmethod
    def _sizes(server: Server) -> dict[str, int]:
        """How many partitions each topic has."""
        return {topic.name: topic.partitions for topic in server.node.world.ledger.catalog.topics.values()}

    def check_transactions(self, server: Server) -> None:
        """A server that is left alone has written the markers of every transaction whose end is decided.

        The marker of a partition whose log the disk has failed, and which so is closed, is written by the next start.
        One that was written just now waits for the disk.
        """
        group_commit = server.node.engine.group_commit
        if group_commit.find_covering_sync() > group_commit.last_ended:
            return
        for one in server.node.world.ledger.transactions.by_id.values():
            has_to_wait = any(
                partition in server.node.world.dataplane.closed_partitions for partition in one.partitions
            )
            promise(
                has_to_wait or not one.state.is_prepared,
                "a transaction whose end is decided ends",
                lambda t=one: repr(t),
            )

    def calm(
        self,
        server: Server,
        group_id: str,
        owned: dict[str, set[tuple[str, int]]],
        topics: set[str],
        blind: set[str],
    ) -> None:
        """A group that is left alone is stable, of those who are alive, and every partition has one owner.

        Under the policy `upgrade` a group whose last consumer member has left stays a consumer group, and nobody tells the
        classic members to rejoin (K-266, as in Kafka): until one does, what that member had has no owner.

        Nor are they told that a topic has grown (recorded: `a_change_of_topics_gives_the_classic_member_the_rest`).

        Under a classic leader that is `blind`, the partitions added since somebody dealt out the generation have none.
        """
        group = server.node.world.partitions.owner(group_id).shard.groups.get(group_id)
        if not owned:
            promise(group is None or not group.members, "nobody is a member who is gone", lambda: repr(group))
            return
        has_to_wait = self.policy == "upgrade" and _waits_for_consumer(group)
        promise(
            group is not None and (group.state == "Stable" or has_to_wait),
            "a group that is left alone is stable",
            lambda: repr(group),
        )
        clients = sorted(_client_id(member) for member in group.members.values())
        promise(
            clients == sorted(owned), "the members are those who are alive", lambda: f"{clients}, not {sorted(owned)}"
        )
        if has_to_wait:
            return
        held = sorted(partition for each in owned.values() for partition in each)
        sizes = {name: size for name, size in self._sizes(server).items() if name in topics}
        dealt = None  # when the partitions were dealt out that may be all there are
        if isinstance(group, ClassicGroup) and group.leader in blind:
            dealt = self._dealt.get((group_id, group.generation))
        elif self.policy == "upgrade" and isinstance(group, ConsumerGroup) and group.classics == len(group.members):
            dealt = self._dealt.get((group_id, group.assignment_epoch))
        if dealt is not None:
            sizes = {name: dealt[name] for name in sizes}
        wanted = sorted((name, partition) for name, size in sizes.items() for partition in range(size))
        promise(held == wanted, "every partition has one owner", lambda: f"{held}, not {wanted}")


def _waits_for_consumer(group: Any) -> bool:
    """Whether there are classic members only, and none has rejoined since the last consumer member left."""
    is_classic = isinstance(group, ConsumerGroup) and group.classics == len(group.members)
    return is_classic and group.assignment_epoch < group.epoch


def check_replay(live: World, twin: World) -> None:
    """Read the logs into `twin`, of a node that is not loaded, and compare it with the world that wrote them."""
    promise(
        (
            dict(twin.ledger.catalog.topics.items()),
            twin.ledger.catalog.configs,
            twin.ledger.transactions.by_id,
        )
        == (
            dict(live.ledger.catalog.topics.items()),
            live.ledger.catalog.configs,
            live.ledger.transactions.by_id,
        ),
        "memory is what the catalog's log says",
        lambda: f"{twin.ledger.transactions.by_id} is not {live.ledger.transactions.by_id}",
    )
    for mine, other in zip(live.partitions, twin.partitions, strict=True):
        if mine.has_log:
            for _ in loader.replay(other):
                pass
        old, rebuilt = durable.facts(mine.shard), durable.facts(other.shard)
        for group_id in old["groups"].keys() - rebuilt["groups"].keys():
            if _is_plain(old, group_id):
                del old["groups"][group_id]
        for facts in (old, rebuilt):
            for group in facts["groups"].values():
                if isinstance(group, dict):
                    group.pop("owners", None)  # an index, of arrays as long as was ever needed
        try:
            durable.assert_equal(rebuilt, old)
        except AssertionError as error:
            raise Broken(f"memory is what the logs say: {error}") from None


def _is_plain(facts: dict[str, Any], group_id: str) -> bool:
    """Whether nobody ever joined the group: a log says that it exists only as long as there are offsets of it."""
    group = facts["groups"][group_id]
    return isinstance(group, dict) and group.get("protocol_type", "") is None and group_id not in facts["offsets"]


def _client_id(member: Any) -> str:
    client_id: str = member.client_id if hasattr(member, "client_id") else member.metadata.client_id
    return client_id


def _is_timed(kind: str, member_id: str, group: Any) -> bool:
    if isinstance(group, ClassicGroup):
        if kind == "session":
            return member_id in group.members or member_id in group.pending
        if kind == "join":
            return group.state is State.PREPARING_REBALANCE
        return kind == "sync" and group.unsynced > 0
    if isinstance(group, StreamsGroup) and kind == "initial":
        return True
    if not isinstance(group, ConsumerGroup | StreamsGroup) or member_id not in group.members:
        return False
    return kind in ("session", "rebalance", "join", "sync")


def _brief(message: Any) -> str:
    fields = ("group_id", "member_id", "transactional_id", "generation_id", "member_epoch", "producer_epoch")
    words = [f"{value}" for name in fields if (value := getattr(message, name, None)) not in (None, "")]
    if isinstance(message, EndTxnRequest):
        words.append("commit" if message.committed else "abort")
    if isinstance(message, OffsetCommitRequest | TxnOffsetCommitRequest):
        words += [f"{t.name}-{p.partition_index}={p.committed_offset}" for t in message.topics for p in t.partitions]
    return " ".join(words)


class ErrorLog(logging.Handler):
    """What the product logs as an error is one."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self._seen: list[str] = []
        self._format = logging.Formatter()

    def emit(self, record: logging.LogRecord) -> None:
        if not record.getMessage().startswith("a log is closed"):  # its disk has failed
            self._seen.append(self._format.format(record))

    def check(self) -> None:
        seen, self._seen = self._seen, []
        promise(not seen, "no internal error", lambda: seen[0])

    def __enter__(self) -> ErrorLog:
        logging.getLogger("muster").addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("muster").removeHandler(self)
