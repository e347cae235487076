"""Clients of one group, of both protocols, around a real shard: each believes what it was told, and owns accordingly.

A client changes what it owns only as real ones do: one of the new protocol gives up what it is told to, perhaps after a
while, and takes what it is told at once; a classic one drops everything before it rejoins. What the clients believe can
then be held against each other, which is what the protocol is for. A restart forgets the shard and replays its log.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from coordinator.core.classic.group import ClassicGroup
from coordinator.core.consumer.group import ConsumerGroup
from coordinator.core.limits import Limits
from coordinator.core.result import Result
from coordinator.core.topics import Topic, Topics
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMemberIdentity
from protocol.messages.sync_group import SyncGroupRequest
from tests.core.consumer.commands import check
from tests.core.driver import ShardDriver
from tests.core.world import topic_id
from tests.requests import deal, join, read_share, want

GROUP = "g"
TOPICS = ("t", "u", "v")
Partitions = set[tuple[str, int]]


class Crowd(ShardDriver):
    """The shard, and everybody who talks to it."""

    def __init__(self, **limits: Any) -> None:
        topics = Topics(Topic(name, topic_id(name), count) for name, count in (("t", 4), ("u", 3)))
        super().__init__(Limits(group_initial_rebalance_delay_ms=0, **limits), topics)
        self.clients: dict[str, Client] = {}
        self.waiting: dict[int, Classic] = {}
        self._numbers = 0
        self._epoch = 0

    # -- talking to the shard ------------------------------------------------------------------------------------------

    def number(self) -> int:
        self._numbers += 1
        return self._numbers

    def ask(self, request: Any, version: int, client_id: str, waiter: "Classic | None" = None) -> Any:
        """Hand in a request. Its answer, or None: then `waiter` hears it, now or later; without one it is lost."""
        call = self.call(version, client_id)
        if waiter is not None:
            self.waiting[call.ticket] = waiter
        result = self.handle(request, call)
        if result.response is not None:
            self.waiting.pop(call.ticket, None)
        return result.response

    def take(self, result: Result[Any]) -> None:
        super().take(result)
        for reply in result.replies:
            client = self.waiting.pop(reply.ticket, None)
            if client is not None:
                client.hear(reply.response)
        if result.records or result.replies:
            self.check()

    def restart(self, *, compacted: bool) -> None:
        """Rebuild the shard from its log, and serve again."""
        if compacted:
            self.compact()
        self.rebuild()
        self.serve_again()

    def serve_again(self) -> None:
        """The server is back: whoever waited for an answer has lost its connection, and the clocks run again."""
        for waiting in self.waiting.values():
            waiting.phase = "lost"
        self.waiting.clear()
        self.load()
        self.check()

    # -- what must be true ---------------------------------------------------------------------------------------------

    @property
    def group(self) -> Any:
        return self.shard.groups.get(GROUP)

    def check(self) -> None:
        """At any time: indices agree, epochs never go back, and nothing has two owners."""
        group = self.group
        if isinstance(group, ConsumerGroup):
            check(group, self.limits)
            assert group.epoch >= self._epoch, f"epoch {group.epoch} after {self._epoch}"
            self._epoch = group.epoch
        else:
            self._epoch = 0  # a classic group counts generations of its own
        owners: dict[tuple[str, int], str] = {}
        for client in self.clients.values():
            if group is not None and client.member_id in group.members:
                for partition in client.owned:
                    other = owners.setdefault(partition, client.member_id)
                    assert other == client.member_id, f"{partition} is owned by {other} and {client.member_id}"

    def is_settled(self) -> bool:
        """Everybody who is in has what it shall have, and says so."""
        group = self.group
        if group is None:
            return not self.clients
        if isinstance(group, ClassicGroup):
            return all(
                client.generation == group.generation and client.owned_by(group) for client in self.clients.values()
            )
        return group.state in ("Stable", "Empty") and all(
            client.owned == _named(group.target(client.member_id), self.topics) for client in self.clients.values()
        )

    def settle(self, rounds: int) -> int:
        """Beat until nothing moves. How many rounds that took."""
        for count in range(rounds):
            if self.is_settled() and count:
                return count
            self.wait(5_000)
            for client in tuple(self.clients.values()):
                client.step(promptly=True)
        assert self.is_settled(), f"not settled after {rounds} rounds: {self.group!r}"
        return rounds

    # -- who is there --------------------------------------------------------------------------------------------------

    def add(self, client: "Client") -> None:
        self.clients[client.name] = client
        client.step(promptly=True)

    def drop(self, name: str) -> None:
        """A client dies without a word."""
        client = self.clients.pop(name)
        self.waiting = {ticket: other for ticket, other in self.waiting.items() if other is not client}


def _named(assignment: Any, topics: Topics) -> Partitions:
    found = ((topics.by_id(topic), parts) for topic, parts in assignment.items())
    return {(topic.name, p) for topic, parts in found if topic is not None for p in parts}


class Client(ABC):
    """What both kinds have."""

    def __init__(self, crowd: Crowd, names: Iterable[str], instance_id: str | None = None) -> None:
        self.crowd = crowd
        self.name = f"c{crowd.number()}"
        self.member_id = ""
        self.names = tuple(names)
        self.instance_id = instance_id
        self.owned: Partitions = set()
        self.generation = -1

    def owned_by(self, group: ClassicGroup) -> bool:
        """Whether it is a member of a classic group, and has what the leader gave it."""
        return False

    @abstractmethod
    def step(self, *, promptly: bool) -> None:
        """Do what the protocol asks for next."""

    @abstractmethod
    def leave(self) -> None:
        """Leave the group."""


class Consumer(Client):
    """A client of the new protocol."""

    def __init__(self, crowd: Crowd, names: Iterable[str], instance_id: str | None = None, regex: str = "") -> None:
        super().__init__(crowd, names, instance_id)
        self.member_id = self.name
        self.regex = regex
        self.epoch = 0
        self.says_all = True  # what it subscribes to, not only that it is there
        self.deaf = False
        self.to_revoke: Partitions = set()

    def step(self, *, promptly: bool) -> None:
        """One heartbeat. What it was told to give up it has given up by now, or it takes its time."""
        if promptly:
            self.owned -= self.to_revoke
            self.to_revoke = set()
        joins = self.epoch == 0
        if joins:
            self.owned = set()
        says_all = joins or self.says_all
        request = ConsumerGroupHeartbeatRequest(
            GROUP,
            self.member_id,
            self.epoch,
            instance_id=self.instance_id,
            rebalance_timeout_ms=20_000 if says_all else -1,
            subscribed_topic_names=self.names if says_all else None,
            subscribed_topic_regex=self.regex if says_all else None,
            topic_partitions=self._told(),
        )
        self.says_all = False
        response = self.crowd.ask(request, 1, "consumer")
        if self.deaf or response is None:
            self.says_all = True  # what clients do after a timeout
        else:
            self.hear(response)

    def hear(self, response: Any) -> None:
        error = response.error_code
        if error in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND):
            self.epoch, self.owned, self.to_revoke = 0, set(), set()
            return
        if error == ErrorCode.UNRELEASED_INSTANCE_ID:
            return  # it tries again
        assert error in (ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), ErrorCode(error)
        if error:
            return
        self.epoch = response.member_epoch
        if response.assignment is not None:
            told = _named(
                {tp.topic_id: tp.partitions for tp in response.assignment.topic_partitions}, self.crowd.topics
            )
            self.to_revoke = self.owned - told
            self.owned |= told

    def leave(self) -> None:
        self._say(-1)

    def away(self) -> None:
        """A static member goes for a while; whoever comes back is another process."""
        self._say(-2)

    def _say(self, epoch: int) -> None:
        request = ConsumerGroupHeartbeatRequest(GROUP, self.member_id, epoch, instance_id=self.instance_id)
        self.owned = set()
        self.crowd.ask(request, 1, "consumer")

    def _told(self) -> tuple[ConsumerGroupHeartbeatRequestTopicPartitions, ...]:
        by_topic: dict[str, list[int]] = {}
        for name, partition in sorted(self.owned):
            by_topic.setdefault(name, []).append(partition)
        return tuple(
            ConsumerGroupHeartbeatRequestTopicPartitions(self.crowd.topics.id_of(name), tuple(partitions))
            for name, partitions in by_topic.items()
        )


class Classic(Client):
    """A client of the classic protocol, eager: it owns nothing when it rejoins. The leader deals out one by one."""

    def __init__(self, crowd: Crowd, names: Iterable[str], instance_id: str | None = None) -> None:
        super().__init__(crowd, names, instance_id)
        self.phase = "out"  # out, joining, joined, syncing, in, lost: its connection broke while it waited
        self.members: tuple[Any, ...] = ()

    def owned_by(self, group: ClassicGroup) -> bool:
        return group.state == "Stable" and self.phase == "in" and self.member_id in group.members

    def step(self, *, promptly: bool) -> None:
        """A heartbeat, or what a client sends instead of one: it asks on, as long as it is answered at once."""
        for _ in range(4 if promptly else 1):
            before = self.phase
            if before in ("out", "lost"):
                self._join()
            elif before == "joined":
                self._sync()
            elif before == "in":
                self._beat()
            if self.phase in ("in", "joining", "syncing"):
                return

    def _join(self) -> None:
        self.owned = set()
        self.phase = "joining"
        request = join(GROUP, self.member_id, self.instance_id, rebalance_ms=20_000, protocols=want(self.names))
        self._send(request, 3 if self.instance_id is None else 5)

    def _sync(self) -> None:
        shares = deal(self.members, {topic.name: topic.partitions for topic in self.crowd.topics.values()})
        self.phase = "syncing"
        request = SyncGroupRequest(GROUP, self.generation, self.member_id, self.instance_id, None, None, shares)
        self._send(request, 3)

    def _beat(self) -> None:
        response = self.crowd.ask(HeartbeatRequest(GROUP, self.generation, self.member_id, self.instance_id), 3, "c")
        if response is not None and response.error_code:
            self.phase, self.owned = "out", set()
            if response.error_code != ErrorCode.REBALANCE_IN_PROGRESS:
                self.member_id = ""

    def _send(self, request: Any, version: int) -> None:
        response = self.crowd.ask(request, version, "classic", self)
        if response is not None:
            self.hear(response)

    def hear(self, response: Any) -> None:
        if response.error_code:
            self.phase, self.owned = "out", set()
            if response.error_code != ErrorCode.REBALANCE_IN_PROGRESS:
                self.member_id = ""
        elif self.phase == "joining":
            self.member_id, self.generation = response.member_id, response.generation_id
            self.members = response.members
            self.phase = "joined"
        elif self.phase == "syncing":
            self.owned = read_share(response.assignment)
            self.phase = "in"

    def leave(self) -> None:
        self.owned = set()
        who = LeaveGroupRequestMemberIdentity(self.member_id, self.instance_id)
        self.crowd.ask(LeaveGroupRequest(GROUP, "", (who,)), 3, "classic")
