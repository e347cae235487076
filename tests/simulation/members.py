"""Simulated members of a group, one kind for each protocol: they speak the wire, and do what the answers tell them."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.join_group import JoinGroupRequest
from protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMemberIdentity
from protocol.messages.metadata import MetadataRequest
from protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.requests import deal, read_share, want
from tests.simulation.network import Heard, Link, Network

SESSION_MS, REBALANCE_MS = 20_000, 60_000
BEAT_MS, COMMIT_MS, REFRESH_MS = 4_000, 9_000, 30_000
REQUEST_MS, RETRY_MS = 10_000, 500
JOIN_MS = REBALANCE_MS + 10_000

Partition = tuple[str, int]


class Process:
    """A client process. `life` counts its starts: what an earlier life asked for means nothing to a later one."""

    def __init__(self, name: str, network: Network) -> None:
        self.name = name
        self.is_alive = False
        self._life = 0
        self._network = network
        self._dice = network.dice
        self._link: Link | None = None

    def start(self) -> None:
        """Begin a life."""
        self._life += 1
        self.is_alive = True

    def crash(self) -> None:
        """Be gone, and say nothing."""
        self._life += 1
        self.is_alive = False
        if self._link is not None:
            self._link.close()

    def _ask(self, message: Any, version: int, timeout_ms: int, heard: Heard) -> None:
        """Send a request over this process's connection, which is made anew when it is gone."""
        if self._link is None or not self._link.is_open:
            self._link = Link(self._network, self.name)
        life = self._life
        self._link.ask(message, version, timeout_ms, lambda answer: heard(answer) if life == self._life else None)

    def _tell(self, message: Any, version: int) -> None:
        """Send a request whose answer says nothing that this process would act upon."""
        self._ask(message, version, REQUEST_MS, lambda answer: None)

    def _later(self, delay_ms: float, act: Callable[[], None]) -> None:
        life = self._life
        self._network.clock.after(delay_ms, lambda: act() if life == self._life else None)


class Member(Process, ABC):
    """What members of both protocols have in common: a group, topics, and what they own."""

    def __init__(self, name: str, group: str, topics: tuple[str, ...], instance: str | None, network: Network) -> None:
        super().__init__(name, network)
        self.group = group
        self.topics = topics
        self.instance = instance
        self.member_id = ""
        self.owned: set[Partition] = set()
        self.is_stuck = False  # it runs, and does nothing: a long pause
        self.is_fenced = False  # another process has its instance id

    def start(self) -> None:
        super().start()
        self.member_id, self.owned, self.is_stuck, self.is_fenced = "", set(), False, False

    def crash(self) -> None:
        super().crash()
        self.owned = set()

    @property
    @abstractmethod
    def epoch(self) -> int:
        """The epoch or generation of its commits."""

    def _commit(self) -> None:
        """Commit a position for all that it owns, each a number that nobody has committed before."""
        if not self.owned:
            return
        topics = [
            OffsetCommitRequestTopic(
                topic,
                partitions=tuple(
                    OffsetCommitRequestPartition(p, self._network.position(), committed_metadata=self.name)
                    for t, p in sorted(self.owned)
                    if t == topic
                ),
            )
            for topic in sorted({topic for topic, _ in self.owned})
        ]
        request = OffsetCommitRequest(self.group, self.epoch, self.member_id, self.instance, topics=tuple(topics))
        self._tell(request, 9)


class ClassicMember(Member):
    """A client of the classic protocol, eager: it owns nothing when it rejoins. The leader deals partitions out."""

    def __init__(self, name: str, group: str, topics: tuple[str, ...], instance: str | None, network: Network) -> None:
        super().__init__(name, group, topics, instance, network)
        self.generation = -1
        self.is_settled = False
        self._version = network.dice.choice((5, 6, 8, 9))  # of JoinGroup
        self._is_leader = False
        self.is_blind = False
        """Whether it would not know that it leads: a static leader that comes back is told by JoinGroup 9 only (KIP-814),
        and in a consumer group, which may become a classic one without a rebalance, nobody is."""
        self._dealt: dict[str, int] = {}  # as a leader: the partitions that there were

    @property
    def epoch(self) -> int:
        return self.generation

    def start(self) -> None:
        super().start()
        self.generation, self.is_settled, self._dealt = -1, False, {}
        self._join()

    def crash(self) -> None:
        super().crash()
        self.is_settled = False

    def stop(self) -> None:
        """Leave, as clients do; a static member just goes."""
        if self.is_alive and self.member_id and self.instance is None:
            who = LeaveGroupRequestMemberIdentity(self.member_id, None, "done")
            link = Link(self._network, self.name)
            link.ask(LeaveGroupRequest(self.group, members=(who,)), 5, REQUEST_MS, lambda _: link.close())
        self.crash()

    def _join(self) -> None:
        self.is_settled, self.owned = False, set()
        request = JoinGroupRequest(
            self.group, SESSION_MS, REBALANCE_MS, self.member_id, self.instance, "consumer", want(self.topics)
        )
        self._ask(request, self._version, JOIN_MS, self._joined)

    def _joined(self, answer: Any) -> None:
        if answer is None or answer.error_code:
            if answer is not None and answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self.member_id = answer.member_id
            self._try_again(answer)
            return
        self.member_id, self.generation = answer.member_id, answer.generation_id
        self._is_leader = answer.leader == answer.member_id
        self.is_blind = self.instance is not None and not self._is_leader and (self._version < 9 or not answer.leader)
        if self._is_leader and not answer.skip_assignment and answer.members:
            metadata = MetadataRequest(None, allow_auto_topic_creation=False)
            self._ask(metadata, 12, REQUEST_MS, lambda topics: self._deal(answer.members, topics))
        else:
            self._sync(())

    def _deal(self, members: Any, metadata: Any) -> None:
        """Deal the partitions out, one by one, to those who subscribe to their topic."""
        if metadata is None:
            self._try_again(None)
            return
        self._dealt = {topic.name: len(topic.partitions) for topic in metadata.topics}
        self._sync(deal(members, self._dealt))

    def _sync(self, shares: tuple[SyncGroupRequestAssignment, ...]) -> None:
        request = SyncGroupRequest(self.group, self.generation, self.member_id, self.instance, None, None, shares)
        self._ask(request, 4, JOIN_MS, self._synced)

    def _synced(self, answer: Any) -> None:
        if answer is None or answer.error_code:
            self._try_again(answer)
            return
        self._network.take(self, read_share(answer.assignment))
        self.is_settled = True
        generation = self.generation
        self._repeat(BEAT_MS, generation, self._beat)
        self._repeat(COMMIT_MS, generation, lambda _: self._commit())
        self._repeat(REFRESH_MS, generation, self._refresh)

    def _is_in(self, generation: int) -> bool:
        return self.is_settled and generation == self.generation

    def _repeat(self, period_ms: int, generation: int, act: Callable[[int], None]) -> None:
        """Do this again and again, as long as the member is in the generation."""

        def again() -> None:
            if self._is_in(generation):
                if not self.is_stuck:
                    act(generation)
                self._later(period_ms, again)

        self._later(period_ms, again)

    def _beat(self, generation: int) -> None:
        request = HeartbeatRequest(self.group, self.generation, self.member_id, self.instance)
        self._ask(request, 4, REQUEST_MS, lambda answer: self._beaten(answer, generation))

    def _beaten(self, answer: Any, generation: int) -> None:
        if answer is not None and answer.error_code and self._is_in(generation) and not self.is_stuck:
            self._try_again(answer)

    def _refresh(self, generation: int) -> None:
        """A leader that sees its topics grow asks for a rebalance."""
        if self._is_leader:
            metadata = MetadataRequest(None, allow_auto_topic_creation=False)
            self._ask(metadata, 12, REQUEST_MS, lambda answer: self._refreshed(answer, generation))

    def _refreshed(self, answer: Any, generation: int) -> None:
        if answer is not None and self._is_in(generation):
            if self._dealt != {topic.name: len(topic.partitions) for topic in answer.topics}:
                self._join()

    def _try_again(self, answer: Any) -> None:
        """Join again, as whom the error leaves it."""
        self.is_settled = False
        error = 0 if answer is None else answer.error_code
        if error in (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID):
            self.crash()
            self.is_fenced = True
            return
        if error == ErrorCode.UNKNOWN_MEMBER_ID:
            self.member_id = ""
        promptly = error in (ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.REBALANCE_IN_PROGRESS)
        self.owned = set()
        self._later(0 if promptly else RETRY_MS, self._join)


class ConsumerMember(Member):
    """A client of the consumer protocol (KIP-848): it gives up what it is told to, perhaps after a while."""

    def __init__(self, name: str, group: str, topics: tuple[str, ...], instance: str | None, network: Network) -> None:
        super().__init__(name, group, topics, instance, network)
        self._epoch = 0
        self._by_regex = network.dice.random() < 0.3
        self._revoked: set[Partition] = set()
        self._says_all = True
        self._is_asking = False

    @property
    def epoch(self) -> int:
        return self._epoch

    @property
    def is_settled(self) -> bool:
        return self._epoch > 0

    def start(self) -> None:
        super().start()
        self.member_id = f"{self.name}-{self._network.position()}"
        self._reset()
        self._later(self._dice.randint(1, BEAT_MS), self._beat)
        self._later(COMMIT_MS, self._commit_again)

    def stop(self) -> None:
        """Leave; a static member for a while only, with epoch -2."""
        if self.is_alive and self._epoch > 0:
            epoch = -1 if self.instance is None or self._dice.random() < 0.2 else -2
            request = ConsumerGroupHeartbeatRequest(self.group, self.member_id, epoch, instance_id=self.instance)
            link = Link(self._network, self.name)
            link.ask(request, 1, REQUEST_MS, lambda _: link.close())
        self.crash()

    def _reset(self) -> None:
        self._epoch, self.owned, self._revoked, self._says_all, self._is_asking = 0, set(), set(), True, False

    def _beat(self) -> None:
        if not self.is_stuck and not self._is_asking:
            if self._dice.random() < 0.8:  # else it takes its time to give up what it is told to
                self.owned -= self._revoked
                self._revoked = set()
            says_all = self._says_all or self._epoch == 0
            self._says_all = False
            names = None if self._by_regex else self.topics
            request = ConsumerGroupHeartbeatRequest(
                self.group,
                self.member_id,
                self._epoch,
                instance_id=self.instance,
                rebalance_timeout_ms=REBALANCE_MS if says_all else -1,
                subscribed_topic_names=(names or ()) if says_all else None,
                subscribed_topic_regex="|".join(self.topics) if says_all and self._by_regex else None,
                topic_partitions=self._owned_partitions() if says_all or self.owned else (),
            )
            self._is_asking = True
            self._ask(request, 1, REQUEST_MS, self._beaten)
        self._later(BEAT_MS, self._beat)

    def _owned_partitions(self) -> tuple[ConsumerGroupHeartbeatRequestTopicPartitions, ...]:
        by_topic: dict[bytes, list[int]] = {}
        for name, partition in sorted(self.owned):
            by_topic.setdefault(self._network.topic_id(name), []).append(partition)
        return tuple(ConsumerGroupHeartbeatRequestTopicPartitions(t, tuple(ps)) for t, ps in by_topic.items())

    def _beaten(self, answer: Any) -> None:
        self._is_asking = False
        if answer is None:
            self._says_all = True  # as clients do after a timeout
            return
        error = answer.error_code
        if error in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_ID_NOT_FOUND):
            self._reset()
            return
        if error == ErrorCode.FENCED_INSTANCE_ID:
            self.crash()
            self.is_fenced = True
            return
        if error:
            self._says_all = True
            return
        self._epoch = answer.member_epoch
        if answer.assignment is not None:
            names = self._network.topic_name
            assigned = {(names(one.topic_id), p) for one in answer.assignment.topic_partitions for p in one.partitions}
            self._revoked = self.owned - assigned
            self._network.take(self, self.owned | assigned)

    def _commit_again(self) -> None:
        if self._epoch > 0 and not self.is_stuck:
            self._commit()
        self._later(COMMIT_MS, self._commit_again)
