"""Members of a share group of a topic from which compaction or deletion takes records between two deliveries: they get
what is left, and no offset that is gone keeps the group from going on."""

from random import Random

import pytest

from coordinator.core.share_state.values import StateKey
from protocol import record_batch
from protocol.compression import Meter
from storage import cleaner
from tests.dataplane.broker import NOW, Broker, batch
from tests.dataplane.sharing import ACCEPT, RELEASE, Sharer, begin_sharing, got, share_partition

GAP = (0,)


def compacted_topic(keys: str) -> tuple[Broker, StateKey]:
    """A topic with a batch of one record for each of these keys."""
    broker = Broker()
    broker.create("t", cleanup_policy="compact")
    key = begin_sharing(broker)
    for number, name in enumerate(keys):
        produce(broker, number, name)
    return broker, key


def produce(broker: Broker, number: int, key: str, size: int = 1) -> None:
    values = [f"{key}{number}.{at}" for at in range(size)]
    assert not broker.produce("t", 0, batch(*values, key=key, at_ms=NOW + 2 * number)).error_code


def compact(broker: Broker) -> None:
    (log,) = broker.plane.compacted_logs()
    list(cleaner.compact(log, NOW + 1_000))


def take_and_release(broker: Broker, last: int) -> Sharer:
    """Let a member acquire all records up to an offset, and give them back."""
    member = Sharer(broker)
    found = member.take()
    assert (found.acquired[0][0], found.acquired[-1][1]) == (0, last)
    assert member.settle((0, last, RELEASE)) == 0
    return member


def test_what_was_compacted_away_at_the_front_is_acquired_as_a_gap() -> None:
    """The batch that is left reaches back to there."""
    broker, key = compacted_topic("ababab")
    member = take_and_release(broker, 5)
    compact(broker)
    found = member.take(max_wait_ms=500)
    assert ((found.acquired[0][0], found.acquired[-1][1]), found.values) == ((0, 5), ["a4.0", "b5.0"])
    assert member.settle((0, 3, GAP), (4, 5, ACCEPT)) == 0
    assert share_partition(broker, key).start_offset == 6


def test_a_gap_in_the_middle_is_acquired_and_acknowledged_as_one() -> None:
    broker, key = compacted_topic("abbbbc")
    member = take_and_release(broker, 5)
    compact(broker)
    found = member.take()
    assert [value[0] for value in found.values] == ["a", "b", "c"]
    assert (found.acquired[0][0], found.acquired[-1][1]) == (0, 5)
    assert member.settle((0, 0, ACCEPT), (1, 3, GAP), (4, 5, ACCEPT)) == 0
    assert share_partition(broker, key).start_offset == 6


def test_a_member_waits_for_new_records_where_all_that_was_available_is_gone() -> None:
    """Another member has what is left: what one gets is a gap, and then it waits."""
    broker, key = compacted_topic("ababab")
    a, b = Sharer(broker, "a"), Sharer(broker, "b")
    a.take(max_records=4, batch_size=1, share_acquire_mode=1)
    assert b.take().acquired[0][0] == 4
    a.settle((0, 3, RELEASE))
    compact(broker)
    assert a.take(max_wait_ms=500).acquired == [(0, 3, 2)]
    assert a.settle((0, 3, GAP)) == 0
    assert share_partition(broker, key).start_offset == 4
    assert a.fetch(max_wait_ms=500, ticket=7) is None
    produce(broker, 6, "c")
    ((_, answer),) = broker.replies()
    assert got(answer).values == ["c6.0"]


def test_a_waiting_member_gets_what_is_left_at_the_end_of_a_lock() -> None:
    broker, _ = compacted_topic("ababab")
    a, b = Sharer(broker, "a"), Sharer(broker, "b")
    a.take()
    assert b.fetch(max_wait_ms=500, ticket=7) is None
    compact(broker)
    broker.node.engine.fire(NOW + 30_000)
    ((_, answer),) = broker.replies()
    assert got(answer).values == ["a4.0", "b5.0"]


def test_what_was_deleted_up_to_the_middle_of_a_batch_is_left_out() -> None:
    broker = Broker(topics={"t": 1})
    key = begin_sharing(broker)
    broker.produce("t", 0, batch("a", "b", "c", "d"))
    member = take_and_release(broker, 3)
    broker.plane._state.logs.log("t", 0).delete_before(2)
    assert member.take(max_wait_ms=500).acquired == [], "as by Kafka: the client asks again"
    assert member.take(max_wait_ms=500).acquired == [(2, 3, 2)]
    assert share_partition(broker, key).start_offset == 2


@pytest.mark.parametrize("seed", range(12))
def test_members_come_to_the_end_whatever_is_removed_meanwhile(seed: int) -> None:
    """And have then accepted each record that is left."""
    random, accepted = Random(seed), set[int]()
    broker, key = compacted_topic("a")
    log, members = broker.plane._state.logs.log("t", 0), (Sharer(broker, "a"), Sharer(broker, "b"))

    def take(member: Sharer, releases: float) -> bool:
        found = member.take(max_records=random.randint(1, 6), share_acquire_mode=random.randint(0, 1))
        for first, last, count in found.acquired:
            assert accepted.isdisjoint(range(first, last + 1))
            is_released = count < 3 and random.random() < releases  # not to the limit: then they are archived
            assert member.settle((first, last, RELEASE if is_released else ACCEPT)) == 0
            if not is_released:
                accepted.update(range(first, last + 1))
        return bool(found.acquired)

    for number in range(1, 40):
        produce(broker, number, random.choice("abcde"), random.randint(1, 3))
        if random.random() < 0.5:
            take(random.choice(members), 0.6)
        if random.random() < 0.15:
            compact(broker)
        if random.random() < 0.05:
            log.delete_before(random.randint(log.start_offset, log.end_offset))
    idle = 0
    for _ in range(300):
        idle = 0 if take(random.choice(members), 0.2) else idle + 1
        if idle == 3:
            break
    assert idle == 3
    assert share_partition(broker, key).start_offset == log.end_offset
    batches = [record_batch.read(one.chunk, one.at, one.header, Meter()) for one in log.batches()]
    left = {record.offset for some in batches for record in some if record.offset >= log.start_offset}
    assert left <= accepted
