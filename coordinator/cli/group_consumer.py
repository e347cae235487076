"""A member of a consumer group, for `muster consume --group`: joins, heartbeats, commits, leaves. Not a subcommand.

It uses the consumer protocol (KIP-848), in which the broker assigns partitions: one heartbeat joins the group, renews
the session, and brings assignments. KIP-848 has the state machine of a member.
"""

import time
from collections.abc import Mapping
from typing import Any, Final
from uuid import uuid4

from coordinator.cli.cluster import BrokerError, Cluster, check
from coordinator.cli.group_offsets import BY_NAME, fetch_offsets
from protocol.errors import ErrorCode
from protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

REBALANCE_TIMEOUT_MS: Final = 60_000
JOIN, LEAVE = 0, -1  # special member epochs
LOST: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})
COMMIT_SECONDS: Final = 1.0
SENTENCES: Final[Mapping[int, str]] = {
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "the group has classic members that cannot move to the consumer protocol",
    ErrorCode.GROUP_ID_NOT_FOUND: "the group has classic members, and the broker does not let it change its protocol",
}


class GroupConsumer:
    """A member of a group that reads one topic. The caller reads the records, and advances `positions`."""

    def __init__(self, cluster: Cluster, group: str, topic: str, topic_id: bytes, defaults: Mapping[int, int]) -> None:
        """`defaults` has the offset to begin at in each partition without a committed offset."""
        self._cluster = cluster
        self._group = group
        self._topic = topic
        self._topic_id = topic_id
        self._defaults = defaults
        self._member_id = str(uuid4())
        self._epoch = JOIN
        self._beat_at = 0.0
        self._commit_at = 0.0
        self._committed: dict[int, int] = {}
        self.positions: dict[int, int] = {}  # of each owned partition: the offset of the next record
        self.is_assigned = False  # whether the broker has sent an assignment

    def poll(self) -> None:
        """Send a heartbeat if one is due, and take over the assignment in its response. Raises ClientError."""
        if time.monotonic() < self._beat_at:
            return
        response = self._heartbeat(self._epoch)
        if response.error_code in LOST and self._epoch != JOIN:
            self._epoch = JOIN
            self.positions, self._committed, self.is_assigned = {}, {}, False
            return
        check(f"join group {self._group}", response.error_code, response.error_message, SENTENCES)
        self._epoch = response.member_epoch
        self._beat_at = time.monotonic() + response.heartbeat_interval_ms / 1000
        if response.assignment is not None:
            self._assign({n for one in response.assignment.topic_partitions for n in one.partitions})

    def beat_now(self) -> None:
        """Let the next poll send a heartbeat at once."""
        self._beat_at = 0.0

    def _heartbeat(self, epoch: int) -> Any:
        owned = (ConsumerGroupHeartbeatRequestTopicPartitions(self._topic_id, tuple(sorted(self.positions))),)
        request = ConsumerGroupHeartbeatRequest(
            self._group,
            self._member_id,
            epoch,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            subscribed_topic_names=(self._topic,),
            topic_partitions=owned if self.positions else (),
        )
        return self._cluster.ask_coordinator(self._group, request, lambda one: [one.error_code])

    def _assign(self, assigned: set[int]) -> None:
        """Commit, take over the assignment with the committed offsets of new partitions, and confirm it at once."""
        self.is_assigned = True
        if assigned == self.positions.keys():
            return
        self.commit()
        self.positions = {number: at for number, at in self.positions.items() if number in assigned}
        if added := assigned - self.positions.keys():
            committed = {
                one.partition: one.offset
                for one in fetch_offsets(self._cluster, self._group)
                if one.topic == self._topic
            }
            self.positions |= {number: committed.get(number, self._defaults.get(number, 0)) for number in added}
            self._committed |= {number: self.positions[number] for number in added & committed.keys()}
        self.beat_now()

    def commit(self, *, is_urgent: bool = True) -> None:
        """Commit the positions that have changed; unless urgent, at most once in COMMIT_SECONDS."""
        moved = {number: at for number, at in self.positions.items() if self._committed.get(number) != at}
        if not moved or (not is_urgent and time.monotonic() < self._commit_at):
            return
        partitions = tuple(OffsetCommitRequestPartition(number, committed_offset=at) for number, at in moved.items())
        request = OffsetCommitRequest(
            self._group,
            self._epoch,
            self._member_id,
            topics=(OffsetCommitRequestTopic(self._topic, partitions=partitions),),
        )
        response = self._cluster.ask_coordinator(self._group, request, _find_codes, up_to=BY_NAME)
        codes = set(_find_codes(response)) - {ErrorCode.NONE}
        if not codes:
            self._committed |= moved
        elif codes <= {ErrorCode.STALE_MEMBER_EPOCH, *LOST}:
            self.beat_now()  # the response says what the member has lost
        else:
            raise BrokerError(f"commit offsets of {self._group}", min(codes))
        self._commit_at = time.monotonic() + COMMIT_SECONDS

    def leave(self) -> None:
        """Commit, and leave the group. Raises ClientError."""
        if self._epoch > 0:
            try:
                self.commit()
            finally:
                self._heartbeat(LEAVE)
                self._epoch = JOIN


def _find_codes(response: Any) -> list[int]:
    return [one.error_code for topic in response.topics for one in topic.partitions]
