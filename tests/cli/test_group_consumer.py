"""The member of `muster consume --group` against a coordinator that a test plays: what it owns, begins at, and commits."""

from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from coordinator.cli import group_consumer
from coordinator.cli.cluster import Cluster
from coordinator.cli.group_consumer import GroupConsumer
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatResponseTopicPartitions,
)
from protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

TOPIC_ID = b"t" * 16
DEFAULTS = {0: 10, 1: 20, 2: 30}


class Coordinator:
    """A coordinator of one member."""

    def __init__(self) -> None:
        self.epoch, self.beats, self.now_s = 0, 0, 100.0
        self.assigned, self.offsets = {0}, dict[int, int]()
        self.is_fenced = self.refuses = False

    def ask_coordinator(self, name: str, message: Any, codes: Any, **_: Any) -> Any:
        return self.beat(message) if isinstance(message, ConsumerGroupHeartbeatRequest) else self.commit(message)

    def beat(self, message: Any) -> Any:
        self.beats += 1
        if message.member_epoch == 0:
            assert not message.topic_partitions, "who joins owns nothing"
            self.epoch, self.is_fenced = self.epoch + 1, False
        elif self.is_fenced:
            return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.FENCED_MEMBER_EPOCH)
        assert message.member_epoch in (0, self.epoch)
        topics = (ConsumerGroupHeartbeatResponseTopicPartitions(TOPIC_ID, tuple(sorted(self.assigned))),)
        return ConsumerGroupHeartbeatResponse(
            member_epoch=self.epoch,
            heartbeat_interval_ms=5_000,
            assignment=ConsumerGroupHeartbeatResponseAssignment(topics),
        )

    def commit(self, message: Any) -> Any:
        (topic,) = message.topics
        assert all(self.offsets.get(one.partition_index) != one.committed_offset for one in topic.partitions)
        code = ErrorCode.STALE_MEMBER_EPOCH if self.refuses or self.is_fenced else ErrorCode.NONE
        if not code:
            assert message.generation_id_or_member_epoch == self.epoch
            self.offsets |= {one.partition_index: one.committed_offset for one in topic.partitions}
        parts = tuple(OffsetCommitResponsePartition(one.partition_index, code) for one in topic.partitions)
        return OffsetCommitResponse(0, (OffsetCommitResponseTopic(topic.name, partitions=parts),))


WEIGHTS = {"beat": 8, "poll": 2, "read": 8, "assign": 4, "commit": 3, "fence": 1, "refuse": 1, "accept": 3}
"""How often the member sends a heartbeat or looks whether one is due, and so on."""


@pytest.mark.parametrize("seed", range(20))
def test_a_member_hands_over_what_it_has_read_and_begins_where_others_ended(seed: int) -> None:
    dice = Random(seed)
    steps = dice.choices(list(WEIGHTS), list(WEIGHTS.values()), k=60)
    coordinator, is_due = Coordinator(), True
    member = GroupConsumer(cast("Cluster", coordinator), "g", "orders", TOPIC_ID, DEFAULTS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(group_consumer.time, "monotonic", lambda: coordinator.now_s)
        patch.setattr(group_consumer, "fetch_offsets", lambda cluster, group: [
            SimpleNamespace(topic=topic, partition=partition, offset=offset + more)
            for topic, more in (("orders", 0), ("other", 7))
            for partition, offset in coordinator.offsets.items()
        ])  # fmt: skip
        for step in steps:
            before, beats = dict(member.positions), coordinator.beats
            uncommitted = any(coordinator.offsets.get(number) != at for number, at in before.items())
            if step == "read":
                number = dice.randrange(3)
                member.positions |= {number: before[number] + 1} if number in before else {}
            elif step == "assign":
                coordinator.assigned = set(dice.sample(range(3), dice.randrange(4)))
            elif step == "fence":
                coordinator.is_fenced = coordinator.epoch > 0
            elif step in ("refuse", "accept"):
                coordinator.refuses = step == "refuse"
            elif step == "commit":
                member.commit()
                if coordinator.refuses or coordinator.is_fenced:
                    is_due |= uncommitted  # the response to a heartbeat says what it has lost
                else:
                    assert before.items() <= coordinator.offsets.items()
            else:
                if step == "beat":
                    coordinator.now_s, is_due = coordinator.now_s + 6, True
                member.poll()
                assert coordinator.beats - beats == is_due
                if is_due and coordinator.is_fenced:
                    assert (member.positions, member.is_assigned) == ({}, False)
                elif is_due:
                    assert member.positions.keys() == coordinator.assigned and member.is_assigned
                    is_due = before.keys() != coordinator.assigned  # it confirms that at once
                    for number in before.keys() - coordinator.assigned:
                        assert coordinator.refuses or coordinator.offsets.get(number) == before[number]
                    for number, at in member.positions.items():
                        expected = coordinator.offsets.get(number, DEFAULTS[number])
                        assert at == before.get(number, expected)
