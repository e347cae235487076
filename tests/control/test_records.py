"""An operator sees, frees, settles and counts again what members of share groups have acquired."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from coordinator.control.deliveries import find_deliveries
from coordinator.control.faults import Action, FaultSpec, Match
from coordinator.control.journal import Filter, Journal
from coordinator.control.lint import lint
from coordinator.control.share_lint import find_late_members
from coordinator.core.share_partitions.operate import RecordAction
from coordinator.core.share_state.values import StateBatch, StateKey, StateUpdate
from coordinator.dataplane.share.operating import SharePartitionView
from coordinator.server.verbs.clock import keep_everybody, keep_nobody
from coordinator.server.verbs.queues import Queue as SeededQueue
from coordinator.server.verbs.queues import QueueRecords
from coordinator.server.verbs.records import STATES
from coordinator.server.verbs.refusal import Refusal
from coordinator.server.verbs.state import State
from protocol import record_batch
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
)
from protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.share_acknowledge import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeRequestAcknowledgementBatch,
    ShareAcknowledgeRequestPartition,
    ShareAcknowledgeRequestTopic,
    ShareAcknowledgeResponse,
)
from protocol.messages.share_fetch import (
    ShareFetchRequest,
    ShareFetchRequestAcknowledgementBatch,
    ShareFetchRequestPartition,
    ShareFetchRequestTopic,
    ShareFetchResponse,
    ShareFetchResponseAcquiredRecords,
    ShareFetchResponsePartition,
    ShareFetchResponseTopic,
)
from protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from protocol.records import Record
from tests.control.frames import note
from tests.control.steered import SteeredNode, stable_group
from tests.requests import create_topics, produce

GROUP, TOPIC = "mail", "letters"
EXPIRE, RELEASE, ACCEPT, REJECT = RecordAction.EXPIRE, RecordAction.RELEASE, RecordAction.ACCEPT, RecordAction.REJECT


class Queue:
    """A topic with ten records, and a member of a share group that fetches them."""

    def __init__(self, **settings: Any) -> None:
        self.server = SteeredNode(**settings)
        self.server.operator.clock.set_rate(0)
        self.peer = self.server.connect("worker")
        self.peer.ask(create_topics({TOPIC: 1}), 7)
        batch = record_batch.encode([Record(None, b"%d" % n, timestamp=self.server.clock.now_ms()) for n in range(10)])
        self.peer.ask(produce(TOPIC, {0: batch}), 12)
        self.topic_id = self.server.node.world.ledger.catalog.topics_by_name[TOPIC].id
        self.server.node.engine.share_states.initialize(
            StateKey(GROUP, self.topic_id, 0), 1, 0, self.server.clock.now_ms()
        )
        self.epoch = 0

    def fetch(self) -> list[tuple[int, int, int]]:
        """Return what the member acquires now: first offset, last offset, deliveries."""
        topics = (ShareFetchRequestTopic(self.topic_id, (ShareFetchRequestPartition(0),)),)
        request = ShareFetchRequest(
            GROUP, "m", self.epoch, max_wait_ms=0, min_bytes=0, max_records=100, batch_size=100, topics=topics
        )
        answer = self.peer.ask(request, 2)
        assert not answer.error_code
        self.epoch += 1
        parts = [one for topic in answer.responses for one in topic.partitions]
        return [(run.first_offset, run.last_offset, run.delivery_count) for run in parts[0].acquired_records]

    def acknowledge(self, first: int, last: int, kind: int) -> int:
        """Acknowledge records, and return the error."""
        batch = ShareAcknowledgeRequestAcknowledgementBatch(first, last, (kind,))
        topics = (ShareAcknowledgeRequestTopic(self.topic_id, (ShareAcknowledgeRequestPartition(0, (batch,)),)),)
        answer = self.peer.ask(ShareAcknowledgeRequest(GROUP, "m", self.epoch, topics=topics), 2)
        self.epoch += 1
        error: int = answer.responses[0].partitions[0].error_code
        return error

    def change(self, first: int, last: int, do: RecordAction | None, deliveries: int | None = None) -> "Window":
        """Have the operator do something to records."""
        change = self.server.operator.records.change
        return Window.of(change(GROUP, TOPIC, 0, (first, last), do, deliveries))

    @property
    def window(self) -> "Window":
        """What is in flight."""
        (view,) = self.server.operator.records.view(GROUP, TOPIC)
        return Window.of(view)

    @property
    def told(self) -> list[tuple[str, str, str]]:
        """What the timeline says of records: cause, who did it, which."""
        events = [event for event in self.server.events if event.records]
        return [(event.cause.value, event.by, event.records) for event in events]


class Window(Struct, frozen=True):
    """A share partition in short: where it starts, and its records by state, deliveries and whether they are locked."""

    start: int
    records: list[tuple[int, int, str, int]]

    @classmethod
    def of(cls, view: SharePartitionView) -> "Window":
        return cls(view.start, [(one.first, one.last, one.state, one.deliveries) for one in view.records])


@pytest.fixture
def queue() -> Queue:
    return Queue()


def test_what_a_member_has_is_seen_with_its_lock(queue: Queue) -> None:
    assert queue.server.operator.records.view(GROUP) == []
    assert queue.fetch() == [(0, 9, 1)]
    (view,) = queue.server.operator.records.view(GROUP)
    assert (view.topic, view.partition, view.start, view.end) == (TOPIC, 0, 0, 10)
    (run,) = view.records
    assert (run.member, run.locked_until_ms) == ("m", queue.server.clock.now_ms() + 30_000)


def test_a_lock_that_is_ended_gives_its_records_again(queue: Queue) -> None:
    queue.fetch()
    assert queue.change(3, 4, EXPIRE).records == [
        (0, 2, "acquired", 1), (3, 4, "available", 1), (5, 9, "acquired", 1),
    ]  # fmt: skip
    assert queue.told == [("lock_expired", "timer lock", "letters-0 3-4, delivered 1 time")]
    assert queue.fetch() == [(3, 4, 2)]
    tally = queue.server.node.world.dataplane.share.tally
    assert (tally.acquired, tally.redelivered, tally.expired, tally.released) == (12, 2, 2, 0)


def test_a_step_goes_to_the_first_of_all_deadlines_whatever_has_it(queue: Queue) -> None:
    """A lock, a transaction, a session: those that the clock lists are those that it stops at."""
    clock, server = queue.server.operator.clock, queue.server
    queue.fetch()
    clock.advance(7, keep_everybody)
    init = InitProducerIdRequest("tx", transaction_timeout_ms=20_000)
    (producer,) = (server.connect("producer").ask(init, 4),)
    begin = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="tx", v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.producer_epoch,
        v3_and_below_topics=(AddPartitionsToTxnRequestTopic(TOPIC, (0,)),),
    )  # fmt: skip
    server.connect("producer").ask(begin, 3)
    clock.advance(3, keep_everybody)
    stable_group(server, "a")
    kinds = set[str]()
    for _ in range(8):
        listed = clock.state().deadlines
        first_ms = min(one.at_ms for one in listed)
        moved = clock.step(keep_nobody)
        assert moved.now_ms == first_ms, f"it passes by {listed[0]}"
        kinds |= {one.kind for one in moved.fired}
    assert {"transaction", "lock", "session"} <= kinds


def test_a_clock_that_is_moved_past_a_lock_says_so(queue: Queue) -> None:
    queue.fetch()
    moved = queue.server.operator.clock.advance(30_000, keep_everybody)
    assert [(one.kind, one.group, one.member) for one in moved.fired] == [("lock", GROUP, "letters-0")]
    assert queue.window.records == [(0, 9, "available", 1)]
    assert queue.told == [("lock_expired", "timer lock", "letters-0 0-9, delivered 1 time")]


def test_records_are_settled_for_a_member(queue: Queue) -> None:
    queue.fetch()
    assert queue.change(0, 1, ACCEPT).start == 2
    assert queue.change(5, 5, REJECT).records == [
        (2, 4, "acquired", 1), (5, 5, "archived", 1), (6, 9, "acquired", 1),
    ]  # fmt: skip
    assert queue.told == [("records_archived", "operator", "letters-0 5, delivered 1 time")]
    assert queue.acknowledge(5, 5, 1) == 121, "INVALID_RECORD_STATE: the member has it no longer"
    assert queue.acknowledge(2, 4, 1) == 0


def test_the_number_of_deliveries_brings_a_record_to_its_end(queue: Queue) -> None:
    queue.fetch()
    assert queue.change(7, 7, None, deliveries=5).records[1] == (7, 7, "acquired", 5)
    assert queue.acknowledge(6, 7, 2) == 0, "released"
    assert queue.window.records == [
        (0, 5, "acquired", 1), (6, 6, "available", 1), (7, 7, "archived", 5), (8, 9, "acquired", 1),
    ]  # fmt: skip
    assert queue.told == [
        ("records_released", "ShareAcknowledge", "letters-0 6, delivered 1 time"),
        ("records_archived", "ShareAcknowledge", "letters-0 7, delivered 5 times"),
    ]


@pytest.mark.parametrize("is_last", [False, True], ids=["", "the last delivery"])
@pytest.mark.parametrize("how", ["lock", "operator", "release", "close", "disconnect"])
def test_what_is_told_of_records_that_come_back_is_what_becomes_of_them(queue: Queue, how: str, is_last: bool) -> None:
    """They are archived after the last delivery, and else available again, however their member has lost them."""
    queue.fetch()
    if is_last:
        queue.change(0, 9, None, deliveries=5)
    match how:
        case "lock":
            queue.server.operator.clock.advance(30_000, keep_everybody)
        case "operator":
            queue.change(0, 9, EXPIRE)
        case "release":
            assert queue.acknowledge(0, 9, 2) == 0
        case "close":
            queue.peer.ask(ShareAcknowledgeRequest(GROUP, "m", -1), 2)
        case "disconnect":
            queue.server.frontend.disconnect(queue.peer.connection)
    queue.server.rest()
    ((cause, _, records),) = queue.told
    expected = "records_archived" if is_last else "lock_expired" if how in ("lock", "operator") else "records_released"
    assert (cause, records) == (expected, f"letters-0 0-9, delivered {'5 times' if is_last else '1 time'}")


@pytest.mark.parametrize("do", list(RecordAction))
@pytest.mark.parametrize("deliveries", [1, 4, 5, 6])
def test_a_number_of_deliveries_counts_before_what_is_done_with_it(do: RecordAction, deliveries: int) -> None:
    """As two changes one after the other; the fifth delivery is the last."""
    both, one_by_one = Queue(), Queue()
    for queue in (both, one_by_one):
        queue.fetch()
    one_by_one.change(3, 4, None, deliveries=deliveries)
    assert both.change(3, 4, do, deliveries=deliveries) == one_by_one.change(3, 4, do)


def test_what_is_changed_survives_a_restart(queue: Queue) -> None:
    queue.fetch()
    queue.change(0, 3, ACCEPT)
    queue.change(6, 6, REJECT)
    queue.change(8, 8, RELEASE, deliveries=3)
    state = queue.server.node.engine.share_states.read(
        StateKey(GROUP, queue.topic_id, 0), 0, queue.server.clock.now_ms()
    )
    assert [(one.first_offset, one.last_offset, one.delivery_state, one.delivery_count) for one in state.batches] == [
        (6, 6, 4, 1), (8, 8, 0, 3),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("first", "last", "do", "sentence"),
    [
        (10, 20, EXPIRE, "no record from 10 to 20 is in flight: 2 to 9 are"),
        (0, 1, REJECT, "no record from 0 to 1 is in flight: 2 to 9 are"),
        (5, 5, EXPIRE, "no member has acquired a record from 5 to 5"),
        (6, 6, ACCEPT, "the records from 6 to 6 are acknowledged or archived"),
    ],
)
def test_what_cannot_be_done_changes_nothing(
    queue: Queue, first: int, last: int, do: RecordAction, sentence: str
) -> None:
    queue.fetch()
    queue.change(0, 1, ACCEPT)
    queue.change(5, 5, RELEASE)
    queue.change(6, 6, REJECT)
    before = queue.window
    with pytest.raises(Refusal) as refused:
        queue.change(first, last, do)
    assert (str(refused.value), queue.window) == (sentence, before)


def test_a_topic_or_partition_that_nobody_reads_is_refused(queue: Queue) -> None:
    for topic, partition in (("none", 0), (TOPIC, 0), (TOPIC, 7)):
        with pytest.raises(Refusal, match=r"^there is no "):
            queue.server.operator.records.change(GROUP, topic, partition, (0, 0), EXPIRE, None)


def test_acquisitions_are_held_and_let_go(queue: Queue) -> None:
    queue.server.operator.requests.hold(GROUP, "acquire")
    topics = (ShareFetchRequestTopic(queue.topic_id, (ShareFetchRequestPartition(0),)),)
    asked = ShareFetchRequest(GROUP, "m", 0, max_wait_ms=0, max_records=9, batch_size=9, topics=topics)
    queue.peer.send((asked, 2))
    assert queue.server.operator.records.view(GROUP) == []
    queue.server.operator.requests.release(GROUP)
    assert queue.window.records == [(0, 9, "acquired", 1)]


def test_share_fetches_and_acknowledgements_meet_faults(queue: Queue) -> None:
    for api in ("ShareFetch", "ShareAcknowledge"):
        on = Match(api=api, group=GROUP, topic=TOPIC, client="worker")
        queue.server.operator.requests.add_fault(FaultSpec(Action(error="COORDINATOR_NOT_AVAILABLE"), on, count=1))
    topics = (ShareFetchRequestTopic(queue.topic_id, (ShareFetchRequestPartition(0),)),)
    answer = queue.peer.ask(ShareFetchRequest(GROUP, "m", 0, max_records=9, batch_size=9, topics=topics), 2)
    assert answer.error_code == 15
    assert queue.fetch() == [(0, 9, 1)]


def rules(queue: Queue) -> list[tuple[str, str, str]]:
    journal = queue.server.operator.requests.journal
    return [(one.rule, one.client, one.evidence) for one in lint(entry for entry, _ in journal.entries(Filter()))]


def test_locks_that_end_again_and_again_are_found(queue: Queue) -> None:
    queue.server.operator.requests.set_journal(1_000_000)
    queue.fetch()
    queue.server.operator.clock.advance(30_000, keep_everybody)
    queue.fetch()
    assert rules(queue) == [], "once may happen to anybody"
    queue.server.operator.clock.advance(30_000, keep_everybody)
    queue.fetch()
    evidence = "1 time, got records again that the client had, and gave back to nobody"
    assert rules(queue) == [("locks_expire", "worker", evidence)]


@given(st.lists(st.booleans(), max_size=4))
@settings(max_examples=30)
def test_each_lock_that_ends_counts_once(releases: list[bool]) -> None:
    """From the third delivery on, and only where the member has not given the records back."""
    queue = Queue(group_share_delivery_count_limit=10)
    queue.server.operator.requests.set_journal(1_000_000)
    queue.fetch()
    for is_released in releases:
        if is_released:
            assert queue.acknowledge(0, 9, 2) == 0
        else:
            queue.server.operator.clock.advance(30_000, keep_everybody)
        assert queue.fetch() == [(0, 9, queue.window.records[0][3])]
    count = sum(not is_released for is_released in releases[1:])
    times = f"{count} time{'' if count == 1 else 's'}"
    assert rules(queue) == [
        ("locks_expire", "worker", f"{times}, got records again that the client had, and gave back to nobody")
    ] * (count > 0)


RENEWS, RELEASES, RECORDS = 4, 2, 5


@given(
    st.lists(
        st.tuples(
            st.sets(st.integers(1, RECORDS - 1)),  # where one run of records ends and the next one begins
            st.one_of(
                st.just([RELEASES] * RECORDS),
                st.lists(st.sampled_from([RELEASES, RENEWS]), min_size=RECORDS, max_size=RECORDS),
            ),
            st.sampled_from(["nothing", "one type for all", "one for each", "one for each"]),
            st.sampled_from("ab"),
        ),
        min_size=2,
        max_size=5,
    ),
    st.booleans(),
)
@settings(max_examples=500)
def test_whoever_releases_records_is_blamed_for_none_of_them(
    rounds: list[tuple[set[int], list[int], str, str]], fetches: bool
) -> None:
    """All records come again and again, in runs, to one client or another, which releases some; the locks of the others
    end, and whoever had them last is blamed, once for each run in which some of them come again."""
    journal, topic_id = Journal(), b"t" * 16
    blamed, holders = Counter[str](), [""] * RECORDS
    for number, (cuts, types, way, client) in enumerate(rounds, 1):
        runs = [(first, end - 1) for first, end in pairwise((0, *sorted(cuts), RECORDS))]
        for first, last in runs:
            acquired = (ShareFetchResponseAcquiredRecords(first, last, number),)
            data = ShareFetchResponsePartition(0, acquired_records=acquired)
            answer = ShareFetchResponse(responses=(ShareFetchResponseTopic(topic_id, (data,)),))
            note(journal, "ShareFetch", 2, ShareFetchRequest(GROUP, "m", 1), answer, client=client)
            if number >= 3:
                blamed.update(set(holders[first : last + 1]) - {""})
        holders = [client] * RECORDS
        for first, last in () if way == "nothing" else runs:
            told = types[first : last + 1] if way == "one for each" else types[first : first + 1]
            for at in range(first, last + 1):
                if (told * RECORDS)[at - first] == RELEASES:
                    holders[at] = ""
            if fetches:
                batch = ShareFetchRequestAcknowledgementBatch(first, last, tuple(told))
                asked = (ShareFetchRequestTopic(topic_id, (ShareFetchRequestPartition(0, (batch,)),)),)
                note(
                    journal,
                    "ShareFetch",
                    2,
                    ShareFetchRequest(GROUP, "m", 1, topics=asked),
                    ShareFetchResponse(),
                    client=client,
                )
            else:
                given_back = ShareAcknowledgeRequestAcknowledgementBatch(first, last, tuple(told))
                topics = (
                    ShareAcknowledgeRequestTopic(topic_id, (ShareAcknowledgeRequestPartition(0, (given_back,)),)),
                )
                request = ShareAcknowledgeRequest(GROUP, "m", 1, topics=topics)
                note(journal, "ShareAcknowledge", 2, request, ShareAcknowledgeResponse(), client=client)
    found = {
        one.client: one.evidence.partition(",")[0]
        for one in find_late_members(entry for entry, _ in journal.entries(Filter()))
    }
    assert found == {one: f"{times} time{'' if times == 1 else 's'}" for one, times in blamed.items()}


PLACES = [(group, topic, index) for group in ("mail", "post") for topic in (b"t" * 16, b"u" * 16) for index in (0, 1)]
DELIVERED = st.tuples(
    st.sampled_from(PLACES), st.integers(0, 3), st.integers(0, 2), st.sampled_from("ab"), st.booleans()
)


def note_delivery(journal: Journal, parts: Any, count: int, client: str) -> None:
    """Note a ShareFetch by which a client has got runs of records of several partitions of a group."""
    (group,) = {group for (group, *_), _ in parts}
    topics: dict[bytes, list[ShareFetchResponsePartition]] = {}
    for (_, topic, index), runs in parts:
        acquired = tuple(ShareFetchResponseAcquiredRecords(first, last, count) for first, last in runs)
        topics.setdefault(topic, []).append(ShareFetchResponsePartition(index, acquired_records=acquired))
    answer = ShareFetchResponse(responses=tuple(ShareFetchResponseTopic(*one) for one in ((t, tuple(p)) for t, p in topics.items())))  # fmt: skip
    note(journal, "ShareFetch", 2, ShareFetchRequest(group, f"{client}-id", 1), answer, client=client)


@given(st.lists(DELIVERED, max_size=8), st.sampled_from(PLACES), st.integers(0, 5))
def test_deliveries_and_who_keeps_records_are_told_for_each_partition_by_itself(
    delivered: list[Any], place: Any, offset: int
) -> None:
    """Each fetch has runs of two partitions of its group; records have come three times from the start."""
    journal, holders, blamed, expected = Journal(), dict[Any, str](), Counter[tuple[str, str]](), []
    for number, ((group, topic, index), first, more, client, is_first) in enumerate(delivered, 1):
        own, other = [(first, first + more), (first + 4, first + 4)], [(0, first)]
        neighbour = (group, topic, 1 - index)
        parts = [((group, topic, index), own), (neighbour, other)]
        note_delivery(journal, parts if is_first else parts[::-1], 3, client)
        for where, runs in parts if is_first else parts[::-1]:
            for low, high in runs:
                offsets = range(low, high + 1)
                blamed.update({(where[0], holders[where, at]) for at in offsets if (where, at) in holders})
                holders |= {(where, at): client for at in offsets}
                if where == place and low <= offset <= high:
                    expected.append((number, client, f"{client}-id", 3))
    entries = [entry for entry, _ in journal.entries(Filter(group=place[0]))]
    found = find_deliveries(entries, place[1], place[2], offset)
    assert [(one.number, one.client, one.member, one.count) for one in found] == expected
    late = {(one.group, one.client): int(one.evidence.split()[0]) for one in find_late_members(journal.after(0))}
    assert late == dict(blamed)


def test_records_that_are_released_are_no_finding(queue: Queue) -> None:
    queue.server.operator.requests.set_journal(1_000_000)
    for _ in range(4):
        for first, last, _ in queue.fetch():
            assert queue.acknowledge(first, last, 2) == 0
    assert queue.window.records[0][3] >= 3, "records were delivered three times"
    assert rules(queue) == []


def test_a_late_acknowledgement_is_found(queue: Queue) -> None:
    queue.server.operator.requests.set_journal(1_000_000)
    queue.fetch()
    queue.server.operator.clock.advance(30_000, keep_everybody)
    assert queue.acknowledge(0, 9, 1) == 121
    evidence = "1 time, acknowledged records that the member had no longer"
    assert rules(queue) == [("late_acknowledgement", "worker", evidence)]


def test_a_queue_is_seeded_half_processed_and_read_back(queue: Queue) -> None:
    seeded = seeded_queue(start=2, records=[(3, 3, "archived", 5), (4, 5, "available", 2), (6, 6, "acknowledged", 1)])
    state = State(queues={GROUP: {TOPIC: {"0": seeded}}})
    queue.server.operator.state.seed(state)
    assert queue.server.operator.state.contents().queues == state.queues
    assert queue.fetch() == [(2, 2, 1), (4, 5, 3), (7, 9, 1)]
    queue.server.operator.state.take_snapshot("half")
    queue.change(2, 2, ACCEPT)
    queue.server.operator.state.restore("half")
    assert queue.server.operator.state.contents().queues == state.queues


def test_what_a_member_finds_after_it_joins_is_what_was_seeded(queue: Queue) -> None:
    queue.server.operator.state.seed(State(queues={"other": {TOPIC: {"0": seeded_queue(start=7)}}}))
    with_member = ShareGroupHeartbeatRequest("other", "A" * 22, 0, subscribed_topic_names=(TOPIC,))
    assert queue.peer.ask(with_member, 1).error_code == 0
    assert queue.server.operator.state.contents("other").queues == {"other": {TOPIC: {"0": seeded_queue(start=7)}}}


class Sharer:
    """A member of a share group that reads a topic of 40 partitions, at a server whose steps are turns of their own."""

    def __init__(self) -> None:
        self.server = SteeredNode(topics={"wide": 40}, virtual_brokers=2)
        self.server.operator.state.seed(State(queues={"g": {"wide": {"7": seeded_queue(start=3)}}}))
        self.server.frontend.turn.seconds = 0.0
        coordinator = self.server.operator.brokers.coordinator("g")
        self.peer = self.server.connect("worker", broker=coordinator.broker or 0)
        self.epoch = 0

    def beat(self) -> int:
        """Send a heartbeat, or join again if the member was told that it is none."""
        asked = ShareGroupHeartbeatRequest("g", "A" * 22, self.epoch, subscribed_topic_names=("wide",))
        answer = self.peer.ask(asked, 1)
        self.epoch = 0 if answer.error_code else answer.member_epoch
        code: int = answer.error_code
        return code

    @property
    def states(self) -> list[int]:
        return [key.partition for key, _ in self.server.node.engine.share_states.states()]


@pytest.mark.parametrize("beats", [False, True])
def test_a_share_group_that_is_forgotten_begins_anew(beats: bool) -> None:
    """Its states go with it, also those that a heartbeat in between has begun again."""
    sharer = Sharer()
    assert sharer.beat() == 0
    sharer.server.rest()
    assert sorted(sharer.states) == list(range(40))
    steps, count = sharer.server.operator.groups.forget_in_steps("g"), 0
    for count, _ in enumerate(steps, 1):
        assert count < 100
        if beats and count <= 3:
            sharer.beat()
    assert count > 1
    assert (sharer.server.operator.groups.find("g"), sharer.states) == (None, [])
    assert sharer.server.operator.state.contents() == State({"wide": 40})
    assert sharer.server.causes().count("group_forgotten") == 1
    assert sharer.beat() == ErrorCode.GROUP_ID_NOT_FOUND
    assert sharer.beat() == ErrorCode.NONE
    sharer.server.rest()
    assert sorted(sharer.states) == list(range(40))
    assert sharer.server.operator.state.contents() == State({"wide": 40}), "nothing is read yet"


def test_a_share_group_whose_states_are_being_loaded_is_not_forgotten() -> None:
    sharer = Sharer()
    assert sharer.beat() == 0
    sharer.server.rest()
    brokers = sharer.server.operator.brokers
    away = brokers.coordinator("g").broker == 0
    before = sharer.server.operator.state.contents()
    brokers.stop(int(away), load_ms=1_000)
    with pytest.raises(Refusal, match="group 'g': states of share partitions are being loaded"):
        sharer.server.operator.groups.forget("g")
    assert sharer.server.operator.groups.find("g") is not None
    sharer.server.operator.clock.advance(1_000, keep_everybody)
    sharer.server.rest()
    assert sharer.server.operator.state.contents() == before
    sharer.server.operator.groups.forget("g")
    assert (sharer.server.operator.groups.find("g"), sharer.states) == (None, [])


@pytest.mark.parametrize(
    ("seeded", "sentence"),
    [
        ((-1, []), "invalid start -1 of letters-0: expected 0 to 9223372036854775807"),
        ((5, [(4, 6, "available", 1)]), "invalid records 4 to 6 of letters-0: expected 5 or later"),
        (
            (0, [(4, 6, "available", 1), (6, 7, "archived", 1)]),
            "invalid records 6 to 7 of letters-0: expected 7 or later",
        ),
        ((0, [(4, 6, "available", 0)]), "invalid deliveries 0 of letters-0: expected 1 to 32767"),
    ],
)
def test_a_queue_that_cannot_be_is_refused(queue: Queue, seeded: tuple[int, list[Any]], sentence: str) -> None:
    with pytest.raises(Refusal, match=f"^{sentence}$"):
        queue.server.operator.state.seed(State(queues={"other": {TOPIC: {"0": seeded_queue(*seeded)}}}))


def test_records_in_a_state_that_nobody_knows_are_left_out_of_a_queue() -> None:
    """Another tool may have written it."""
    server = SteeredNode(topics={TOPIC: 1})
    known = [(2, 3, "archived", 1)]
    server.operator.state.seed(State(queues={"g": {TOPIC: {"0": seeded_queue(0, known)}}}))
    states = server.node.engine.share_states
    ((key, state),) = states.states()
    assert states.write(key, StateUpdate(state.state_epoch, -1, batches=(StateBatch(5, 6, 9, 1),)), 0) == 0
    server.node.engine.flush()
    assert server.operator.state.contents().queues == {"g": {TOPIC: {"0": seeded_queue(0, known)}}}


@pytest.mark.parametrize(
    ("group", "topic", "index", "sentence"),
    [
        ("other", TOPIC, "1", "invalid partition '1' of 'letters': expected 0 to 0"),
        ("other", TOPIC, "-1", "invalid partition '-1' of 'letters': expected 0 to 0"),
        ("other", TOPIC, "9" * 5_000, f"invalid partition '{'9' * 5_000}' of 'letters': expected 0 to 0"),
        ("other", TOPIC, "\u0661", "invalid partition '\u0661' of 'letters': expected 0 to 0"),
        ("other", "nothing", "0", "there is no topic 'nothing'"),
        ("simple", TOPIC, "0", "share group 'simple': GROUP_ID_NOT_FOUND: it is a classic group with 0 members"),
        ("busy", TOPIC, "0", "share group 'busy': NON_EMPTY_GROUP: it is a share group with 1 members"),
    ],
)
def test_a_queue_that_nobody_could_have_is_refused(
    queue: Queue, group: str, topic: str, index: str, sentence: str
) -> None:
    """None of its other parts is made either, where the names themselves are wrong."""
    queue.server.operator.state.seed(State(offsets={"simple": {TOPIC: {"0": 1}}}))
    assert queue.peer.ask(ShareGroupHeartbeatRequest("busy", "A" * 22, 0, subscribed_topic_names=(TOPIC,)), 1).error_code == 0  # fmt: skip
    queue.server.rest()
    before = queue.server.operator.state.contents()
    seeded = {TOPIC: {"0": seeded_queue(start=7)}} if group == "other" else {}
    with pytest.raises(Refusal, match=f"^{sentence}"):
        queue.server.operator.state.seed(State(queues={group: {**seeded, topic: {index: seeded_queue(3)}}}))
    assert queue.server.operator.state.contents() == before


@pytest.mark.parametrize(
    ("group", "reason"),
    [
        ("g", "UNKNOWN_MEMBER_ID: it is a classic group with 1 members"),
        ("busy", "GROUP_ID_NOT_FOUND: it is a share group with 1 members"),
    ],
)
def test_offsets_that_no_tool_may_commit_are_refused_with_what_the_group_is(
    queue: Queue, group: str, reason: str
) -> None:
    stable_group(queue.server, "a")
    queue.peer.ask(ShareGroupHeartbeatRequest("busy", "A" * 22, 0, subscribed_topic_names=(TOPIC,)), 1)
    for partition, told in (("0", reason), ("7", "UNKNOWN_TOPIC_OR_PARTITION")):
        with pytest.raises(Refusal, match=f"^group '{group}', {TOPIC}-{partition}: {told}$"):
            queue.server.operator.state.seed(State(offsets={group: {TOPIC: {partition: 1}}}))


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(("available", "acknowledged", "archived"))), max_size=4))
@settings(max_examples=25)
def test_what_is_done_of_a_seeded_queue_is_no_lag(runs: list[tuple[int, Any]]) -> None:
    queue, records, at = Queue(), [], 2
    for more, state in runs:
        records.append((at, at + more, state, 1))
        at += more + 1
    queue.server.operator.state.seed(State(queues={"other": {TOPIC: {"0": seeded_queue(2, records)}}}))
    topics = (DescribeShareGroupOffsetsRequestTopic(TOPIC, (0,)),)
    asked = DescribeShareGroupOffsetsRequest((DescribeShareGroupOffsetsRequestGroup("other", topics),))
    ((partition,),) = [topic.partitions for topic in queue.peer.ask(asked, 1).groups[0].topics]
    done = sum(last - first + 1 for first, last, state, _ in records if state != "available")
    assert (partition.start_offset, partition.lag) == (2, 10 - 2 - done)


def test_each_record_is_in_the_state_that_is_waited_for(queue: Queue) -> None:
    """Before the window, in it, and from its end on."""
    queue.fetch()
    for first, last, do in ((0, 1, ACCEPT), (4, 4, REJECT), (5, 6, RELEASE), (8, 8, ACCEPT)):
        queue.change(first, last, do)
    produce_more = record_batch.encode([Record(None, b"", timestamp=queue.server.clock.now_ms())])
    queue.peer.ask(produce(TOPIC, {0: produce_more}), 12)
    states = (
        ["done"] * 2 + ["acquired"] * 2 + ["archived"] + ["available"] * 2 + ["acquired", "acknowledged", "acquired"]
    )
    find = queue.server.operator.records.find_difference
    for offset, state in enumerate([*states, "new", "new"]):
        assert find(GROUP, {TOPIC: {"0": {str(offset): state}}}) is None
        for other in {*STATES} - {state}:
            difference = f"record {offset} of {TOPIC}-0 is {state}, expected {other}"
            assert find(GROUP, {TOPIC: {"0": {"0": "done", str(offset): other}, "1": {"0": "new"}}}) == difference
    assert find(GROUP, {TOPIC: {"1": {"0": "done"}}}) == f"record 0 of {TOPIC}-1 is new, expected done"
    assert find(GROUP, {"nothing": {"0": {"0": "new"}}}) is None
    queue.server.frontend.disconnect(queue.peer.connection)
    queue.server.rest()
    assert not queue.server.operator.records.view(GROUP), "nobody reads it any more"
    for offset, state in enumerate([*states, "new", "new"]):
        expected = "available" if state == "acquired" else state
        assert find(GROUP, {TOPIC: {"0": {str(offset): expected}}}) is None
    assert find("another", {TOPIC: {"0": {"0": "new"}}}) is None


def test_the_state_of_a_seeded_record_is_known_before_somebody_reads(queue: Queue) -> None:
    records = [(3, 4, "archived", 5), (6, 7, "available", 1), (8, 8, "acknowledged", 1)]
    queue.server.operator.state.seed(State(queues={"other": {TOPIC: {"0": seeded_queue(2, records)}}}))
    states = {"done": [0, 1], "available": [2, 5, 6, 7], "archived": [3, 4], "acknowledged": [8], "new": [9, 10]}
    expected = {str(offset): state for state, offsets in states.items() for offset in offsets}
    assert queue.server.operator.records.find_difference("other", {TOPIC: {"0": expected}}) is None


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.sampled_from(("available", "archived"))), max_size=4)
)
@settings(max_examples=12)
def test_what_is_in_flight_is_shown_before_somebody_reads_and_when_nobody_does_any_more(
    runs: list[tuple[int, int, Any]],
) -> None:
    """Each record that is shown is in the state that a wait finds, and none is left out."""
    queue, records, at = Queue(), [], 2
    for gap, more, state in runs:
        records.append((at + gap, at + gap + more, state, 1))
        at += gap + more + 1
    queue.server.operator.state.seed(State(queues={"other": {TOPIC: {"0": seeded_queue(2, records)}}}))
    find, view = queue.server.operator.records.find_difference, queue.server.operator.records.view
    for _ in range(2):
        shown = {
            offset: run.state
            for one in view("other")
            for run in one.records
            for offset in range(run.first, run.last + 1)
        }
        assert all(find("other", {TOPIC: {"0": {str(offset): state}}}) is None for offset, state in shown.items())
        for offset in {*range(at + 2)} - {*shown}:
            told = find("other", {TOPIC: {"0": {str(offset): "acquired"}}})
            assert told is not None and told.split(" is ")[1].split(",")[0] in ("done", "new")
        assert view("other") == view("other", TOPIC) and view("other", "nothing") == [] == view("other", most=0)
        joined = queue.peer.ask(ShareGroupHeartbeatRequest("other", "A" * 22, 0, subscribed_topic_names=(TOPIC,)), 1)
        assert joined.error_code == 0
        queue.server.operator.groups.kick("other", "A" * 22)


def seeded_queue(start: int, records: Sequence[tuple[int, int, Any, int]] = ()) -> SeededQueue:
    return SeededQueue(start, [QueueRecords(*one) for one in records])
