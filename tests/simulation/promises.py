"""What holds whatever happens, in plain sentences. Each is shown able to fail by a mutant in `mutants`."""

from typing import Any

from coordinator.core.classic.group import ClassicGroup
from coordinator.core.records import OffsetCommitKey
from coordinator.core.result import Result
from coordinator.core.shard import Shard
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.core import durable

LONGEST_MS = 60_000 + 3_000 + 1_000  # a rebalance timeout, the initial delay, and a second


class Broken(AssertionError):  # noqa: N818 - it is a promise that is
    """A promise was not kept."""


def promise(holds: bool, sentence: str) -> None:
    if not holds:
        raise Broken(sentence)


class Promises:
    """Watches a server from inside and from outside, and raises `Broken` at once."""

    def __init__(self) -> None:
        self.checked = 0
        self._asked: dict[int, tuple[Any, int]] = {}  # ticket -> request, when
        self._ended: set[int] = set()
        self._owners: dict[tuple[int, int], str] = {}  # (generation, partition) -> member
        self._generation = 0  # the latest that anybody was assigned something in
        self._order = 0
        self._committed: dict[tuple[str, int], tuple[int, int]] = {}  # when, and what
        self._open: dict[int, dict[tuple[str, int], tuple[int, int]]] = {}  # by producer
        self._before: dict[str, Any] = {}

    def asked(self, ticket: int, request: Any, now_ms: int) -> None:
        self._asked[ticket] = (request, now_ms)

    def answered(self, ticket: int, response: Any, now_ms: int) -> None:
        self.checked += 1
        promise(ticket in self._asked, f"every request is answered at most once, and {ticket} was again")
        request, since_ms = self._asked.pop(ticket)
        if isinstance(request, JoinGroupRequest | SyncGroupRequest):
            waited_ms = now_ms - since_ms
            promise(
                waited_ms <= LONGEST_MS, f"nobody waits longer than a rebalance may take, and one did: {waited_ms} ms"
            )
        if isinstance(response, SyncGroupResponse) and not response.error_code:
            self._assigned(request, response)

    def _assigned(self, request: SyncGroupRequest, response: SyncGroupResponse) -> None:
        generation = request.generation_id
        promise(
            generation >= self._generation,
            f"generations never decrease, and {generation} came after {self._generation}",
        )
        self._generation = generation
        who = request.group_instance_id or request.member_id
        for partition in response.assignment:
            owner = self._owners.setdefault((generation, partition), who)
            promise(owner == who, f"no two own a partition in a generation: {owner} and {who} own {partition}")

    def decided(self, shard: Shard, request: Any, result: Result[Any]) -> None:
        """A commit that is acknowledged is there, and one that is refused has changed nothing; open ones are not seen."""
        is_open = isinstance(request, TxnOffsetCommitRequest)
        if result.response is None or not isinstance(request, OffsetCommitRequest | TxnOffsetCommitRequest):
            return
        sent = {(t.name, each.partition_index): each.committed_offset for t in request.topics for each in t.partitions}
        for topic in result.response.topics:
            for each in topic.partitions:
                key = (topic.name, each.partition_index)
                self._order += 1
                if not each.error_code and is_open:
                    self._open.setdefault(request.producer_id, {})[key] = (self._order, sent[key])
                elif not each.error_code:
                    self._committed[key] = (self._order, sent[key])
                self._kept(shard, *key)

    def ended(self, shard: Shard, producer_id: int, committed: bool) -> None:
        """A transaction that is committed counts from when it was written, one that is aborted not at all."""
        for key, brought in self._open.pop(producer_id, {}).items():
            if committed:
                self._committed[key] = max(brought, self._committed.get(key, brought))
            self._kept(shard, *key)

    def _kept(self, shard: Shard, topic: str, partition: int) -> None:
        value = shard.offsets.get("g", topic, partition)
        found, promised = None if value is None else value.offset, self._committed.get((topic, partition), (0, None))[1]
        promise(found == promised, f"what was acknowledged is kept: {topic}/{partition} is {found}, not {promised}")

    def told(self, result: Result[Any]) -> None:
        """Offsets that run out are taken back by the server itself."""
        for record in result.records:
            key = record.key
            if isinstance(key, OffsetCommitKey) and record.value is None:
                self._committed.pop((key.topic, key.partition), None)
                for pending in self._open.values():
                    pending.pop((key.topic, key.partition), None)

    def stopped(self, shard: Shard) -> None:
        self._asked.clear()
        self._before = durable.facts(shard)

    def started(self, shard: Shard) -> None:
        """The log alone makes the same groups and the same offsets."""
        try:
            durable.assert_equal(durable.facts(shard), self._before)
        except AssertionError as error:
            raise Broken(f"a restart changes nothing that is written: {error}") from None
        for topic, partition in self._committed:
            self._kept(shard, topic, partition)

    def looked(self, shard: Shard, now_ms: int) -> None:
        """Now and then: nobody is waiting for too long, and the group's counters are right."""
        for request, since_ms in self._asked.values():
            promise(now_ms - since_ms <= LONGEST_MS, f"nobody waits for ever, and {type(request).__name__} does")
        group = shard.groups.get("g")
        if isinstance(group, ClassicGroup):
            parked = sum(member.join_ticket is not None for member in group.members.values())
            promise(group.joined == parked, f"who waits is counted: {group.joined} are, {parked} do")

    def calm(self, shard: Shard, alive: set[str], owned: dict[str, tuple[int, ...]], partitions: int) -> None:
        """When nothing has disturbed a group for minutes, it is stable, of those who are alive, and owns everything."""
        group = shard.groups.get("g")
        if not alive:
            return
        promise(isinstance(group, ClassicGroup), "a group with members exists")
        assert isinstance(group, ClassicGroup)
        promise(group.state.value == "Stable", f"a group that is left alone is stable, and it is {group.state}")
        members = {member.client_id for member in group.members.values()}
        promise(
            members == alive, f"a group has the members that are alive, {sorted(alive)}, and it has {sorted(members)}"
        )
        held = sorted(partition for each in owned.values() for partition in each)
        promise(held == list(range(partitions)), f"every partition has one owner, and they have {held}")
