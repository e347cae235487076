"""What is read, how much at once, and who waits for how long."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from coordinator.core import records
from coordinator.core.catalog.records import CatalogRecord, TopicKey, TopicValue
from coordinator.core.result import Result
from coordinator.dataplane import long_polls, sessions, state
from coordinator.dataplane.long_polls import deadline_ms
from coordinator.dataplane.state import HELD_BYTES_MAX
from protocol import record_batch
from protocol.compression import Meter
from protocol.errors import ErrorCode
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from tests.dataplane.broker import NODES, NOW, Broker, batch, call, read_values, response_of
from tests.dataplane.transactional import transactional_batch
from tests.requests import commit, delete_records, fetch, fetch_all


def test_the_bound_holds_for_all_partitions_together(broker: Broker) -> None:
    size = len(batch("a" * 1000))
    for partition in (0, 1):
        for _ in range(3):
            broker.produce("t", partition, batch("a" * 1000))
    answer = broker.ask(fetch_all("t", {0: 0, 1: 0}, max_bytes=4 * size + 10))
    assert [len(data.records) for data in answer.responses[0].partitions] == [3 * size, size]
    answer = broker.ask(fetch_all("t", {0: 0, 1: 0}, max_bytes=3 * size))
    assert [len(data.records) for data in answer.responses[0].partitions] == [3 * size, 0]


def test_a_batch_that_does_not_fit_is_not_skipped_for_later_ones_that_do(broker: Broker) -> None:
    broker.create("rolled", partitions=1, segment_bytes="1048576")
    broker.produce("t", 0, batch("first"))
    broker.produce("rolled", 0, batch("a" * 900_000))
    broker.produce("rolled", 0, batch("b" * 300_000))  # begins the next segment
    asked = tuple(
        FetchRequestTopic(topic, partitions=(FetchRequestPartition(0, partition_max_bytes=500_000),))
        for topic in ("t", "rolled")
    )
    answer = broker.ask(FetchRequest(max_bytes=10**6, topics=asked))
    assert [len(topic.partitions[0].records) > 0 for topic in answer.responses] == [True, False]


def test_while_others_do_not_read_an_answer_is_a_batch(broker: Broker) -> None:
    """R19: what all clients together have not taken yet is bounded."""
    size = len(batch("a" * 1000))
    for _ in range(3):
        broker.produce("t", 0, batch("a" * 1000))
    for unsent_bytes, batches in ((0, 3), (HELD_BYTES_MAX - 2 * size, 2), (HELD_BYTES_MAX, 1), (2 * HELD_BYTES_MAX, 1)):
        broker.plane.note_unsent(unsent_bytes)
        assert len(broker.fetch("t").records) == batches * size


def test_that_counts_within_a_turn(broker: Broker) -> None:
    size = len(batch("a" * 1000))
    for _ in range(3):
        broker.produce("t", 0, batch("a" * 1000))
    broker.plane.note_unsent(HELD_BYTES_MAX - 4 * size)
    sizes = []
    for _ in range(3):  # no turn ends between them
        answer = broker.plane.handle(fetch("t"), call(fetch("t")), NODES).response
        sizes.append(len(answer.responses[0].partitions[0].records) // size)
    assert sizes == [3, 1, 1]


# -- waiting ---------------------------------------------------------------------------------------------------------------


def test_a_fetch_waits_for_records(broker: Broker) -> None:
    assert broker.ask(fetch("t", max_wait_ms=500), ticket=7) is None
    assert (broker.plane.next_poll_ms(), broker.replies()) == (512, [])
    broker.produce("t", 1, batch("elsewhere"))
    assert broker.replies() == []
    broker.produce("t", 0, batch("here"))
    ((ticket, answer),) = broker.replies()
    assert ticket == 7
    assert read_values(answer.responses[0].partitions[0].records) == ["here"]
    assert broker.plane.next_poll_ms() is None


def test_waits_end_together(broker: Broker) -> None:
    """Up to 128 ms later than asked for, never earlier: so that one turn answers many."""
    for ticket, at_ms in enumerate((973, 1000, 1019, 1036)):
        broker.real_ms = at_ms
        broker.ask(fetch("t", max_wait_ms=500), ticket=ticket)
    assert broker.plane.next_poll_ms() == 1536
    broker.real_ms = 1535
    assert broker.replies() == []
    broker.real_ms = 1536
    assert [answer.responses[0].partitions[0].records for _, answer in broker.replies()] == [b""] * 4


@pytest.mark.parametrize(("wait_ms", "late_ms"), [(100, 12), (250, 6), (500, 12), (1000, 24), (5000, 120)])
def test_a_client_that_asks_again_at_once_is_hardly_late(wait_ms: int, late_ms: int) -> None:
    """It asks a moment after the end of its last wait, which was at a multiple."""
    asked_ms = deadline_ms(2**40, wait_ms) + 2
    assert deadline_ms(asked_ms, wait_ms) - asked_ms - wait_ms == late_ms - 2


@given(st.integers(0, 2**42), st.integers(1, 2**31 - 1))
def test_a_wait_is_never_shorter_than_asked_for_and_hardly_longer(now_ms: int, wait_ms: int) -> None:
    longer = deadline_ms(now_ms, wait_ms) - now_ms - wait_ms
    assert 0 <= longer < min(max(wait_ms * 0.256, 1), 128)


def test_a_fetch_waits_for_enough(broker: Broker) -> None:
    size = len(batch("a"))
    broker.ask(fetch("t", max_wait_ms=500, min_bytes=2 * size), ticket=7)
    broker.produce("t", 0, batch("a"))
    assert broker.replies() == []
    broker.produce("t", 0, batch("b"))
    assert [ticket for ticket, _ in broker.replies()] == [7]


def test_who_waits_for_more_than_there_is_makes_us_keep_none_of_it(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing while they wait; and when all waits end at once, no more than may be held for clients."""
    monkeypatch.setattr(state, "HELD_BYTES_MAX", 50_000)
    for number in range(10):
        broker.produce("t", 0, batch(str(number) * 1000))
    for ticket in range(20):
        assert broker.ask(fetch("t", max_wait_ms=10**6, min_bytes=2**31 - 1), ticket=ticket) is None
    assert [one.found for one in broker.plane._state.polls._waiting.values()] == [None] * 20
    broker.real_ms = 10**6 + 128
    answers = [answer.responses[0].partitions[0].records for _, answer in broker.replies()]
    assert [len(read_values(records)) for records in answers[:4]] == [10, 10, 10, 10]
    assert len(answers) == 20
    assert sum(map(len, answers)) < 50_000 + 16 * len(batch("a" * 1000))


def test_a_fetch_of_nothing_or_of_no_wait_is_answered(broker: Broker) -> None:
    assert broker.ask(fetch("t", max_wait_ms=0)) is not None
    assert broker.ask(fetch("t", max_wait_ms=500, min_bytes=0)) is not None
    assert broker.ask(FetchRequest(max_wait_ms=500, min_bytes=1), version=12) is not None


def test_an_error_does_not_wait_but_a_missing_partition_does(broker: Broker) -> None:
    broker.produce("t", 1, batch("a"))
    assert broker.ask(fetch_all("t", {0: 0, 1: 9}, max_wait_ms=500)) is not None
    assert broker.ask(fetch_all("t", {0: 0, 9: 0}, max_wait_ms=500)) is None


def test_a_topic_that_is_created_anew_is_another_one_to_a_fetch_that_waits(broker: Broker) -> None:
    """The new topic has the name and not the id. Kafka: `Partition.hasConsistentTopicId`."""
    broker.create("other")
    ids = [broker.ledger.catalog.topics_by_name[name].id for name in ("t", "other")]
    topics = tuple(FetchRequestTopic(topic_id=one, partitions=(FetchRequestPartition(0),)) for one in ids)
    assert broker.ask(FetchRequest(max_wait_ms=500, min_bytes=1, topics=topics), ticket=7, version=13) is None
    broker.delete("t")
    assert broker.replies() == [], "there is still something to wait for"
    broker.create("t")
    broker.produce("t", 0, batch("new"))
    broker.produce("other", 0, batch("awaited"))
    ((_, answer),) = broker.replies()
    (gone,), (there,) = (topic.partitions for topic in answer.responses)
    assert (gone.error_code, gone.records) == (ErrorCode.INCONSISTENT_TOPIC_ID, b"")
    assert read_values(there.records) == ["awaited"]


SIZE = len(batch("a" * 30))


class Happenings:
    """What may happen to the records of "t" while a fetch waits for them."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.producer: tuple[int, int] | None = None  # with an open transaction

    def append(self) -> None:
        self.broker.produce("t", 0, batch("a" * 30))

    def append_in_transaction(self) -> None:
        if self.producer is None:
            self.producer = self.broker.producer("x")
            self.broker.produce("t", 0, transactional_batch(self.producer, "b" * 30), txn="x")

    def end_transaction(self) -> None:
        if self.producer is not None:
            self.broker.ask(EndTxnRequest("x", *self.producer, committed=True))
            self.producer = None

    def delete_records(self) -> None:
        self.broker.ask(delete_records("t", {0: -1}))

    def delete(self) -> None:
        self.broker.delete("t")


@given(
    acts=st.lists(st.sampled_from([name for name in vars(Happenings) if not name.startswith("_")]), max_size=6),
    level=st.integers(0, 1),
    min_bytes=st.sampled_from([1, SIZE, SIZE + 1, 2 * SIZE, 2 * SIZE + 1, 300, 10_000]),
)
@settings(max_examples=200)
@example(acts=["append_in_transaction", "end_transaction"], level=1, min_bytes=10_000)
@example(acts=["append_in_transaction", "end_transaction", "append", "append"], level=1, min_bytes=300)
def test_a_fetch_that_waits_gets_what_one_gets_that_does_not(acts: list[str], level: int, min_bytes: int) -> None:
    """As soon as that is enough, or an error; and in the end in any case."""
    broker = Broker(topics={"t": 1})
    broker.produce("t", 0, batch("before"))
    asked, happenings = fetch("t", 0, 1, min_bytes=min_bytes, isolation_level=level), Happenings(broker)
    assert broker.ask(replace(asked, max_wait_ms=500), ticket=7) is None
    for act in acts:
        getattr(happenings, act)()
        found = broker.ask(asked, ticket=8)
        (data,) = found.responses[0].partitions
        replies = broker.replies()
        assert bool(replies) == (data.error_code != ErrorCode.NONE or len(data.records) >= min_bytes)
        if replies:
            assert replies == [(7, found)]
            return
    broker.real_ms += 650
    assert broker.replies() == [(7, broker.ask(asked, ticket=8))]


def test_who_has_left_is_not_answered(broker: Broker) -> None:
    for ticket in range(1000):
        broker.ask(fetch("t", max_wait_ms=10**9), ticket=ticket)
        broker.plane.forget(ticket)
    broker.produce("t", 0, batch("a"))
    assert broker.replies() == []
    assert broker.plane.next_poll_ms() is None
    assert len(broker.plane._state.polls._deadlines) < 100  # what left early leaves nothing behind


def test_the_coordinators_own_log_can_be_read(broker: Broker) -> None:
    index = broker.node.world.partitions.owner("g").index
    data = broker.fetch("__consumer_offsets", index)
    assert (data.error_code, data.high_watermark, data.records) == (0, 0, b"")
    assert broker.ask(fetch("__consumer_offsets", index, max_wait_ms=500), ticket=7) is None
    broker.ask(commit("g", {"t": {0: 7}}), version=9)
    ((_, answer),) = broker.replies()
    ((at, header),) = record_batch.batches(data := answer.responses[0].partitions[0].records)
    (record,) = record_batch.read(data, at, header, Meter())
    assert records.decode(record.key, record.value).key == records.OffsetCommitKey("g", "t", 0)


# -- sessions --------------------------------------------------------------------------------------------------------------


class Consumer:
    """A consumer with a fetch session, as KIP-227 has it."""

    def __init__(self, broker: Broker) -> None:
        self.broker, self.session, self.epoch = broker, 0, 0

    def fetch(self, *partitions: tuple[int, int], forget: tuple[int, ...] = (), **fields: Any) -> Any:
        from protocol.messages.fetch import FetchRequestForgottenTopic

        asked = tuple(FetchRequestPartition(p, fetch_offset=o, partition_max_bytes=10**6) for p, o in partitions)
        topics = (FetchRequestTopic("t", partitions=asked),) if asked else ()
        gone = (FetchRequestForgottenTopic("t", partitions=forget),) if forget else ()
        request = FetchRequest(
            session_id=self.session, session_epoch=self.epoch, topics=topics, forgotten_topics_data=gone, **fields
        )
        answer = self.broker.ask(request)
        if answer.session_id:
            self.session, self.epoch = answer.session_id, self.epoch + 1
        return answer

    @staticmethod
    def heard(answer: Any) -> dict[int, list[str]]:
        found = [data for topic in answer.responses for data in topic.partitions]
        return {data.partition_index: read_values(data.records) for data in found}


def test_a_session_tells_only_what_is_new(broker: Broker) -> None:
    consumer = Consumer(broker)
    assert consumer.heard(consumer.fetch((0, 0), (1, 0))) == {0: [], 1: []}
    assert consumer.session > 0
    assert consumer.heard(consumer.fetch()) == {}
    broker.produce("t", 1, batch("a"))
    assert consumer.heard(consumer.fetch()) == {1: ["a"]}
    assert consumer.heard(consumer.fetch((1, 1))) == {}
    broker.produce("t", 0, batch("b"))
    assert consumer.heard(consumer.fetch(forget=(0,))) == {}
    assert consumer.heard(consumer.fetch((0, 0))) == {0: ["b"]}


def test_a_session_tells_of_an_error_again_and_of_its_end(broker: Broker) -> None:
    consumer = Consumer(broker)
    broker.produce("t", 0, batch("a"))
    consumer.fetch((0, 0))
    for _ in range(2):
        answer = consumer.fetch((0, 99))
        assert answer.responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert consumer.heard(consumer.fetch((0, 1))) == {0: []}
    assert consumer.heard(consumer.fetch()) == {}


def test_topics_that_a_client_may_not_read_come_last(broker: Broker) -> None:
    """And in their own order, as by Kafka."""
    names = ("a", "t", "b", "c")
    for topic in ("a", "b", "c"):
        broker.create(topic)
    topics = tuple(FetchRequestTopic(name, partitions=(FetchRequestPartition(0),)) for name in names)
    request = FetchRequest(topics=topics)
    rights: Any = SimpleNamespace(may=lambda operation, kind, name: name in "tc")
    answer = response_of(broker.plane.handle(request, replace(call(request, 7, 12), rights=rights), NODES))
    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    found = [(topic.topic, topic.partitions[0].error_code) for topic in answer.responses]
    assert found == [("t", 0), ("c", 0), ("a", denied), ("b", denied)]


def test_who_was_served_last_is_served_first_no_more(broker: Broker) -> None:
    consumer = Consumer(broker)
    consumer.fetch((0, 0), (1, 0))
    for partition in (0, 1):
        broker.produce("t", partition, batch(str(partition) * 1000))
    heard = [list(consumer.heard(consumer.fetch(max_bytes=1100))) for _ in range(3)]
    assert [one[0] for one in heard] == [0, 1, 0]


def test_a_session_by_names_does_not_go_on_by_ids(broker: Broker) -> None:
    consumer = Consumer(broker)
    consumer.fetch((0, 0))
    answer = broker.ask(FetchRequest(session_id=consumer.session, session_epoch=1), version=17)
    assert (answer.error_code, answer.session_id) == (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, 0)


def test_there_are_as_many_sessions_as_the_setting_says() -> None:
    broker = Broker(max_incremental_fetch_session_cache_slots=2)
    broker.create("t", partitions=2)
    consumers = [Consumer(broker) for _ in range(3)]
    for consumer in consumers:
        consumer.fetch((0, 0))
    assert [one.session > 0 for one in consumers] == [True, True, False]
    assert [one.fetch().error_code for one in consumers[:2]] == [0, 0]
    without = Broker(max_incremental_fetch_session_cache_slots=0)
    without.create("t")
    assert without.ask(fetch("t", session_epoch=0), version=12).session_id == 0


def test_a_new_session_evicts_one_that_was_not_used_for_two_minutes() -> None:
    broker = Broker(max_incremental_fetch_session_cache_slots=2)
    broker.create("t")
    idle, busy, new = [Consumer(broker) for _ in range(3)]
    idle.fetch((0, 0))
    busy.fetch((0, 0))
    broker.real_ms = sessions.EVICTION_MS
    busy.fetch()
    assert new.fetch((0, 0)).session_id == 0, "both were used within two minutes"
    broker.real_ms += 1
    assert new.fetch((0, 0)).session_id > 0
    assert idle.fetch().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert busy.fetch().error_code == 0


def test_a_new_session_evicts_the_smallest_old_one_if_it_is_larger() -> None:
    broker = Broker(max_incremental_fetch_session_cache_slots=3)
    broker.create("t")
    small, large, young, new = [Consumer(broker) for _ in range(4)]
    small.fetch((0, 0), (1, 0))
    large.fetch((0, 0), (1, 0), (2, 0))
    broker.real_ms = sessions.EVICTION_MS
    young.fetch((0, 0))
    broker.real_ms += 1
    for consumer in (small, large, young):
        consumer.fetch()
    assert new.fetch((0, 0), (1, 0)).session_id == 0
    assert new.fetch((0, 0), (1, 0), (2, 0)).session_id > 0
    assert small.fetch().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert [one.fetch().error_code for one in (large, young)] == [0, 0]
    large.fetch(forget=(0, 1))
    other = Consumer(broker)
    assert other.fetch((0, 0), (1, 0)).session_id > 0, "the large one is the smallest now"
    assert large.fetch().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert list(broker.plane._state.sessions._evictable) == []


def test_sessions_do_not_grow_without_a_bound(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions need not exist. Sessions that may be evicted give way; then the one that grows is over itself."""
    monkeypatch.setattr(sessions, "SESSIONS_PARTITIONS_MAX", 6)
    consumers = [Consumer(broker) for _ in range(3)]
    for consumer in consumers:
        consumer.fetch((0, 0), (1, 0))
    assert Consumer(broker).fetch((0, 0)).session_id == 0
    broker.real_ms = sessions.EVICTION_MS + 1
    assert [consumers[i].fetch().error_code for i in (0, 2)] == [0, 0]
    assert consumers[0].fetch((7, 0)).error_code == 0
    assert consumers[1].fetch().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert consumers[0].fetch((8, 0), (9, 0)).error_code == 0
    assert consumers[2].fetch().error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert consumers[0].fetch((10, 0)).error_code == 0
    assert consumers[0].fetch((11, 0)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(broker.plane._state.sessions) == 0
    assert broker.plane._state.sessions._partitions == 0
    assert broker.plane._state.sessions._evictable == {}


def test_a_session_has_no_more_partitions_than_one_step_can_read(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each fetch reads all of them, however short it is."""
    monkeypatch.setattr(sessions, "SESSION_PARTITIONS_MAX", 3)
    grows, large = Consumer(broker), Consumer(broker)
    assert large.fetch(*[(number, 0) for number in range(4)]).session_id == 0
    grows.fetch((0, 0), (1, 0), (2, 0))
    assert grows.fetch((3, 0), forget=(0,)).error_code == 0
    assert grows.fetch((4, 0)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(broker.plane._state.sessions) == 0


def test_of_too_many_partitions_that_are_waited_for_the_largest_fetch_is_answered_early(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_polls, "PARTITIONS_MAX", 10)
    polls = broker.plane._state.polls

    def wait(ticket: int, count: int) -> list[int]:
        request = fetch_all("t", dict.fromkeys(range(count), 0), max_wait_ms=1000)
        assert broker.ask(request, ticket) is None
        return [ticket for ticket, _ in broker.replies()]

    assert [wait(1, 4), wait(2, 6), wait(3, 1), wait(4, 7), wait(5, 1)] == [[], [], [2], [4], []]
    assert polls._partitions == 6
    broker.real_ms = 2000
    assert sorted(ticket for ticket, _ in broker.replies()) == [1, 3, 5]
    assert (polls._partitions, polls._by_deadline, polls._by_partition) == (0, {}, {})


def test_a_session_that_grows_is_closed_rather_than_one_that_was_used_just_now(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "SESSIONS_PARTITIONS_MAX", 3)
    grows, other = Consumer(broker), Consumer(broker)
    grows.fetch((0, 0), (1, 0))
    other.fetch((0, 0))
    assert grows.fetch((2, 0)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert other.fetch().error_code == 0
    assert broker.plane._state.sessions._partitions == 1


def test_a_session_remembers_no_name_that_is_longer_than_any_topics(broker: Broker) -> None:
    def ask(name: str, session_id: int = 0, epoch: int = 0) -> Any:
        one = FetchRequestTopic(name, partitions=(FetchRequestPartition(0),))
        return broker.ask(FetchRequest(session_id=session_id, session_epoch=epoch, topics=(one,)))

    assert ask("x" * 250).session_id == 0
    session_id = ask("x" * 249).session_id
    assert session_id > 0
    assert ask("x" * 250, session_id, 1).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(broker.plane._state.sessions) == 0


def test_a_session_by_ids_finds_the_topic_that_comes_later(broker: Broker) -> None:
    topic_id = b"later-topic-id!!"
    one = FetchRequestTopic(topic_id=topic_id, partitions=(FetchRequestPartition(0, partition_max_bytes=10**6),))
    answer = broker.ask(FetchRequest(session_epoch=0, topics=(one,)), version=17)
    assert answer.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    broker.node.engine.record(Result(records=(CatalogRecord(TopicKey("later"), TopicValue(topic_id, 1, 1)),)), NOW)
    broker.produce("later", 0, batch("a"))
    again = broker.ask(FetchRequest(session_id=answer.session_id, session_epoch=1), version=17)
    assert read_values(again.responses[0].partitions[0].records) == ["a"]
