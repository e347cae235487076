"""Record what Kafka and Muster write of share groups: `python -m tests.storage.record_share JARS`.

Both are given the same share groups: the logs of `__share_group_state` and `__consumer_offsets` as they lie on the disk,
what Kafka's own tool prints of each (`DumpLogSegments`), and what ReadShareGroupState says of the one that is left.
"""

import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from coordinator.client import Client
from protocol.messages.delete_groups import DeleteGroupsRequest
from protocol.messages.find_coordinator import FindCoordinatorRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.read_share_group_state import (
    ReadShareGroupStateRequest,
    ReadShareGroupStateRequestPartitionData,
    ReadShareGroupStateRequestReadStateData,
)
from protocol.messages.share_acknowledge import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeRequestAcknowledgementBatch,
    ShareAcknowledgeRequestPartition,
    ShareAcknowledgeRequestTopic,
)
from protocol.messages.share_fetch import ShareFetchRequest, ShareFetchRequestPartition, ShareFetchRequestTopic
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from protocol.record_batch import encode
from protocol.records import Record
from tests.conformance import kafka
from tests.live import Muster
from tests.requests import alter_configs, create_topics, produce
from tests.storage.kafka_tools import dump

RECORDING = Path(__file__).parent / "data" / "share"
LOG, OFFSETS_LOG = "__share_group_state-0", "__consumer_offsets-0"
DECODERS = {LOG: "--share-group-state-decoder", OFFSETS_LOG: "--offsets-decoder"}
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.snapshot.update.records.per.snapshot": "3",
    "group.share.assignment.interval.ms": "0",
    "group.share.delivery.count.limit": "2",
}
GROUP, GONE = "kitchen", "closed"
TOPIC = "orders"
GROUP_CONFIGS = 32  # as a kind of resource
ACCEPT, RELEASE, REJECT = 1, 2, 3
WAIT_SECONDS = 30.0


class Member:
    """The one member of a share group, which has all partitions of a topic."""

    def __init__(self, client: Client, group: str, topic_id: bytes) -> None:
        self.client, self.group, self.topic_id = client, group, topic_id
        self.member_id = f"member of {group}"
        self.epoch = self.session = 0

    def join(self) -> None:
        """Join, and wait until the partitions are assigned: then their states have begun."""
        has = self.beat(subscribed_topic_names=(TOPIC,))
        while not (has.assignment and has.assignment.topic_partitions):
            time.sleep(0.05)
            has = self.beat()

    def leave(self) -> None:
        self.epoch = -1
        self.beat()

    def beat(self, **values: Any) -> Any:
        def ask() -> Any:
            request = ShareGroupHeartbeatRequest(self.group, self.member_id, self.epoch, **values)
            return self.client.ask(request)

        answer = until(ask, lambda found: not found.error_code)
        self.epoch = answer.member_epoch
        return answer

    def take(self, most: int = 100) -> list[tuple[int, int, int]]:
        """Acquire records: the first offset, the last, and the number of the delivery of each range."""
        topics = (ShareFetchRequestTopic(self.topic_id, (ShareFetchRequestPartition(0),)),)

        def ask() -> Any:
            found = self.client.ask(
                ShareFetchRequest(
                    self.group, self.member_id, self.session, 1_000, 1, 1 << 20, most, most, 1, topics=topics
                )
            )
            assert not found.error_code, found
            self.session += 1
            return [one for topic in found.responses for one in topic.partitions if one.acquired_records]

        (partition,) = until(ask, bool)
        return [(one.first_offset, one.last_offset, one.delivery_count) for one in partition.acquired_records]

    def settle(self, *ranges: tuple[int, int, int], last: bool = False) -> None:
        """Acknowledge from an offset to another one in some way; the last time, release what is left."""
        batches = tuple([ShareAcknowledgeRequestAcknowledgementBatch(one, to, (how,)) for one, to, how in ranges])
        topics = (ShareAcknowledgeRequestTopic(self.topic_id, (ShareAcknowledgeRequestPartition(0, batches),)),)
        epoch = -1 if last else self.session
        answer = self.client.ask(ShareAcknowledgeRequest(self.group, self.member_id, epoch, topics=topics))
        assert not answer.error_code, answer
        assert all(not one.error_code for topic in answer.responses for one in topic.partitions), answer
        self.session += 1


def until(ask: Callable[[], Any], is_done: Callable[[Any], bool]) -> Any:
    """Ask until the answer is as it shall be: a broker makes its own topics meanwhile."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_done(found := ask()):
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


def live(client: Client) -> bytes:
    """Let two share groups read a topic; the second one is deleted in the end. Return the topic's id."""
    client.ask(create_topics({TOPIC: 1}))
    (topic,) = until(
        lambda: client.ask(MetadataRequest((MetadataRequestTopic(name=TOPIC),))).topics,
        lambda found: not found[0].error_code,
    )
    for group in (GROUP, GONE):
        find_coordinator(client, group)
        client.ask(alter_configs(GROUP_CONFIGS, group, {"share.auto.offset.reset": "earliest"}))
    for number in range(6):
        client.ask(produce(TOPIC, {0: encode([Record(None, b"%d" % number)] * 5)}), 9)
    kitchen, closed = (Member(client, group, topic.topic_id) for group in (GROUP, GONE))
    for member in (kitchen, closed):
        member.join()
    assert kitchen.take(20)[0][0] == 0
    kitchen.settle((0, 3, ACCEPT))
    kitchen.settle((4, 4, REJECT))
    kitchen.settle((6, 8, ACCEPT), (9, 9, REJECT))
    kitchen.settle((5, 5, RELEASE), (10, 12, RELEASE))
    closed.take(5)
    closed.settle((0, 4, RELEASE))
    assert kitchen.take(4)[0] == (5, 5, 2)
    kitchen.settle((10, 10, ACCEPT), (11, 12, RELEASE))  # of which the second delivery was the last
    kitchen.settle((15, 19, ACCEPT))
    kitchen.settle((13, 13, REJECT))
    kitchen.settle(last=True)
    closed.settle(last=True)
    closed.leave()
    until(lambda: client.ask(DeleteGroupsRequest((GONE,))), lambda found: not found.results[0].error_code)
    topic_id: bytes = topic.topic_id
    return topic_id


def find_coordinator(client: Client, group: str) -> None:
    """Wait until the group has a coordinator: the first who asks makes its topic."""
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=(group,))
    until(lambda: client.ask(request), lambda found: not found.coordinators[0].error_code)


def state_request(topic_id: bytes) -> ReadShareGroupStateRequest:
    """Ask for the state of the group that is left."""
    one = ReadShareGroupStateRequestPartitionData(0, -1)
    return ReadShareGroupStateRequest(GROUP, (ReadShareGroupStateRequestReadStateData(topic_id, (one,)),))


def record(name: str, bootstrap: str, data: Path, jars: Path) -> None:
    """Record one broker, whose logs are in `data`."""
    target = RECORDING / name
    shutil.rmtree(target, ignore_errors=True)
    with Client.to(bootstrap) as client:
        topic_id = live(client)
        (state,) = client.ask(state_request(topic_id), 0).results
    for log, decoder in DECODERS.items():
        shutil.copytree(data / log, target / log, ignore=lambda _, names: [n for n in names if not n.endswith(".log")])
        (target / f"{log}.txt").write_text(dump(jars, target / log, decoder))
    (target / "state.json").write_bytes(msgspec.json.format(msgspec.json.encode(state)))


def main() -> int:
    jars = Path(sys.argv[1])
    with kafka.broker(SETTINGS) as broker:
        record("kafka", f"127.0.0.1:{broker.port}", broker.directory / "data", jars)
    settings = [f"--set={name}={value}" for name, value in SETTINGS.items()]
    with tempfile.TemporaryDirectory() as folder, Muster(Path(folder), *settings) as muster:
        record("muster", muster.kafka, muster.data_dir, jars)
    return 0


if __name__ == "__main__":
    sys.exit(main())
