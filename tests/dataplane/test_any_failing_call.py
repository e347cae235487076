"""A disk that fails at any one call of a story about topics: what was acknowledged stays, what failed is told, and nothing
else suffers."""

import errno
from contextlib import suppress
from itertools import count
from random import Random

from coordinator.core.share_state.values import NO_OFFSET, StateKey
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
)
from protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestDeleteTopicState
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from protocol.messages.share_fetch import ShareFetchRequest
from protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestWritableTxnMarker,
    WriteTxnMarkersRequestWritableTxnMarkerTopic,
)
from protocol.record_batch import batches
from storage.files import StorageError
from tests.dataplane.broker import batch, read_values
from tests.requests import (
    alter_configs,
    create_topics,
    delete_records,
    fetch,
    list_offsets,
    produce,
    share_fetch_topics,
)
from tests.server.in_memory import WALL_MS, InMemory
from tests.storage.crashing_disk import CrashingDisk

HOUR_MS = 3_600_000
TOPICS = {"t": 3, "old": 1, "gone": 2}
FAILED = ErrorCode.KAFKA_STORAGE_ERROR
GROUP = 32  # of resources that have settings
Place = tuple[str, int]


def start(disk: CrashingDisk, seed: int = 7) -> InMemory:
    few = {"offsets_topic_num_partitions": 1, "share_coordinator_state_topic_num_partitions": 1}
    return InMemory(disk, is_synced=True, topics={"t": 3, "gone": 2}, seed=seed, **few)


class Story:
    """A server, what a client knows of its topics, and what it does."""

    def __init__(self) -> None:
        self.disk = disk = CrashingDisk()
        disk.make_directory("data")
        disk.sync_directory("")
        self.server = start(disk)
        self.peer = self.server.connect()
        self.numbers = count()
        self.kept: dict[Place, list[str]] = {}  # values that were acknowledged, in order
        self.unsure: set[str] = set()  # that may be there or not
        self.never: set[str] = set()  # of transactions that were aborted, of topics that are gone
        settings = {"retention.ms": str(HOUR_MS), "segment.ms": "1"}
        self.ask(create_topics({"old": 1}, settings), 7)
        self.ask(alter_configs(GROUP, "sharers", {"share.auto.offset.reset": "by_duration:PT1H"}), 1)
        self.now_ms = WALL_MS
        for place in [("t", 0), ("t", 1), ("t", 2), ("old", 0), ("gone", 0), ("gone", 1)]:
            self.produce(*place)

    def ask(self, request: object, version: int) -> object:
        """The answer to a request, whether it is decided in one turn or in several."""
        before = len(self.peer.answers)
        self.peer.send((request, version))
        self.server.rest()
        (answer,) = self.peer.answers[before:]
        return answer[1]

    def produce(self, topic: str, partition: int, txn: str | None = None, **fields: object) -> list[str]:
        """Produce a record. Return its value, if it was acknowledged."""
        value = f"{topic} {partition} {next(self.numbers)}"
        data = batch(value, at_ms=self.now_ms, **fields)
        (self.never if txn else self.unsure).add(value)
        (answer,) = self.ask(produce(topic, {partition: data}, txn), 12).responses[0].partition_responses
        if answer.error_code:
            self.expect(answer.error_code)
            return []
        if txn is None:
            self.unsure.remove(value)
            self.kept.setdefault((topic, partition), []).append(value)
        return [value]

    def expect(self, error: int) -> None:
        """An error that the disk explains, if it has failed."""
        assert self.disk.failures and error == FAILED, ErrorCode(error).name

    def begin(self, name: str, *partitions: int) -> tuple[tuple[int, int], dict[Place, list[str]]] | None:
        """Begin a transaction with a record for each partition. Return the producer and the values."""
        begun = self.ask(InitProducerIdRequest(name, 60_000), 4)
        if begun.error_code:
            return self.expect_coordinator(begun.error_code)
        producer = (begun.producer_id, begun.producer_epoch)
        values: dict[Place, list[str]] = {}
        for partition in partitions:
            topics = (AddPartitionsToTxnRequestTopic("t", (partition,)),)
            added = self.ask(AddPartitionsToTxnRequest((), name, *producer, topics), 3)
            (error,) = [one.partition_error_code for one in added.results_by_topic_v3_and_below[0].results_by_partition]
            if error:
                self.expect_coordinator(error)
                continue
            ids = {"producer_id": producer[0], "producer_epoch": producer[1]}
            values["t", partition] = self.produce("t", partition, name, base_sequence=0, transactional=True, **ids)
        return producer, values

    def do_transaction(self, name: str, *, is_committed: bool) -> None:
        begun = self.begin(name, 0, 2)
        if begun is None:
            return
        producer, values = begun
        is_whole = is_committed and all(values.values())
        sent = {value for found in values.values() for value in found} if is_whole else set()
        self.never -= sent
        self.unsure |= sent
        ended = self.ask(EndTxnRequest(name, *producer, is_whole), 3)
        if ended.error_code:
            self.expect_coordinator(ended.error_code)
        elif is_whole:
            self.unsure -= sent
            for place, found in values.items():
                self.kept[place] += found

    def end_by_an_administrator(self) -> None:
        """A marker ends a transaction in a partition, whatever the coordinator says."""
        begun = self.begin("stuck", 1)
        if begun is None:
            return
        producer, _ = begun
        topics = (WriteTxnMarkersRequestWritableTxnMarkerTopic("t", (1,)),)
        marker = WriteTxnMarkersRequestWritableTxnMarker(*producer, False, topics)
        answer = self.ask(WriteTxnMarkersRequest((marker,)), 1)
        (error,) = [one.error_code for one in answer.markers[0].topics[0].partitions]
        if error:
            self.expect(error)

    def find_by_time(self) -> None:
        (answer,) = self.ask(list_offsets("t", {1: self.now_ms}), 7).topics[0].partitions
        if answer.error_code:
            self.expect(answer.error_code)
        else:
            assert answer.offset == 0, "each record is of this time"

    def remove_the_oldest(self) -> None:
        oldest = self.kept["t", 1].pop(0)
        self.unsure.add(oldest)
        (answer,) = self.ask(delete_records("t", {1: 1}), 2).topics[0].partitions
        if answer.error_code:
            self.expect(answer.error_code)
        else:
            self.unsure.remove(oldest)
            self.never.add(oldest)

    def share(self) -> None:
        """A share group that begins where an hour ago is: the partition is searched by time as it is opened."""
        key = StateKey("sharers", self.server.node.world.ledger.catalog.topics_by_name["t"].id, 2)
        if self.server.node.engine.share_states.initialize(key, 1, NO_OFFSET, self.server.clock.now_ms()):
            assert self.disk.failures
            return
        self.server.rest()
        for epoch in range(2):
            topics = share_fetch_topics({(key.topic_id, 2): ()})
            answer = self.ask(
                ShareFetchRequest("sharers", "m", epoch, max_records=9, batch_size=9, topics=topics, max_wait_ms=0), 2
            )
            assert not answer.error_code
            for one in (part for topic in answer.responses for part in topic.partitions):
                if one.error_code:
                    assert self.disk.failures, ErrorCode(one.error_code).name

    def tend(self) -> None:
        """Do what the janitor does; what fails is left to its next round."""
        with suppress(StorageError):
            list(self.server.node.world.dataplane.tend(self.now_ms))
        self.server.rest()

    def clean(self) -> None:
        """Retention takes the older of two records."""
        self.now_ms += HOUR_MS + 2
        self.server.seconds += HOUR_MS / 1000 + 0.002
        self.server.rest()
        older = self.kept["old", 0].pop()
        self.unsure.add(older)
        self.produce("old", 0)
        self.tend()

    def make_anew(self) -> None:
        places = [("gone", partition) for partition in range(2)]
        before = {place: self.kept.pop(place) for place in places}
        values = {value for found in before.values() for value in found}
        self.unsure |= values
        (answer,) = self.ask(DeleteTopicsRequest((DeleteTopicsRequestDeleteTopicState("gone"),)), 6).responses
        if answer.error_code:
            assert self.disk.failures, ErrorCode(answer.error_code).name
            return
        self.unsure -= values
        self.never |= values
        self.tend()  # it tries again what could not be removed
        created = self.ask(create_topics({"gone": 2}), 7).topics[0]
        if created.error_code:
            assert self.disk.failures, ErrorCode(created.error_code).name
            return
        for place in places:
            self.produce(*place)

    def tell(self) -> None:
        self.do_transaction("committed", is_committed=True)
        self.do_transaction("aborted", is_committed=False)
        self.end_by_an_administrator()
        self.find_by_time()
        self.remove_the_oldest()
        self.share()
        self.clean()
        self.make_anew()

    def go_on(self) -> None:
        """One call has failed: one partition at most is closed, and the others take records."""
        closed = self.server.node.world.dataplane.closed_partitions
        assert len(closed) <= 1, closed
        for place in self.kept:
            if place not in closed:
                assert self.produce(*place)
                self.check(self.server, place)

    @staticmethod
    def read(server: InMemory, place: Place) -> list[str]:
        """What a consumer reads that reads committed records from the beginning."""
        peer = server.connect()
        (begin,) = peer.ask(list_offsets(place[0], {place[1]: -2}), 7).topics[0].partitions
        values: list[str] = []
        at, end = begin.offset, begin.offset + 1
        while at < end:
            request = fetch(*place, at, isolation_level=1, partition_max_bytes=1 << 20)
            (answer,) = peer.ask(request, 12).responses[0].partitions
            assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code).name
            if not answer.records:
                break
            aborted = {(one.producer_id, one.first_offset) for one in answer.aborted_transactions or ()}
            values += read_values(answer.records, aborted)
            at, end = [header.next_offset for _, header in batches(answer.records)][-1], answer.high_watermark
        return values

    def check(self, server: InMemory, place: Place) -> None:
        """Compare a partition: it has all acknowledged records in order, no removed one, and perhaps some unsure ones."""
        found = self.read(server, place)
        assert [value for value in found if value not in self.unsure] == self.kept[place]
        assert not self.never & set(found)

    def check_after(self, disk: CrashingDisk) -> None:
        """Whatever comes up again has all of it."""
        server = start(disk, seed=70)
        server.advance(120)  # a transaction whose end was not written is over by then
        assert not server.node.world.dataplane.closed_partitions
        for place in self.kept:
            self.check(server, place)


def test_without_a_failure_all_of_it_is_there() -> None:
    story = Story()
    story.tell()
    assert all(story.read(story.server, place) == values for place, values in story.kept.items())
    assert {place: len(values) for place, values in story.kept.items()} == {
        ("t", 0): 2, ("t", 1): 0, ("t", 2): 2, ("old", 0): 1, ("gone", 0): 1, ("gone", 1): 1,
    }  # fmt: skip
    story.go_on()
    story.check_after(story.disk.copy())


def test_a_call_that_fails_takes_nothing_that_was_acknowledged() -> None:
    whole = Story()
    first = whole.disk.calls
    whole.tell()
    for number in range(first + 1, whole.disk.calls + 1):
        story = Story()
        story.disk.fail = {number: (errno.EIO, errno.ENOSPC, errno.EROFS)[number % 3]}
        try:
            story.tell()
        except StorageError:  # a log of the coordinator itself has failed: the process ends
            pass
        else:
            story.go_on()
        assert story.disk.failures == 1
        story.disk.fail = {}
        story.check_after(story.disk.copy())
        story.check_after(story.disk.crash(Random(number)))


def test_a_topic_whose_logs_cannot_be_removed_is_not_made_anew() -> None:
    """Not by a request, not by asking for its metadata, not by the set-up of a start."""
    story = Story()

    def refuse(operation: str, path: str) -> int:
        return errno.EACCES if operation == "rename" and path.startswith("data/gone-") else 0

    def attempt(server: InMemory) -> int:
        peer = server.connect()
        peer.ask(MetadataRequest((MetadataRequestTopic(name="gone"),), allow_auto_topic_creation=True), 9)
        code: int = peer.ask(create_topics({"gone": 2}), 7).topics[0].error_code
        return code

    story.disk.refuse = refuse
    (deleted,) = story.ask(DeleteTopicsRequest((DeleteTopicsRequestDeleteTopicState("gone"),)), 6).responses
    assert deleted.error_code == ErrorCode.NONE
    assert attempt(story.server) == FAILED
    story.tend()
    assert attempt(story.server) == FAILED
    disk = story.disk.copy()
    disk.refuse = refuse
    again = start(disk, seed=70)
    assert attempt(again) == FAILED
    disk.refuse = lambda operation, path: 0
    list(again.node.world.dataplane.tend(WALL_MS))
    assert attempt(again) == ErrorCode.TOPIC_ALREADY_EXISTS, "as soon as it was asked for"
    assert Story.read(again, ("gone", 0)) == []
