"""ShareFetch and ShareAcknowledge by hand: who gets which records, when, and what becomes of them."""

from collections.abc import Callable
from random import Random
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from coordinator.core.acls.authorizer import Authorizer, Rights
from coordinator.core.acls.rules import AclRules
from coordinator.core.decision import Steps
from coordinator.core.principal import Principal
from coordinator.core.share_partitions.operate import ChangeRecords, RecordAction
from coordinator.core.share_partitions.values import Run, SharePartition
from coordinator.core.share_state.values import NO_OFFSET, DeliveryState, ShareState, StateBatch, StateKey, StateUpdate
from coordinator.dataplane.share import fetching
from coordinator.dataplane.share.acknowledging import Acknowledgement, Acknowledgements, acknowledge_all
from coordinator.dataplane.share.changes import _close_in_steps
from coordinator.dataplane.share.opening import open_partitions
from coordinator.dataplane.state import HELD_BYTES_MAX, Env
from protocol.compression import Meter
from protocol.errors import ErrorCode
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from protocol.messages.share_fetch import (
    ShareFetchRequest,
    ShareFetchRequestAcknowledgementBatch,
    ShareFetchRequestForgottenTopic,
    ShareFetchRequestPartition,
    ShareFetchRequestTopic,
)
from storage.log import Log, scan
from tests.dataplane.broker import NODES, NOW, Broker, batch, call, response_of
from tests.dataplane.sharing import ACCEPT, REJECT, RELEASE, RENEW, Sharer, begin_sharing, got, share_partition
from tests.dataplane.transactional import transactional_batch
from tests.requests import produce, share_acknowledge_topics, share_fetch_topics
from tests.steps import count_steps, finish

LOCK_MS = 30_000
MANY = 200  # partitions: more than one step releases


@pytest.fixture
def shared(broker: Broker) -> Broker:
    """A topic of one batch with four records, of which nobody has acquired any."""
    begin_sharing(broker)
    broker.produce("t", 0, batch("a", "b", "c", "d"))
    return broker


def share_many_partitions() -> Broker:
    """A topic with a record in each of so many partitions that a session of them ends in steps."""
    broker = Broker()
    broker.create("t", MANY)
    for partition in range(MANY):
        begin_sharing(broker, partition=partition)
        broker.produce("t", partition, batch("0"))
    return broker


def test_a_record_is_acquired_by_one_member(shared: Broker) -> None:
    a, b = Sharer(shared, "a"), Sharer(shared, "b")
    assert a.take().acquired == [(0, 3, 1)]
    assert b.take().acquired == []
    shared.produce("t", 0, batch("e"))
    found = b.take()
    assert (found.acquired, found.values) == ([(4, 4, 1)], ["e"])


def test_what_is_accepted_is_delivered_to_nobody_again(shared: Broker) -> None:
    a = Sharer(shared)
    a.take()
    assert a.settle((0, 1, ACCEPT), (2, 2, REJECT)) == 0
    a.leave()
    b = Sharer(shared, "b")
    assert b.take().acquired == [(3, 3, 2)]


@pytest.mark.parametrize(
    ("batches", "error", "acquired", "end"),
    [
        (((1, 2, 9, 1),), ErrorCode.UNKNOWN_SERVER_ERROR, [], None),
        (((0, 0, 0, 32767),), 0, [(0, 0, 32767)], 1),
        (((2, 2**63 - 1, 2, 1),), 0, [(0, 1, 1)], 2**63 - 1),
        (((0, 2**63 - 1, 2, 1),), 0, [], 2**63 - 1),
        (((2**63 - 1, 2**63 - 1, 0, 1),), 0, [(0, 3, 1)], 4),
    ],
)
def test_whatever_others_have_written_of_a_share_partition_is_told_and_written_again(
    broker: Broker, batches: tuple[tuple[int, int, int, int], ...], error: int, acquired: list[object], end: int | None
) -> None:
    """The share coordinator writes what a broker says."""
    key = begin_sharing(broker)
    begin_sharing(broker, partition=1)
    for partition in (0, 1):
        broker.produce("t", partition, batch("a", "b", "c", "d"))
    update = StateUpdate(1, -1, batches=tuple([StateBatch(*one) for one in batches]))
    assert broker.node.engine.share_states.write(key, update, NOW) == 0
    broker.node.engine.flush()
    a = Sharer(broker)
    (topic,) = a.fetch(topics=share_fetch_topics({(a.topic_id, 0): (), (a.topic_id, 1): ()})).responses
    found = {one.partition_index: one for one in topic.partitions}
    assert [(run.first_offset, run.last_offset, run.delivery_count) for run in found[0].acquired_records] == acquired
    assert (found[0].error_code, found[1].error_code) == (error, 0)
    if end is not None:
        assert share_partition(broker, key).end_offset == end
    a.leave()
    assert Sharer(broker, "b").take().error == error


def test_a_fetch_acknowledges_and_acquires_at_once(shared: Broker) -> None:
    a = Sharer(shared)
    a.take()
    found = a.take((0, 0, ACCEPT), (1, 3, RELEASE))
    assert (found.acquired, found.acknowledge_error) == ([(1, 3, 2)], 0)


def test_a_refused_acknowledgement_leaves_the_fetch_as_it_is(shared: Broker) -> None:
    a = Sharer(shared)
    a.take()
    shared.produce("t", 0, batch("e"))
    found = a.take((0, 9, ACCEPT))
    assert (found.acquired, found.acknowledge_error) == ([(4, 4, 1)], ErrorCode.INVALID_REQUEST)


def test_a_fetch_waits_for_records(broker: Broker) -> None:
    begin_sharing(broker)
    a = Sharer(broker)
    assert a.fetch(max_wait_ms=500) is None
    assert broker.replies() == []
    broker.produce("t", 0, batch("a"))
    ((_, answer),) = broker.replies()
    assert got(answer).acquired == [(0, 0, 1)]


def test_a_fetch_waits_for_records_that_are_released(shared: Broker) -> None:
    a, b = Sharer(shared, "a"), Sharer(shared, "b")
    a.take()
    assert b.fetch(max_wait_ms=500, ticket=7) is None
    a.settle((1, 2, RELEASE))
    ((ticket, answer),) = shared.replies()
    assert (ticket, got(answer).acquired) == (7, [(1, 2, 2)])


@pytest.mark.parametrize("seed", range(10))
def test_a_fetch_waits_for_as_many_bytes_as_it_asks_for(broker: Broker, seed: int) -> None:
    """However they come: appended a few at a time, or released by a member that had them."""
    random, held = Random(seed), [0, 1, 2]
    longest = random.choice([1, 200])  # all of one length, so that there are often as many bytes as it asks for
    begin_sharing(broker)
    for _ in held:
        broker.produce("t", 0, batch("x" * random.randint(1, longest)))
    a, b = Sharer(broker, "a"), Sharer(broker, "b")
    a.take()
    first, wanted = len(held), len(batch("x")) * random.randint(1, 4) + (longest > 1) * random.randint(0, 500)
    assert b.fetch(max_wait_ms=500, min_bytes=wanted, ticket=7) is None
    for _ in range(30):
        if held and random.random() < 0.4:
            released = held.pop(random.randrange(len(held)))
            a.settle((released, released, RELEASE))
            first = min(first, released)
        else:
            broker.produce("t", 0, batch("x" * random.randint(1, longest)))
        there = len(broker.fetch("t", 0, first, partition_max_bytes=2**20).records)
        if there >= wanted:
            break
        assert broker.replies() == [], (there, wanted)
    ((ticket, answer),) = broker.replies()
    assert (ticket, got(answer).acquired[0][0]) == (7, first)


def test_a_fetch_waits_until_its_time_is_over(broker: Broker) -> None:
    begin_sharing(broker)
    a = Sharer(broker)
    assert a.fetch(max_wait_ms=500) is None
    broker.real_ms = 512
    ((_, answer),) = broker.replies()
    assert got(answer).acquired == []


def test_a_lock_ends_by_the_coordinator_s_clock(shared: Broker) -> None:
    a, b = Sharer(shared, "a"), Sharer(shared, "b")
    a.take()
    assert shared.node.world.dataplane.share.locks.next_deadline_ms() == NOW + LOCK_MS
    b.fetch(max_wait_ms=500, ticket=7)
    shared.node.engine.fire(NOW + LOCK_MS - 1)
    assert shared.replies() == []
    shared.node.engine.fire(NOW + LOCK_MS)
    ((ticket, answer),) = shared.replies()
    assert (ticket, got(answer).acquired) == (7, [(0, 3, 2)])
    assert shared.node.world.dataplane.share.locks.next_deadline_ms() == NOW + 2 * LOCK_MS
    assert a.settle((0, 3, ACCEPT)) == ErrorCode.INVALID_RECORD_STATE


def test_a_lock_is_renewed(shared: Broker) -> None:
    a = Sharer(shared)
    a.take()
    a.now_ms += LOCK_MS - 1
    assert a.settle((0, 0, RENEW), is_renew_ack=True) == 0
    shared.node.engine.fire(a.now_ms + 1)
    a.now_ms += LOCK_MS - 1
    assert a.settle((0, 0, ACCEPT)) == 0
    assert a.settle((1, 1, ACCEPT)) == ErrorCode.INVALID_RECORD_STATE


def test_a_record_is_archived_after_its_last_delivery(shared: Broker) -> None:
    a = Sharer(shared)
    counts = dict.fromkeys(range(4), 0)
    for _ in range(100):
        for first, last, count in a.take().acquired:
            for offset in range(first, last + 1):
                assert count == counts[offset] + 1
                counts[offset] = count
            a.settle((first, last, RELEASE))
    assert set(counts.values()) == {5}
    assert share_partition(shared, StateKey("g", a.topic_id, 0)).start_offset == 4


def test_a_lost_connection_releases_what_its_member_has(shared: Broker) -> None:
    a, b = Sharer(shared, "a"), Sharer(shared, "b")
    a.take()
    assert b.fetch(max_wait_ms=500, ticket=7) is None
    a.leave()
    ((_, answer),) = shared.replies()
    assert got(answer).acquired == [(0, 3, 2)]
    assert a.take(epoch=0).acquired == []


def test_a_session_that_is_closed_releases_what_its_member_has(shared: Broker) -> None:
    a, b = Sharer(shared, "a"), Sharer(shared, "b")
    a.take()
    assert a.acknowledge((0, 0, ACCEPT), epoch=-1).error_code == 0
    assert b.take().acquired == [(1, 3, 2)]
    assert a.fetch().error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_what_a_member_has_is_released_to_its_end_though_its_client_leaves_meanwhile() -> None:
    """The session is closed by then, so the end of its connection releases nothing more."""
    broker = share_many_partitions()
    other, leaving, engine = Sharer(broker, "b"), Sharer(broker), broker.node.engine
    other.take()
    partitions = tuple([ShareFetchRequestPartition(index) for index in range(MANY)])
    leaving.fetch(topics=(ShareFetchRequestTopic(leaving.topic_id, partitions),))
    assert other.take(partition=MANY - 1).acquired == []
    engine.handle(79, ShareAcknowledgeRequest("g", "a", -1), call(None, 9, 2, NOW), NODES)
    assert engine.unfinished, "in steps"
    engine.forget(9)
    while engine.unfinished:
        engine.long_requests.step()
    assert other.take(partition=MANY - 1).acquired == [(0, 0, 2)]


def test_what_a_member_acquires_after_its_return_stays_its_own() -> None:
    """Its session of before is released in steps, and it is back before they come to the partition that it reads."""
    broker = share_many_partitions()
    before = Sharer(broker)
    partitions = tuple([ShareFetchRequestPartition(index) for index in range(MANY)])
    before.fetch(topics=(ShareFetchRequestTopic(before.topic_id, partitions),))
    broker.produce("t", MANY - 1, batch("1"))
    before.leave()
    returned, other = Sharer(broker, connection=77), Sharer(broker, "b")
    assert returned.take(partition=MANY - 1).acquired == [(1, 1, 1)]
    assert other.take(partition=MANY - 1).acquired == [(0, 0, 2)], "what was released, and nothing else"
    assert returned.settle((1, 1, ACCEPT), partition=MANY - 1) == 0


def test_a_fetch_that_waits_after_its_member_has_returned_is_answered(broker: Broker) -> None:
    """What its group had without a session is forgotten in steps, and it is back before they come to what it reads."""
    begin_sharing(broker)
    before, returned = Sharer(broker), Sharer(broker, connection=77)
    before.take()
    forgetting = _close_in_steps(broker.plane._state, (), ("g",), NOW)
    returned.take()
    assert returned.fetch(max_wait_ms=500, ticket=7) is None
    finish(forgetting)
    broker.produce("t", 0, batch("x"))
    assert [(ticket, got(answer).acquired) for ticket, answer in broker.replies()] == [(7, [(0, 0, 1)])]


def test_what_a_member_acquires_while_states_are_away_stays_its_own(shared: Broker) -> None:
    """What its session of before had is released when the states are served again."""
    node = shared.node
    key = begin_sharing(shared, group="h")
    before = Sharer(shared, group="h")
    assert before.take(max_records=1, share_acquire_mode=1).acquired == [(0, 0, 1)]
    index = node.engine.share_states.partition_of(key)
    node.engine.share_states.unload(index)
    before.leave()
    returned, other = Sharer(shared, group="h", connection=77), Sharer(shared, "b", group="h")
    assert returned.take(max_records=1, share_acquire_mode=1).acquired == [(1, 1, 1)]
    for _ in node.engine.share_states.replay(index):
        pass
    node.engine.share_states.serve(index, NOW)
    assert other.take(max_records=2, share_acquire_mode=1).acquired == [(0, 0, 2), (2, 2, 1)]
    assert returned.settle((1, 1, ACCEPT)) == 0


def test_a_partition_that_is_fetched_again_and_again_until_its_state_is_served_is_opened_once(shared: Broker) -> None:
    states = shared.node.engine.share_states
    index = states.partition_of(begin_sharing(shared, group="h"))
    states.unload(index)
    a, b = Sharer(shared, group="h"), Sharer(shared, "b", group="h")
    for _ in range(5):
        assert a.take(max_wait_ms=0).acquired == b.take(max_wait_ms=0).acquired == []
    assert len(states._waiting[index]) == 1
    for unload in (False, True):
        if unload:
            a.leave()
            b.leave()
            states.unload(index)
            assert a.take(max_wait_ms=0, epoch=0).acquired == []
        for _ in states.replay(index):
            pass
        states.serve(index, NOW)
        assert a.take(max_records=1, share_acquire_mode=1).acquired == [(0, 0, 1 + unload)]


@pytest.mark.parametrize("opens_another", [False, True])
@pytest.mark.parametrize("epoch", [0, 1])
def test_a_fetch_whose_session_is_closed_acquires_nothing(broker: Broker, epoch: int, opens_another: bool) -> None:
    begin_sharing(broker)
    a, b = Sharer(broker), Sharer(broker, "b")
    for _ in range(epoch):
        a.take()
    assert a.fetch(max_wait_ms=500, ticket=7) is None
    returned = Sharer(broker, connection=77)
    assert returned.acknowledge(epoch=-1).error_code == 0
    if opens_another:
        assert returned.take(epoch=0, partition=1).acquired == []
    broker.produce("t", 0, batch("x"))
    ((_, answer),) = broker.replies()
    assert answer.error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert b.take().acquired == [(0, 0, 1)]


def test_a_fetch_whose_connection_is_lost_between_two_steps_acquires_nothing(shared: Broker) -> None:
    a, b = Sharer(shared), Sharer(shared, "b")
    a.take()
    shared.produce("t", 0, batch("e"))
    changing, key = shared.node.world.dataplane.share.changing, StateKey("g", a.topic_id, 0)
    changing[key] = False  # by another request, which the acknowledgement waits for
    accepted = ShareFetchRequestPartition(0, (ShareFetchRequestAcknowledgementBatch(0, 0, ACCEPT),))
    topics = (ShareFetchRequestTopic(a.topic_id, (accepted,)),)
    wanted = ShareFetchRequest("g", "a", 1, max_records=500, batch_size=500, topics=topics)
    made = replace(call(wanted, 9, 2), connection=a.connection)
    assert response_of(shared.node.engine.handle(78, wanted, made, NODES)) is None
    a.leave()
    del changing[key]
    while shared.node.engine.unfinished:
        shared.node.engine.long_requests.step()
    assert b.take().acquired == [(1, 3, 2), (4, 4, 1)]


def test_an_acknowledgement_that_waits_for_another_one_goes_on_with_what_that_has_made(shared: Broker) -> None:
    a, b = Sharer(shared), Sharer(shared, "b")
    a.take()
    shared.produce("t", 0, batch("e"))
    assert b.take().acquired == [(4, 4, 1)]
    engine, changing = shared.node.engine, shared.node.world.dataplane.share.changing
    key = StateKey("g", b.topic_id, 0)
    changing[key] = False  # by another request, which the acknowledgement waits for
    topics = share_acknowledge_topics({(b.topic_id, 0): ((4, 4, ACCEPT),)})
    wanted = ShareAcknowledgeRequest("g", "b", 1, topics=topics)
    assert response_of(engine.handle(79, wanted, replace(call(wanted, 9, 2), connection=b.connection), NODES)) is None
    del changing[key]
    assert a.settle((0, 3, ACCEPT)) == 0
    while engine.unfinished:
        engine.long_requests.step()
    assert share_partition(shared, key).start_offset == 5, "both count"


Meanwhile = Callable[[Broker, Sharer, Sharer], Any]


def operate(action: RecordAction | None, deliveries: int | None = None) -> Meanwhile:
    def act(broker: Broker, a: Sharer, b: Sharer) -> str:
        verb = ChangeRecords("g", a.topic_id, 0, 1, 4, action, deliveries)
        return broker.plane.change_records(verb, call(ShareFetchRequest(), 1, 2, NOW)).refusal

    return act


def ask(who: str, *ranges: tuple[int, int, tuple[int, ...]], is_fetch: bool = False) -> Meanwhile:
    """A request of the member a or b: its next fetch, which waits, or an acknowledgement alone."""

    def act(broker: Broker, a: Sharer, b: Sharer) -> None:
        one = a if who == "a" else b
        named = {(one.topic_id, 0): ranges}
        request: Any = ShareAcknowledgeRequest("g", who, one.epoch, topics=share_acknowledge_topics(named))
        if is_fetch:
            sizes = {"max_records": 500, "batch_size": 500, "min_bytes": 1, "max_wait_ms": 500}
            request = ShareFetchRequest("g", who, one.epoch, topics=share_fetch_topics(named), **sizes)
        made = replace(call(request, 5, 2), connection=one.connection)
        answer = response_of(broker.node.engine.handle(78 if is_fetch else 79, request, made, NODES))
        if answer is not None:
            broker._replies.append((5, answer))

    return act


def delete(broker: Broker, a: Sharer, b: Sharer) -> None:
    broker.delete("t")


SAID: Final = ((0, 0, ACCEPT), (1, 1, RELEASE), (2, 2, REJECT))  # by a
ACCEPTED: Final = ((0, 2, ACCEPT),)
WRONG: Final = (*[(at, at, ACCEPT if at % 2 else RELEASE) for at in range(60)], (60, 60, ACCEPT))  # which is b's
MEANWHILE: Final[dict[str, Meanwhile]] = {
    **{action.value: operate(action) for action in RecordAction},
    "deliveries": operate(None, 2),
    "lock_ends": lambda broker, a, b: broker.plane.expire_locks(NOW + LOCK_MS, 9),
    "leave": lambda broker, a, b: broker.plane.close_connection(ord("a"), NOW),
    "nothing": lambda broker, a, b: None,
    "delete": delete,
    **{f"fetch_of_{who}": ask(who, is_fetch=True) for who in "ab"},
    **{f"fetch_that_says_so_of_{who}": ask(who, (60, 60, RELEASE), (61, 61, ACCEPT), is_fetch=True) for who in "ab"},
    "the_same": ask("a", *SAID),
    "otherwise": ask("a", *[(first, last, REJECT) for first, last, _ in SAID]),
    "the_rest": ask("a", (3, 3, REJECT)),
    "of_another": ask("b", (60, 60, RELEASE), (61, 61, ACCEPT)),
    "wrongly_of_another": ask("b", *SAID, (60, 60, RELEASE)),
}
"""What may happen while an acknowledgement by the member a is decided in steps."""


def acknowledge_and(name: str, after: int, said: Any) -> tuple[bool, tuple[Any, ...]]:
    """Have it happen after so many steps. Return whether that was behind the last one, and what comes of both: what is
    told to all, and what becomes of the records."""
    broker = Broker()
    broker.create("t")
    key = begin_sharing(broker)
    broker.produce("t", 0, batch(*map(str, range(60))))
    a, b = Sharer(broker, "a"), Sharer(broker, "b")
    a.take()
    broker.produce("t", 0, batch("e", "f"))
    b.take()
    broker.produce("t", 0, batch("g"))
    asked = Acknowledgements("g", "a", share_acknowledge_topics({(a.topic_id, 0): said}), "ShareAcknowledge", False, 1)
    env, engine = Env(call(ShareAcknowledgeRequest(), 9, 2), NODES, ()), broker.node.engine
    answers: list[Acknowledgement] = []

    def acknowledge() -> Steps[None]:
        answers.extend((yield from acknowledge_all(broker.plane._state, asked, env)))

    steps = acknowledge()
    for _ in range(after):
        next(steps, None)
    is_over = bool(answers)
    told = MEANWHILE[name](broker, a, b)
    for _ in range(20):  # it may have to wait for the acknowledgement
        if engine.unfinished:
            engine.long_requests.step()
    finish(steps)
    while engine.unfinished:
        engine.long_requests.step()
    engine.flush()
    error = "gone" if answers[0].error in GONE else answers[0].error
    replies = repr(broker.replies()).replace(repr(a.topic_id), "t")
    views = list(broker.plane.view_records("g", "t", 99, {}))
    return is_over, (error, told, replies, views, engine.share_states.find(key))


GONE: Final = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


@pytest.mark.parametrize("said", [SAID, ACCEPTED, WRONG], ids=["several", "accepted", "wrong"])
@pytest.mark.parametrize("name", MEANWHILE)
def test_what_happens_between_steps_of_an_acknowledgement_is_as_before_or_after_it(name: str, said: Any) -> None:
    """Or it is refused, and is as if it had not happened."""
    (_, before), (_, after) = acknowledge_and(name, 0, said), acknowledge_and(name, 99, said)
    for steps in range(1, 99):
        is_over, found = acknowledge_and(name, steps, said)
        if is_over:
            break
        if found[1]:
            assert "try again" in found[1]
            assert (found[0], None, *found[2:]) == acknowledge_and("nothing", 0, said)[1]
        else:
            assert found in (before, after)
    assert steps > 1


def test_a_fetch_closes_a_session_as_well(shared: Broker) -> None:
    a, b = Sharer(shared, "a"), Sharer(shared, "b")
    a.take()
    answer = a.fetch((0, 0, ACCEPT), epoch=-1)
    assert [one.acquired_records for topic in answer.responses for one in topic.partitions] == [()]
    assert b.take().acquired == [(1, 3, 2)]


def test_epochs_of_a_session(shared: Broker) -> None:
    a = Sharer(shared)
    assert a.fetch(epoch=1).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert a.acknowledge((0, 0, ACCEPT), epoch=0).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    a.take(epoch=0)
    assert a.fetch(epoch=3).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert a.fetch((0, 0, ACCEPT), epoch=0).error_code == ErrorCode.INVALID_REQUEST


def test_there_are_so_many_sessions(broker: Broker) -> None:
    broker = Broker(group_share_max_size=1, group_share_max_share_sessions=1)
    broker.create("t")
    begin_sharing(broker)
    a, b = Sharer(broker, "a"), Sharer(broker, "b")
    a.take()
    assert b.fetch().error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert b.fetch(epoch=0, max_wait_ms=100, ticket=8) is None, "the client is not to ask again at once"
    broker.real_ms = 128
    ((_, answer),) = broker.replies()
    assert answer.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED


@pytest.mark.parametrize(("reset", "first"), [("earliest", 0), ("latest", 4), ("by_duration:PT1H", 2)])
def test_a_new_share_partition_begins_where_the_group_says(reset: str, first: int) -> None:
    broker = Broker()
    broker.create("t")
    broker.produce("t", 0, batch("a", "b", at_ms=NOW - 7_200_000))
    broker.produce("t", 0, batch("c", "d", at_ms=NOW - 60_000))
    key = begin_sharing(broker, at=NO_OFFSET)
    shard = broker.node.world.partitions.owner("g").shard
    shard.set_limits("g", type(shard.limits)(share_auto_offset_reset=reset))
    Sharer(broker).take(max_records=1)
    assert share_partition(broker, key).start_offset == first


def test_a_server_that_starts_again_knows_what_was_accepted(shared: Broker) -> None:
    a = Sharer(shared)
    a.take()
    a.settle((1, 1, ACCEPT))
    shared.node.close()
    again = Broker(shared.files)
    for _ in again.node.load(lambda: NOW):
        pass
    found = Sharer(again).take()
    assert [one[:2] for one in found.acquired] == [(0, 0), (2, 3)]


def test_aborted_records_are_left_out_if_the_group_says_so() -> None:
    broker = Broker()
    broker.create("t")
    begin_sharing(broker)
    shard = broker.node.world.partitions.owner("g").shard
    shard.set_limits("g", type(shard.limits)(share_isolation_level="read_committed"))
    producer = broker.producer("x")
    broker.produce("t", 0, transactional_batch(producer, "a", "b"), txn="x")
    a = Sharer(broker)
    assert a.take().acquired == [], "it is not decided"
    broker.ask(EndTxnRequest("x", *producer, False), version=4)
    while broker.node.engine.unfinished:
        broker.node.engine.long_requests.step()
    broker.produce("t", 0, batch("c"))
    assert [one[:2] for one in a.take().acquired] in ([(2, 3)], [(2, 2), (3, 3)])


@given(st.lists(st.tuples(st.sampled_from("xyz"), st.sampled_from(["write", "commit", "abort"])), max_size=24))
@settings(max_examples=40)
def test_a_group_that_reads_what_is_committed_gets_what_a_consumer_reads(history: list[tuple[str, str]]) -> None:
    """Producers write, commit and abort in any order; the transactions of one follow each other."""
    broker = Broker(topics={"t": 1})
    begin_sharing(broker)
    shard = broker.node.world.partitions.owner("g").shard
    shard.set_limits("g", type(shard.limits)(share_isolation_level="read_committed"))
    producers, written = {name: broker.producer(name) for name in "xyz"}, dict.fromkeys("xyz", 0)
    for name, action in (*history, *((name, "commit") for name in "xyz")):
        if action == "write":
            records = transactional_batch(producers[name], f"{name}{written[name]}", sequence=written[name])
            assert broker.produce("t", 0, records, txn=name).error_code == 0
            written[name] += 1
        else:
            broker.ask(EndTxnRequest(name, *producers[name], action == "commit"), version=4)
            while broker.node.engine.unfinished:
                broker.node.engine.long_requests.step()
    found = Sharer(broker).take()
    delivered = {at for first, last, _ in found.acquired for at in range(first, last + 1)}
    log = broker.plane._state.logs.log("t", 0)
    batches = [(header, records) for header, records in scan(log) if not header.is_control]
    values = {header.base_offset: str(bytes(records[0].value or b""), "utf-8") for header, records in batches}
    assert [value for at, value in values.items() if at in delivered] == broker.values("t", committed=True)


def test_a_fetch_takes_so_many_batches_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them costs microseconds, however few bytes it has: four mebibytes of the smallest are 60,000."""
    monkeypatch.setattr(fetching, "BATCHES_MAX", 5)
    broker = share_many_partitions()
    a, every = Sharer(broker), {(Sharer(broker).topic_id, index): () for index in range(MANY)}
    got_by_each = [
        [
            one
            for topic in a.fetch(topics=share_fetch_topics(every)).responses
            for one in topic.partitions
            if one.records
        ]
        for _ in range(MANY // 5 + 1)
    ]
    assert list(map(len, got_by_each)) == [5] * (MANY // 5) + [0]
    assert {one.partition_index for found in got_by_each for one in found} == set(range(MANY))


def test_each_partition_has_its_share_of_the_bytes(broker: Broker) -> None:
    a, one = Sharer(broker), batch("x" * 100)
    for partition in (0, 1):
        begin_sharing(broker, partition=partition)
        assert a.take(partition=partition).acquired == []
    for _ in range(4):
        for partition in (0, 1):
            broker.produce("t", partition, one)
    answer = a.fetch(partition=0, max_bytes=4 * len(one))
    assert [len(part.records) for topic in answer.responses for part in topic.partitions] == [2 * len(one)] * 2


def test_a_partition_that_was_read_anew_between_two_steps_is_not_overwritten(
    shared: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, step = Sharer(shared), shared.node.engine.long_requests.step
    a.take()
    share, key = shared.node.world.dataplane.share, StateKey("g", a.topic_id, 0)
    anew = SharePartition(2)

    def read_anew() -> object:
        monkeypatch.undo()
        share.put(key, anew)
        return step()

    monkeypatch.setattr(shared.node.engine.long_requests, "step", read_anew)
    assert a.settle((0, 3, ACCEPT)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert share.find(key) is anew


def test_what_is_acquired_stays_so_when_another_fetch_opens_the_share_partition_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It takes both of them several steps to find where a new group begins."""
    broker = Broker()
    broker.create("t")
    broker.produce("t", 0, batch("a", "b", "c", "d", at_ms=NOW - 60_000))
    key = begin_sharing(broker, at=NO_OFFSET)
    shard = broker.node.world.partitions.owner("g").shard
    shard.set_limits("g", type(shard.limits)(share_auto_offset_reset="by_duration:PT1H"))
    find = Log.offset_for_time

    def find_later(log: Log, at_ms: int, meter: Meter) -> Steps[tuple[int, int] | None]:
        yield
        return (yield from find(log, at_ms, meter))

    monkeypatch.setattr(Log, "offset_for_time", find_later)
    second = open_partitions(broker.plane._state, (key,), NOW)
    next(second)
    assert Sharer(broker).take().acquired == [(0, 3, 1)]
    assert finish(second) == {}
    assert Sharer(broker, "b").take(max_wait_ms=0).acquired == [], "the other one has them"


@pytest.mark.parametrize("is_served", [False, True], ids=["to nobody yet", "to others"])
def test_a_client_that_may_not_read_a_topic_is_not_told_its_partitions(shared: Broker, is_served: bool) -> None:
    """Nor is it given the records of one that is served to others of its group."""
    a = Sharer(shared)
    if is_served:
        assert Sharer(shared, "b").take(max_records=1).acquired
    a.rights = Rights(Authorizer(AclRules()), Principal("User", "alice"), "/127.0.0.1")
    for partition in (0, 99):
        assert a.take(partition=partition, epoch=0).error == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert a.settle((0, 3, ACCEPT), partition=partition) == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_fenced_member_reads_the_share_partition_again(shared: Broker) -> None:
    a = Sharer(shared)
    a.take()
    key = StateKey("g", a.topic_id, 0)
    assert shared.node.engine.share_states.initialize(key, 2, 2, NOW) == 0
    answer = a.acknowledge((0, 3, ACCEPT))
    assert answer.responses[0].partitions[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert [one.node_id for one in answer.node_endpoints] == [0]
    assert a.take().acquired == [(2, 3, 1)]


def test_offsets_that_are_altered_count_though_a_member_forgot_what_it_had(shared: Broker) -> None:
    """Its last session did not name the partition, whose records it has never acknowledged."""
    a, b = Sharer(shared), Sharer(shared, "b")
    a.take()
    gone = (ShareFetchRequestForgottenTopic(a.topic_id, (0,)),)
    a.ask(ShareFetchRequest("g", "a", 1, max_records=1, forgotten_topics_data=gone))
    a.leave()
    key = StateKey("g", a.topic_id, 0)
    state = shared.node.engine.share_states.read(key, 0, NOW)
    assert isinstance(state, ShareState)
    assert state.batches == (StateBatch(0, 3, DeliveryState.AVAILABLE, 1),)
    assert shared.node.engine.share_states.initialize(key, 2, 2, NOW) == 0
    assert b.take().acquired == [(2, 3, 1)]


def test_offsets_that_are_altered_count_though_a_client_left_while_states_were_loaded(shared: Broker) -> None:
    a, b, states = Sharer(shared), Sharer(shared, "b"), shared.node.engine.share_states
    key = StateKey("g", a.topic_id, 0)
    index = states.partition_of(key)
    states.unload(index)
    a.take()
    a.leave()
    finish(states.replay(index))
    states.serve(index, NOW)
    assert shared.plane.share.find(key) is None
    assert states.initialize(key, 2, 2, NOW) == 0
    assert b.take().acquired == [(2, 3, 1)]


def test_a_lock_that_ends_after_offsets_were_altered_brings_nothing_back(shared: Broker) -> None:
    """What was acquired counts no more: the next fetch begins where the group was put."""
    a, b = Sharer(shared, "a"), Sharer(shared, "b")
    a.take()
    assert b.fetch(max_wait_ms=500, ticket=7) is None
    key = StateKey("g", a.topic_id, 0)
    assert shared.node.engine.share_states.initialize(key, 2, 3, NOW) == 0
    shared.node.engine.fire(NOW + LOCK_MS)
    assert shared.plane.share.find(key) is None
    assert shared.plane.share.locks.next_deadline_ms() is None
    assert shared.replies() == []
    assert a.take().acquired == [(3, 3, 1)]


def test_a_fetch_that_waits_takes_nothing_once_its_session_has_gone_on(broker: Broker) -> None:
    begin_sharing(broker)
    a, again, b = Sharer(broker, "a"), Sharer(broker, "a", connection=2), Sharer(broker, "b")
    a.take()
    assert a.fetch(max_wait_ms=500, ticket=7) is None
    again.epoch = a.epoch
    assert again.take().acquired == []
    broker.produce("t", 0, batch("x"))
    ((ticket, answer),) = broker.replies()
    assert (ticket, answer.error_code) == (7, ErrorCode.INVALID_SHARE_SESSION_EPOCH)
    assert b.take().acquired == [(0, 0, 1)]


def test_a_response_that_has_no_room_for_another_batch_leaves() -> None:
    """Though the client asks for more bytes than two thirds of what a response may hold."""
    one = batch("x" * 800)
    broker = Broker(topics={"t": 1}, fetch_max_bytes=max(len(one) * 3 // 2, 1024))
    begin_sharing(broker)
    for _ in range(2):
        broker.produce("t", 0, one)
    assert got(Sharer(broker).fetch(max_wait_ms=500, min_bytes=10_000)).acquired == [(0, 0, 1)]


@pytest.mark.parametrize("max_bytes", [1, 1_500, 2_500, 100_000])
@pytest.mark.parametrize("fetch_max_bytes", [1_500, 3_500, 50_000])
def test_a_fetch_brings_no_more_than_it_asks_for_and_the_server_allows(max_bytes: int, fetch_max_bytes: int) -> None:
    """Whole batches, and one in any case."""
    one = batch("x" * 900)
    broker = Broker(topics={"t": 1}, fetch_max_bytes=fetch_max_bytes)
    begin_sharing(broker)
    for _ in range(10):
        broker.produce("t", 0, one)
    answer = Sharer(broker).fetch(max_wait_ms=0, max_bytes=max_bytes)
    size = len(answer.responses[0].partitions[0].records)
    assert size == min(max(min(max_bytes, fetch_max_bytes) // len(one), 1), 10) * len(one)


@pytest.mark.parametrize(("how", "comes"), [(ACCEPT, True), (REJECT, True), (RENEW, False)])
def test_a_fetch_that_waits_for_room_goes_on_when_there_is_some(how: tuple[int, ...], comes: bool) -> None:
    """As many records as may be in flight are acquired: the next one is when one of these is done."""
    broker = Broker(topics={"t": 1}, group_share_partition_max_record_locks=100)
    begin_sharing(broker)
    broker.produce("t", 0, batch(*map(str, range(100))))
    broker.produce("t", 0, batch("more"))
    a, b = Sharer(broker, "a"), Sharer(broker, "b")
    assert a.take(max_records=100).acquired == [(0, 99, 1)]
    assert b.fetch(max_wait_ms=500, ticket=7) is None
    assert a.settle((0, 0, how), is_renew_ack=how == RENEW) == 0
    assert [(ticket, got(answer).acquired) for ticket, answer in broker.replies()] == [(7, [(100, 100, 1)])] * comes


def test_while_clients_do_not_read_a_fetch_brings_a_batch(broker: Broker) -> None:
    """Of the first partition that has any, whatever room there is."""
    for partition in (0, 1):
        begin_sharing(broker, partition=partition)
        for _ in range(2):
            broker.produce("t", partition, batch("x"))
    broker.plane.note_unsent(HELD_BYTES_MAX)
    a = Sharer(broker)
    answer = a.fetch(topics=share_fetch_topics({(a.topic_id, 0): (), (a.topic_id, 1): ()}), max_wait_ms=500)
    acquired = [
        (one.partition_index, run.first_offset, run.last_offset)
        for topic in answer.responses
        for one in topic.partitions
        for run in one.acquired_records
    ]
    assert acquired == [(0, 0, 0)]


def test_a_deleted_topic_ends_the_wait(shared: Broker) -> None:
    a = Sharer(shared)
    a.take()
    assert a.fetch(max_wait_ms=500, ticket=5) is None
    shared.delete("t")
    shared.real_ms = 600
    ((_, answer),) = shared.replies()
    assert answer.error_code == 0
    assert a.settle((0, 3, ACCEPT)) == ErrorCode.UNKNOWN_TOPIC_ID
    assert not shared.node.world.dataplane.share.served
    assert shared.node.world.dataplane.share.locks.next_deadline_ms() is None


def test_a_group_without_state_is_a_failure_as_by_kafka(broker: Broker) -> None:
    found = Sharer(broker).take()
    assert found.error == ErrorCode.UNKNOWN_SERVER_ERROR
    assert not broker.node.world.dataplane.share.served


@pytest.mark.parametrize("wrong", [{"share_acquire_mode": 2}, {"is_renew_ack": True}])
def test_requests_that_are_refused_as_a_whole(shared: Broker, wrong: dict[str, int]) -> None:
    assert Sharer(shared).fetch(**wrong).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("member_id", ["", "x" * 37])
def test_a_member_must_say_who_it_is(shared: Broker, member_id: str) -> None:
    a = Sharer(shared)
    a.name = member_id
    assert a.fetch().error_code == ErrorCode.INVALID_REQUEST
    assert a.acknowledge().error_code == ErrorCode.INVALID_REQUEST


def test_version_1_cannot_renew(shared: Broker) -> None:
    a = Sharer(shared)
    a.take()
    assert a.settle((0, 0, RENEW), version=1) == ErrorCode.INVALID_REQUEST


@given(
    sizes=st.lists(st.lists(st.integers(1, 3), max_size=3), min_size=1, max_size=3),
    wanted=st.integers(1, 8),
    is_exact=st.booleans(),
)
@settings(max_examples=60)
def test_so_many_records_of_all_partitions_together(sizes: list[list[int]], wanted: int, is_exact: bool) -> None:
    """Of each partition, batches of so many records. Where whole batches count, the last of them may exceed the number."""
    broker = Broker()
    broker.create("t", partitions=len(sizes))
    for partition, batches in enumerate(sizes):
        begin_sharing(broker, partition=partition)
        for size in batches:
            broker.produce("t", partition, batch(*"a" * size))
    member = Sharer(broker)
    topics = share_fetch_topics({(member.topic_id, partition): () for partition in range(len(sizes))})
    answer = member.fetch(topics=topics, max_records=wanted, batch_size=1, share_acquire_mode=int(is_exact))
    acquired = [
        sum(run.last_offset - run.first_offset + 1 for run in one.acquired_records)
        for topic in answer.responses
        for one in topic.partitions
    ]
    there = sum(map(sum, sizes))
    assert sum(acquired) == min(wanted, there) if is_exact else min(wanted, there) <= sum(acquired) < wanted + 3


def test_so_many_records_exactly(shared: Broker) -> None:
    a = Sharer(shared)
    assert a.take(max_records=2, share_acquire_mode=1).acquired == [(0, 1, 1)]
    assert a.take(max_records=2, share_acquire_mode=1).acquired == [(2, 3, 1)]


def test_records_that_were_deleted_are_left_out(shared: Broker) -> None:
    log = shared.node.world.dataplane._state.logs.log("t", 0)
    log.delete_before(2)
    a = Sharer(shared)
    assert a.take().acquired == [], "as by Kafka: the client asks again"
    assert a.take().acquired == [(2, 3, 1)]


def test_a_group_of_the_longest_name(broker: Broker) -> None:
    """The name of its share partition is longer than any string of the protocol."""
    group = "g" * 32_767
    begin_sharing(broker, group=group)
    broker.produce("t", 0, batch("a"))
    a = Sharer(broker, group=group)
    assert a.take().acquired == [(0, 0, 1)]
    assert a.settle((0, 0, ACCEPT)) == 0
    assert not broker.node.world.edge.failures


def test_a_connection_that_is_lost_with_many_sessions_is_closed_in_steps(shared: Broker) -> None:
    members = [Sharer(shared, f"m{number}", connection=7) for number in range(200)]
    for member in members:
        member.fetch(max_wait_ms=0)
    sessions, _ = shared.plane.share.close_connection(7)
    steps, _ = count_steps(_close_in_steps(shared.plane._state, sessions, (), NOW))
    assert len(sessions) == 200
    assert steps > 3


def test_a_turn_ends_the_locks_of_so_many_runs() -> None:
    """10,000: each of these share partitions has 2,000."""
    broker = Broker(topics={"t": 8})
    runs = tuple([Run(at, at, DeliveryState.ACQUIRED, 1, at, at, f"m{at % 2}", NOW + 1) for at in range(2_000)])
    for index in range(8):
        broker.plane.share.put(begin_sharing(broker, partition=index), SharePartition(0, runs, 0, 1))
    still_held = []
    for _ in range(3):
        still_held.append(broker.plane.share.locks.count)
        broker.plane.expire_locks(NOW + 1, 1_000)
    assert still_held == [8, 3, 0]


def test_a_response_has_records_of_so_many_partitions() -> None:
    """500: the next fetch brings those of the others."""
    broker, one = Broker(topics={"t": 502}), batch("a")
    for index in range(502):
        begin_sharing(broker, partition=index)
    broker.ask(produce("t", dict.fromkeys(range(502), one)))
    a = Sharer(broker)
    topics = (ShareFetchRequestTopic(a.topic_id, tuple([ShareFetchRequestPartition(at) for at in range(502)])),)
    found = [a.fetch(topics=topics, max_records=1_000, max_bytes=2**30) for _ in range(2)]
    sizes = [sum(bool(one.records) for topic in answer.responses for one in topic.partitions) for answer in found]
    assert sizes == [500, 2]
