"""Members that a test drives by hand, one kind for each protocol. Their peer is a connection to any server: a `Peer` to one in memory, a `Client` to a process."""

from collections.abc import Iterable
from typing import Any

from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from protocol.messages.heartbeat import HeartbeatRequest
from protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequestSubtopology,
    StreamsGroupHeartbeatRequestTaskIds,
    StreamsGroupHeartbeatRequestTopicInfo,
    StreamsGroupHeartbeatRequestTopology,
)
from protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.requests import join, want


class ClassicMember:
    """A member of a classic group."""

    def __init__(
        self, peer: Any, group: str = "g", *, instance: str | None = None, topics: Iterable[str] = ("orders",)
    ) -> None:
        self.peer, self.group, self.instance, self.topics = peer, group, instance, topics
        self.member_id, self.generation = "", -1

    def join(self, session_ms: int = 45_000, rebalance_ms: int = 300_000) -> Any:
        """Send a JoinGroup. Returns the response, None where it is parked: `take_join` has it later."""
        times = {"session_ms": session_ms, "rebalance_ms": rebalance_ms}
        request = join(self.group, self.member_id, self.instance, **times, protocols=want(self.topics))
        return self._take(self.peer.ask(request, 5 if self.instance else 3))

    def take_join(self) -> Any:
        """The response to a JoinGroup that was parked, which must be there."""
        return self._take(self.peer.answers[-1][1])

    def sync(self, *assignments: SyncGroupRequestAssignment) -> Any:
        request = SyncGroupRequest(self.group, self.generation, self.member_id, self.instance, assignments=assignments)
        return self.peer.ask(request, 3)

    def beat(self) -> int:
        """Send a heartbeat. Returns the error code."""
        request = HeartbeatRequest(self.group, self.generation, self.member_id, self.instance)
        return int(self.peer.ask(request, 3).error_code)

    def _take(self, joined: Any) -> Any:
        if joined is not None:
            self.member_id, self.generation = joined.member_id, joined.generation_id
        return joined


class ConsumerMember:
    """A member of the consumer protocol (KIP-848)."""

    def __init__(self, peer: Any, name: str, group: str = "g", *, instance: str | None = None) -> None:
        self.peer, self.name, self.group, self.instance = peer, name, group, instance
        self.epoch = 0
        self.assigned: tuple[ConsumerGroupHeartbeatRequestTopicPartitions, ...] = ()

    def beat(self, **fields: Any) -> Any:
        """Send a heartbeat, and take over the epoch and the assignment of the response."""
        if self.epoch == 0:
            joining = {"subscribed_topic_names": ("orders",), "rebalance_timeout_ms": 300_000, "topic_partitions": ()}
            fields = joining | fields
        request = ConsumerGroupHeartbeatRequest(self.group, self.name, self.epoch, self.instance, **fields)
        response = self.peer.ask(request, 1)
        if not response.error_code:
            self.epoch = response.member_epoch
        if response.assignment is not None:
            self.assigned = tuple(
                ConsumerGroupHeartbeatRequestTopicPartitions(one.topic_id, one.partitions)
                for one in response.assignment.topic_partitions
            )
        return response

    def own(self) -> Any:
        """Send a heartbeat that says that it owns what it was last assigned."""
        return self.beat(topic_partitions=self.assigned)


PART, INFO = StreamsGroupHeartbeatRequestSubtopology, StreamsGroupHeartbeatRequestTopicInfo
TOPOLOGY = StreamsGroupHeartbeatRequestTopology(
    0,
    (
        PART("0", ("lines",), repartition_sink_topics=("words",)),
        PART("1", state_changelog_topics=(INFO("counts"),), repartition_source_topics=(INFO("words", 2),)),
    ),
)


class StreamsMember:
    """A member of a Kafka Streams application (KIP-1071), whose process id is its name."""

    def __init__(self, peer: Any, name: str, group: str = "app") -> None:
        self.peer, self.name, self.group = peer, name, group
        self.epoch, self.topology = 0, TOPOLOGY
        self.tasks: list[Any] = [(), (), ()]

    def beat(self, **said: Any) -> Any:
        """Report what it has, and take what it is told. Returns the answer."""
        is_joining = self.epoch == 0
        request = StreamsGroupHeartbeatRequest(
            self.group, f"{self.name}-id", self.epoch, rebalance_timeout_ms=30_000 if is_joining else -1,
            topology=self.topology if is_joining else None, process_id=self.name, active_tasks=self.tasks[0],
            standby_tasks=self.tasks[1], warmup_tasks=self.tasks[2], **said,
        )  # fmt: skip
        answer = self.peer.ask(request, 0)
        if answer.error_code:
            return answer
        self.epoch = answer.member_epoch
        if answer.active_tasks is not None:
            self.tasks = [
                tuple(StreamsGroupHeartbeatRequestTaskIds(each.subtopology_id, each.partitions) for each in listed)
                for listed in (answer.active_tasks, answer.standby_tasks, answer.warmup_tasks)
            ]
        return answer
