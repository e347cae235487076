"""Our server's own engine in made-up time, its log and its event log written as files: what the tables must tell.

    engine = Engine(directory / "__consumer_offsets-0")
    group = SimulatedGroup(engine, "orders-readers", Random(1))
    group.live(20)
    engine.write_events(path)

`Engine` is one partition: a `Shard` that decides, a log that remembers. `SimulatedGroup` is the members of one classic group,
who do what clients do; what really happened is what the engine's events say.
"""

from pathlib import Path
from random import Random
from typing import Any

import msgspec

from coordinator.core import records
from coordinator.core.events import Cause, Event
from coordinator.core.limits import Limits
from coordinator.core.record_types import single_records
from coordinator.core.result import Result
from coordinator.core.shard import Shard
from coordinator.core.topics import Topic, Topics
from coordinator.runtime import loader
from coordinator.runtime.partition import Partition
from pipeline.synth import Writer
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMemberIdentity
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from protocol.records import Record
from storage.files import RealFiles
from storage.log import Log
from tests.core.driver import ShardDriver
from tests.core.shares import share, want

START_MS = 1_760_000_000_000
SESSION_MS, BEAT_MS = 45_000, 3_000
MEMBER_ID_REQUIRED = 79
TOPICS = Topics([Topic("orders", b"o" * 16, 64), Topic("payments", b"p" * 16, 64)])
# The causes of a rebalance, by what the engine says at the moment at which it begins. A leader joins again because of
# something that it alone knows: `Engine.leader_saw`.
TOLD = {
    Cause.MEMBER_JOINED: "join",
    Cause.MEMBER_LEFT: "leave",
    Cause.SESSION_EXPIRED: "timeout",
    Cause.STATIC_MEMBER_REPLACED: "static_rejoin",
    Cause.REBALANCE_TIMED_OUT: "timeout",
    Cause.PENDING_SYNC_EXPIRED: "timeout",
}


class Truth(msgspec.Struct, frozen=True):
    """Why a group rebalanced: the offset of the record that says so, and the causes since the one before."""

    group: str
    at: int
    causes: frozenset[str]


class Engine(ShardDriver):
    """One partition of `__consumer_offsets`, whose log is written as files."""

    def __init__(self, directory: Path, number: int = 0, limits: Limits | None = None) -> None:
        super().__init__(limits or Limits(), TOPICS, index=number, now_ms=START_MS)
        self.directory = directory
        self.writer = Writer(directory, segment_bytes=20_000)
        self.shard.finish_loading(self.now_ms)
        self.events: list[Event] = []
        self.truth: list[Truth] = []
        self.leader_saw = ""
        self.changed_metadata = "subscription_change"  # what members mean by other metadata
        self._since: dict[str, set[str]] = {}  # group -> causes that no record has told of
        self._answers: dict[int, Any] = {}

    def ask(self, request: Any, version: int, client: str = "app") -> int:
        """Hand in a request; the ticket under which its answer will be found."""
        call = self.call(version, client)
        result = self.handle(request, call)
        if result.response is not None:
            self._answers[call.ticket] = result.response
        return call.ticket

    def answer(self, ticket: int) -> Any:
        """The answer to a request; it must be there by now."""
        return self._answers.pop(ticket)

    def asked(self, request: Any, version: int, client: str = "app") -> Any:
        """The same in one step."""
        return self.answer(self.ask(request, version, client))

    def end_transaction(self, producer_id: int, *, commits: bool) -> None:
        """What the transaction coordinator does: decide, and write the marker."""
        super().end_transaction(producer_id, commits=commits)
        self.writer.end(producer_id, commits=commits, at_ms=self.now_ms)

    def restart(self) -> None:
        """Forget everything but the log."""
        self.shard = replayed(self.directory, self.index, self.limits)
        self.shard.write = lambda _result, _now_ms: None  # `take` writes to the log
        self.load()

    def take(self, result: Result[Any]) -> None:
        """Write what was decided, and note what happened."""
        for event in result.events:
            self.events.append(event)
            known = {Cause.LEADER_REJOINED: self.leader_saw, Cause.METADATA_CHANGED: self.changed_metadata}
            cause = known.get(event.cause) or TOLD.get(event.cause)
            if cause:
                self._since.setdefault(event.group, set()).add(cause)
        if result.records:
            self._told(result, self._write(result))
        for reply in result.replies:
            self._answers[reply.ticket] = reply.response

    def _told(self, result: Result[Any], base: int) -> None:
        """A classic group's record ends what happened since the one before; that of generation 0 only founds it."""
        for at, record in enumerate(single_records(result.records), base):
            if type(record.key) is records.GroupMetadataKey and record.value and record.value.generation:
                causes = self._since.pop(record.key.group, set())
                self.truth.append(Truth(record.key.group, at, frozenset(causes)))

    def _write(self, result: Result[Any]) -> int:
        facts = [Record(*records.encode(record), timestamp=self.now_ms) for record in single_records(result.records)]
        producer = result.producer
        if producer is None:
            return self.writer.append(facts)
        return self.writer.append(facts, producer_id=producer.id, transactional=True)

    def write_events(self, path: Path) -> Path:
        """The event log, as the server writes it."""
        path.write_bytes(b"".join(msgspec.json.encode(event) + b"\n" for event in self.events))
        return path

    def fresh_id(self) -> str:
        return f"{self.index}-{int(super().fresh_id()):032d}"


def replayed(directory: Path, number: int = 0, limits: Limits | None = None) -> Shard:
    """What the server knows after reading a log from the disk, by the way in which it starts."""
    partition = Partition(Shard(number, limits or Limits(), TOPICS), lambda: Log.open(RealFiles(), str(directory)))
    for _ in loader.replay(partition):
        pass
    partition.log.release()
    return partition.shard


class Client(msgspec.Struct):
    """A member as its process sees it."""

    name: str
    instance: str | None = None
    topics: tuple[str, ...] = ("orders",)
    member_id: str = ""
    owned: dict[str, list[int]] = {}


class SimulatedGroup:
    """The members of one classic group. Each thing that happens to it is followed by the rebalance that it leads to."""

    def __init__(self, engine: Engine, group: str, dice: Random) -> None:
        self.engine, self.group, self.dice = engine, group, dice
        self.clients: list[Client] = []
        self.partitions = {"orders": 4, "payments": 2}
        self.positions: dict[tuple[str, int], int] = {}
        self.generation = 0
        self._named = 0

    def live(self, happenings: int) -> None:
        """So much happens, with work in between."""
        kinds = ("join", "join", "leave", "timeout", "static_rejoin", "subscription_change", "partition_growth")
        for _ in range(happenings):
            getattr(self, self.dice.choice(kinds))()
            for _ in range(self.dice.randrange(1, 6)):
                self.work(self.clients)

    def settle(self) -> None:
        """Members whose session ended while nobody looked are gone; the others share out anew."""
        group = self.engine.shard.groups.get(self.group)
        alive = [client for client in self.clients if group is not None and client.member_id in group.members]
        if alive != self.clients:
            self.clients = alive
            self._rebalance()

    def join(self) -> None:
        """A new member, now and then two at once."""
        for _ in range(self.dice.choice((1, 1, 1, 2))):
            self._named += 1
            instance = f"{self.group}-{self._named}" if self.dice.random() < 0.4 else None
            self.clients.append(Client(f"app-{self._named}", instance))
        self._rebalance()

    def leave(self) -> None:
        """A member commits a last time and says goodbye."""
        if len(self.clients) < 2:
            self.join()
            return
        gone = self.clients.pop(self.dice.randrange(len(self.clients)))
        self._commit(gone)
        who = LeaveGroupRequestMemberIdentity(gone.member_id, gone.instance)
        self.engine.asked(LeaveGroupRequest(self.group, members=(who,)), 5)
        self._rebalance()

    def timeout(self) -> None:
        """A member falls silent, and the others go on until its session ends."""
        if len(self.clients) < 2:
            self.join()
            return
        gone = self.clients.pop(self.dice.randrange(len(self.clients)))
        while gone.member_id in self.engine.shard.groups[self.group].members:
            self.work(self.clients)
        self._rebalance()

    def static_rejoin(self) -> None:
        """A process with an instance id is replaced by a new one before anybody misses it."""
        static = [client for client in self.clients if client.instance]
        if not static:
            self.join()
            return
        client = self.dice.choice(static)
        client.member_id = ""
        self.engine.wait(self.dice.randrange(500, 5_000))
        joined = self._join(client)
        answer = self.engine.answer(joined)
        client.member_id = answer.member_id
        self._sync(client, answer.generation_id, ())

    def subscription_change(self) -> None:
        """A member wants another topic, or no longer wants it."""
        if not self.clients:
            self.join()
            return
        client = self.dice.choice(self.clients)
        self.engine.leader_saw = "subscription_change"
        client.topics = ("orders", "payments") if client.topics == ("orders",) else ("orders",)
        self._rebalance(first=client)

    def partition_growth(self) -> None:
        """A topic grows; the leader sees it and joins again."""
        if not self.clients:
            self.join()
            return
        self.engine.leader_saw = "partition_count_change"
        self.partitions["orders"] += self.dice.randrange(1, 3)
        leader = self.engine.shard.groups[self.group].leader
        self._rebalance(first=next(client for client in self.clients if client.member_id == leader))

    def work(self, clients: list[Client]) -> None:
        """Some seconds in which these members beat and commit."""
        self.engine.wait(BEAT_MS)
        for client in clients:
            beat = HeartbeatRequest(self.group, self.generation, client.member_id, client.instance)
            if self.engine.asked(beat, 4).error_code == 0:
                self._commit(client)

    def _rebalance(self, first: Client | None = None) -> None:
        """All members join, whoever moved the group before the others, and the leader shares out."""
        order = sorted(self.clients, key=lambda client: (client is not first, client.member_id != ""))
        tickets = [(client, self._join(client)) for client in order]
        self.engine.wait(self.dice.randrange(5, 400))
        answers = {client.name: self.engine.answer(ticket) for client, ticket in tickets}
        for client in order:
            client.member_id = answers[client.name].member_id
            self.generation = answers[client.name].generation_id
        shares = tuple(share(client.member_id, self._share(client)) for client in self.clients)
        for client in order:
            leads = answers[client.name].leader == client.member_id
            self._sync(client, self.generation, shares if leads else ())

    def _join(self, client: Client) -> int:
        request = JoinGroupRequest(
            self.group, SESSION_MS, 300_000, client.member_id, client.instance, "consumer", want(client.topics)
        )
        ticket = self.engine.ask(request, 9, client.name)
        answer = self.engine._answers.get(ticket)
        if answer is not None and answer.error_code == MEMBER_ID_REQUIRED:
            client.member_id = self.engine.answer(ticket).member_id
            return self._join(client)
        return ticket

    def _sync(self, client: Client, generation: int, shares: tuple[SyncGroupRequestAssignment, ...]) -> None:
        request = SyncGroupRequest(
            self.group, generation, client.member_id, client.instance, "consumer", "range", shares
        )
        self.engine.ask(request, 5)
        client.owned = self._share(client)

    def _share(self, client: Client) -> dict[str, list[int]]:
        """Each topic's partitions in turns to those who want it."""
        share = {}
        for topic in client.topics:
            takers = [one for one in self.clients if topic in one.topics]
            share[topic] = list(range(takers.index(client), self.partitions[topic], len(takers)))
        return share

    def _commit(self, client: Client) -> None:
        topics = []
        for topic, numbers in client.owned.items():
            for number in numbers:
                self.positions[topic, number] = self.positions.get((topic, number), 0) + self.dice.randrange(40)
            parts = tuple(OffsetCommitRequestPartition(n, self.positions[topic, n]) for n in numbers)
            topics.append(OffsetCommitRequestTopic(topic, partitions=parts))
        self.engine.asked(
            OffsetCommitRequest(self.group, self.generation, client.member_id, client.instance, topics=tuple(topics)), 9
        )
