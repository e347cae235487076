"""Simulated members of share groups: each fetches, and accepts, releases, rejects, renews or forgets what it gets; and a
producer of the records."""

from collections.abc import Iterator, Mapping
from itertools import cycle, repeat
from typing import Any, Final

from protocol import record_batch
from protocol.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
)
from protocol.messages.share_acknowledge import (
    ShareAcknowledgeRequest,
)
from protocol.messages.share_fetch import (
    ShareFetchRequest,
)
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from protocol.records import Record
from tests.requests import alter_configs, produce, share_acknowledge_topics, share_fetch_topics
from tests.simulation.members import REQUEST_MS, Process
from tests.simulation.network import Network

TOPIC: Final = "jobs"
TOPIC_RESOURCE: Final = 2
KEYS: Final = (b"a", b"b", b"c", b"d", b"e", b"f", b"g")
BEAT_MS: Final = 4_000
WAIT_MS: Final = 500
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
Ranges = list[tuple[int, int, tuple[int, ...]]]
Partition = tuple[bytes, int]


class ShareMember(Process):
    """A share consumer: it joins, and fetches what it is assigned in one session."""

    def __init__(self, name: str, group: str, network: Network) -> None:
        super().__init__(name, network)
        self.group = group
        self.member_id = ""
        self.is_diligent = False  # it accepts all that it gets
        self._epoch = 0  # of the group
        self._session = 0  # the epoch of the next fetch
        self._assigned: tuple[Partition, ...] = ()
        self._verdicts: dict[Partition, Ranges] = {}

    def start(self) -> None:
        super().start()
        self.member_id = f"{self.name}-{self._network.position()}"
        self._epoch = self._session = 0
        self._assigned, self._verdicts = (), {}
        self._later(self._dice.randint(1, BEAT_MS), self._beat)
        self._later(self._dice.randint(1, BEAT_MS), self._fetch)

    def stop(self) -> None:
        """Close the session, and leave."""
        if self.is_alive and self._session > 0:
            self._tell(ShareAcknowledgeRequest(self.group, self.member_id, -1), 2)
        if self.is_alive and self._epoch > 0:
            self._tell(ShareGroupHeartbeatRequest(self.group, self.member_id, -1), 1)
        link, self._link = self._link, None
        self.crash()
        if link is not None:
            self._network.clock.after(REQUEST_MS, link.close)

    # -- membership ----------------------------------------------------------------------------------------------------

    def _beat(self) -> None:
        topics = (TOPIC,) if self._epoch == 0 else None
        request = ShareGroupHeartbeatRequest(self.group, self.member_id, self._epoch, subscribed_topic_names=topics)
        self._ask(request, 1, REQUEST_MS, self._beaten)
        self._later(BEAT_MS, self._beat)

    def _beaten(self, answer: Any) -> None:
        if answer is None:
            return
        if answer.error_code:
            self._epoch = 0
            return
        self._epoch = answer.member_epoch
        if answer.assignment is not None:
            self._assigned = tuple(
                [(topic.topic_id, index) for topic in answer.assignment.topic_partitions for index in topic.partitions]
            )

    # -- records -------------------------------------------------------------------------------------------------------

    def _fetch(self) -> None:
        if not self._assigned:
            self._later(500, self._fetch)
            return
        verdicts, self._verdicts = self._verdicts, {}
        if self._session and verdicts and self._dice.random() < 0.5:
            self._acknowledge(verdicts)
            return
        named: dict[Partition, Ranges] = {partition: [] for partition in self._assigned}
        if self._session:
            named |= verdicts
        request = ShareFetchRequest(
            self.group,
            self.member_id,
            self._session,
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_records=self._dice.choice((1, 3, 20)),
            batch_size=self._dice.choice((1, 5, 500)),
            share_acquire_mode=self._dice.choice((0, 0, 1)),
            is_renew_ack=False,
            topics=share_fetch_topics(named),
        )
        self._session = self._session + 1 if self._session else 1
        self._ask(request, 2, REQUEST_MS, self._fetched)

    def _fetched(self, answer: Any) -> None:
        if answer is None or answer.error_code:
            self._session = 0
            self._later(self._dice.randint(50, 1_000), self._fetch)
            return
        for topic in answer.responses:
            for one in topic.partitions:
                for run in one.acquired_records:
                    self._judge((topic.topic_id, one.partition_index), run.first_offset, run.last_offset)
        self._later(self._dice.choice((0, 10, 300, 2_000)) + 1, self._fetch)

    def _judge(self, partition: Partition, first: int, last: int) -> None:
        """Make something of records that were acquired; of some nothing, until their lock ends."""
        if self.is_diligent:
            types: tuple[int, ...] = (ACCEPT,)
        elif self._dice.random() < 0.2:
            return
        elif self._dice.random() < 0.5:
            types = (self._dice.choice((ACCEPT, ACCEPT, ACCEPT, RELEASE, REJECT)),)
        else:
            types = tuple([self._dice.choice((ACCEPT, ACCEPT, RELEASE, REJECT, 0)) for _ in range(last - first + 1)])
        self._verdicts.setdefault(partition, []).append((first, last, types))

    def _acknowledge(self, verdicts: dict[Partition, Ranges]) -> None:
        renews = self._dice.random() < 0.2
        told = {
            partition: [(first, last, (RENEW,) if renews else types) for first, last, types in sorted(ranges)]
            for partition, ranges in verdicts.items()
        }
        if renews:
            self._verdicts = verdicts
        request = ShareAcknowledgeRequest(
            self.group, self.member_id, self._session, is_renew_ack=renews, topics=share_acknowledge_topics(told)
        )
        self._session += 1
        self._ask(request, 2, REQUEST_MS, self._acknowledged)

    def _acknowledged(self, answer: Any) -> None:
        if answer is None or answer.error_code:
            self._session = 0
        self._later(self._dice.choice((0, 10, 300)) + 1, self._fetch)


class Writer(Process):
    """Appends batches of a few records, as long as it lives, and deletes the oldest now and then."""

    def __init__(self, name: str, partitions: int, network: Network, settings: Mapping[str, str]) -> None:
        """The settings are those of the topic."""
        super().__init__(name, network)
        self._partitions, self._settings = partitions, settings
        self._keys: Iterator[bytes | None] = (
            cycle(KEYS) if settings.get("cleanup.policy") == "compact" else repeat(None)
        )
        self.ends: dict[int, int] = {}  # by partition: the offset behind the last record that was acknowledged
        self.deletes = False

    def start(self) -> None:
        super().start()
        if self._settings:
            self._tell(alter_configs(TOPIC_RESOURCE, TOPIC, self._settings), 1)
        self._later(1_000, self._write)

    def _write(self) -> None:
        index = self._dice.randrange(self._partitions)
        if self.deletes and self._dice.random() < 0.03 and self.ends.get(index):
            self._delete(index, self._dice.randint(0, self.ends[index]))
        now_ms = self._network.clock.now_ms
        values = [Record(next(self._keys), b"x", timestamp=now_ms) for _ in range(self._dice.choice((1, 1, 2, 5, 12)))]
        request = produce(TOPIC, {index: record_batch.encode(values)})
        self._ask(request, 9, REQUEST_MS, lambda answer: self._written(answer, index, len(values)))

    def _written(self, answer: Any, index: int, count: int) -> None:
        if answer is not None:
            (one,) = answer.responses[0].partition_responses
            if not one.error_code:
                self.ends[index] = one.base_offset + count
        self._later(self._dice.choice((200, 1_000, 6_000)), self._write)

    def _delete(self, index: int, offset: int) -> None:
        topic = DeleteRecordsRequestTopic(TOPIC, (DeleteRecordsRequestPartition(index, offset),))
        self._tell(DeleteRecordsRequest((topic,), 5_000), 2)
