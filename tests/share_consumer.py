"""A member of a share group by the command line's client: it joins, and fetches by its assignment."""

import secrets

from msgspec import Struct

from coordinator.client import Client
from protocol.messages.share_acknowledge import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeRequestAcknowledgementBatch,
    ShareAcknowledgeRequestPartition,
    ShareAcknowledgeRequestTopic,
)
from protocol.messages.share_fetch import ShareFetchRequest, ShareFetchRequestPartition, ShareFetchRequestTopic
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

ACCEPT, RELEASE, REJECT = 1, 2, 3


class ShareConsumer(Struct):
    """A member of a share group that reads the first partition of one topic."""

    client: Client
    group: str
    member_id: str
    topic_id: bytes
    epoch: int = 0  # of the share session

    @classmethod
    def join(cls, client: Client, group: str, topic: str) -> "ShareConsumer":
        """Join, and wait until the topic is assigned."""
        member_id, epoch = secrets.token_urlsafe(16), 0
        while True:
            request = ShareGroupHeartbeatRequest(group, member_id, epoch, subscribed_topic_names=(topic,))
            answer = client.ask(request)
            assert not answer.error_code, answer
            epoch = answer.member_epoch
            if answer.assignment is not None and answer.assignment.topic_partitions:
                return cls(client, group, member_id, answer.assignment.topic_partitions[0].topic_id)

    def fetch(self, max_wait_ms: int = 0) -> list[tuple[int, int, int]]:
        """Return what is acquired: first offset, last offset, number of the delivery."""
        topics = (ShareFetchRequestTopic(self.topic_id, (ShareFetchRequestPartition(0),)),)
        request = ShareFetchRequest(
            self.group, self.member_id, self.epoch,
            max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1 << 20, max_records=100, batch_size=100, topics=topics,
        )  # fmt: skip
        answer = self.client.ask(request)
        assert not answer.error_code, answer
        self.epoch += 1
        runs = [run for topic in answer.responses for one in topic.partitions for run in one.acquired_records]
        return [(run.first_offset, run.last_offset, run.delivery_count) for run in runs]

    def acknowledge(self, first: int, last: int, kind: int) -> int:
        """Acknowledge records, and return the error."""
        batch = ShareAcknowledgeRequestAcknowledgementBatch(first, last, (kind,))
        topics = (ShareAcknowledgeRequestTopic(self.topic_id, (ShareAcknowledgeRequestPartition(0, (batch,)),)),)
        answer = self.client.ask(ShareAcknowledgeRequest(self.group, self.member_id, self.epoch, topics=topics))
        self.epoch += 1
        error: int = answer.responses[0].partitions[0].error_code
        return error
