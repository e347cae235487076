"""Acknowledgements of share groups (KIP-932): what becomes of records, and which ranges are refused."""

from tests.conformance.requests import UNKNOWN_ID
from tests.conformance.sharing import ACCEPT, GAP, REJECT, RELEASE, RENEW, Taker, append, begin_states, shared
from tests.conformance.stage import Stage
from tests.conformance.story import story


@story("H-231")
def records_are_accepted(k: Stage) -> None:
    """The stored start offset is one acknowledgement behind; the lag is right at once."""
    topic = shared(k, 4)
    a = Taker(k, "a", topic)
    a.take()
    a.show()
    a.settle([(0, 1, ACCEPT)])
    a.show()
    a.settle([(2, 3, ACCEPT)])
    a.show()
    a.look()


@story("H-231")
def a_type_for_each_record(k: Stage) -> None:
    """What is released is delivered again, with a higher count."""
    topic = shared(k, 6)
    a = Taker(k, "a", topic)
    a.take()
    a.settle([(0, 5, [ACCEPT, RELEASE, REJECT, GAP, RELEASE, ACCEPT])])
    a.take()
    a.show()


@story("H-231")
def several_ranges_at_once(k: Stage) -> None:
    """They may span batches and parts of batches."""
    topic = shared(k, 3, 3, 3)
    a = Taker(k, "a", topic)
    a.take()
    a.settle([(0, 1, ACCEPT), (2, 4, RELEASE), (5, 5, REJECT), (6, 8, ACCEPT)])
    a.take()
    a.show()


@story("H-231")
def records_in_the_middle_are_accepted(k: Stage) -> None:
    """The start offset stays before what is not done."""
    topic = shared(k, 6)
    a = Taker(k, "a", topic)
    a.take()
    a.settle([(2, 3, ACCEPT)])
    a.show()
    a.settle([(5, 5, REJECT)])
    a.show()
    a.settle([(0, 1, ACCEPT)])
    a.settle([(4, 4, ACCEPT)])
    a.show()


@story("H-232")
def a_fetch_acknowledges(k: Stage) -> None:
    """The fetch brings what is released by it, and what is new."""
    topic = shared(k, 3)
    a = Taker(k, "a", topic)
    a.take()
    append(k, topic, 1)
    a.take([(0, 1, ACCEPT)])
    a.take([(2, 2, RELEASE), (3, 3, ACCEPT)])
    a.show()


@story("H-232")
def a_fetch_with_acknowledgements_that_are_refused(k: Stage) -> None:
    """That is told by partition, and the fetch still brings records."""
    topic = shared(k, 3)
    a = Taker(k, "a", topic)
    a.take()
    append(k, topic, 1)
    a.take([(0, 9, ACCEPT)])
    a.look([(1, 0, ACCEPT)])
    a.look([(0, 2, ACCEPT)])


@story("H-232")
def a_fetch_acknowledges_another_partition(k: Stage) -> None:
    """It is named in the response, with no records."""
    topic = shared(k, 2)
    other = k.topic("u")
    begin_states(k, other)
    append(k, other, 2)
    a, b = Taker(k, "a", topic), Taker(k, "b", other)
    a.take()
    b.take()
    ranges = [{"first_offset": 0, "last_offset": 1, "acknowledge_types": [ACCEPT]}]
    parts = [{"partition_index": 0, "acknowledgement_batches": ranges}]
    a.look(topics=[{"topic_id": k.topic_id(other), "partitions": parts}])
    b.look([(0, 1, ACCEPT)])


@story("H-233")
def ranges_that_no_partition_takes(k: Stage) -> None:
    """Backwards, without a type, with too many or too few, with an unknown one, or out of order."""
    topic = shared(k, 6)
    a = Taker(k, "a", topic)
    a.take()
    for wrong in (
        [(3, 2, ACCEPT)],
        [(0, 1, [])],
        [(0, 2, [ACCEPT, ACCEPT])],
        [(0, 1, [ACCEPT, ACCEPT, ACCEPT])],
        [(0, 1, 5)],
        [(0, 1, -1)],
        [(2, 3, ACCEPT), (0, 1, ACCEPT)],
    ):
        a.settle(wrong)
    a.settle([(0, 5, ACCEPT)])


@story("H-233")
def ranges_that_overlap(k: Stage) -> None:
    """The same record is acknowledged twice."""
    topic = shared(k, 6)
    a = Taker(k, "a", topic)
    a.take()
    a.settle([(0, 3, ACCEPT), (3, 4, ACCEPT)])
    a.settle([(0, 3, ACCEPT), (0, 3, ACCEPT)])
    a.settle([(-5, 3, ACCEPT)])
    a.settle([(4, 5, ACCEPT)])
    a.show()


@story("H-233")
def a_range_beyond_what_is_acquired(k: Stage) -> None:
    """Beyond the last record in flight, and where nothing is in flight; Kafka fails if it begins below that."""
    topic = shared(k, 4)
    a = Taker(k, "a", topic)
    a.take()
    a.settle([(0, 4, ACCEPT)])
    a.settle([(4, 4, ACCEPT)])
    a.settle([(100, 200, ACCEPT)])
    a.settle([(0, 3, ACCEPT)])
    a.settle([(4, 4, ACCEPT)])
    a.settle([(0, 4, ACCEPT)])


@story("H-233")
def one_wrong_range_undoes_all(k: Stage) -> None:
    """Of one partition; what is right in it can be acknowledged again."""
    topic = shared(k, 6)
    a = Taker(k, "a", topic)
    a.take()
    a.settle([(0, 1, ACCEPT), (4, 9, ACCEPT)])
    a.show()
    a.settle([(0, 1, ACCEPT)])
    a.show()


@story("H-234")
def records_of_another_member(k: Stage) -> None:
    """They are not acquired by whoever acknowledges them."""
    topic = shared(k, 3)
    a, b = Taker(k, "a", topic), Taker(k, "b", topic)
    a.take()
    b.take(max_wait_ms=300)
    b.settle([(0, 2, ACCEPT)])
    b.settle([(0, 0, RELEASE)])
    a.settle([(0, 2, ACCEPT)])


@story("H-234")
def records_that_are_done(k: Stage) -> None:
    """Below the start offset that is success, behind it the state is wrong."""
    topic = shared(k, 6)
    a = Taker(k, "a", topic)
    a.take()
    a.settle([(0, 1, ACCEPT)])
    a.settle([(0, 1, ACCEPT)])
    a.settle([(0, 1, REJECT)])
    a.settle([(4, 4, ACCEPT)])
    a.settle([(4, 4, ACCEPT)])
    a.settle([(1, 2, ACCEPT)])
    a.settle([(3, 3, RELEASE)])
    a.settle([(3, 3, ACCEPT)])
    a.show()


@story("H-234")
def a_member_that_has_fetched_nothing(k: Stage) -> None:
    """There is no share partition before the first fetch of it."""
    topic = shared(k, 3)
    a = Taker(k, "a", topic)
    a.look(topics=[])
    a.settle([(0, 2, ACCEPT)])


@story("H-235")
def locks_are_renewed(k: Stage) -> None:
    """Only by version 2, and if the request announces it."""
    topic = shared(k, 4)
    a = Taker(k, "a", topic)
    a.take()
    a.settle([(0, 1, RENEW)], version=1)
    a.settle([(0, 1, RENEW)])
    a.settle([(0, 1, RENEW)], is_renew_ack=True)
    a.settle([(0, 3, [RENEW, ACCEPT, RENEW, ACCEPT])], is_renew_ack=True)
    a.show()
    a.settle([(0, 0, ACCEPT), (2, 2, ACCEPT)])
    a.show()


@story("H-235", server="share")
def a_lock_that_is_renewed_ends_later(k: Stage) -> None:
    """Of a batch, the record that is not renewed is released first."""
    topic = shared(k, 2, share_record_lock_duration_ms=2_000)
    a, b = Taker(k, "a", topic), Taker(k, "b", topic)
    a.take()
    k.pause(1_200)
    a.settle([(1, 1, RENEW)], is_renew_ack=True)
    b.take()
    k.pause(300)
    a.settle([(1, 1, ACCEPT)])
    a.settle([(0, 0, ACCEPT)])


@story("H-235")
def a_fetch_that_renews(k: Stage) -> None:
    """It must ask for nothing, and gets nothing."""
    topic = shared(k, 2)
    a = Taker(k, "a", topic)
    a.take()
    append(k, topic, 1)
    nothing = {"max_bytes": 0, "min_bytes": 0, "max_records": 0, "max_wait_ms": 0}
    for name in nothing:
        a.look([(0, 1, RENEW)], epoch=1, is_renew_ack=True, **{**nothing, name: 1})
    a.look([(0, 1, RENEW)], epoch=1, is_renew_ack=True, **nothing)
    a.look([(0, 1, RENEW)])
    a.look([(0, 1, ACCEPT)], is_renew_ack=True, **nothing)
    a.look()


@story("H-235")
def renewal_that_is_switched_off(k: Stage) -> None:
    """The whole request of the partition is refused."""
    topic = shared(k, 2, share_renew_acknowledge_enable="false")
    a = Taker(k, "a", topic)
    a.take()
    a.settle([(0, 1, RENEW)], is_renew_ack=True)
    a.settle([(0, 1, [ACCEPT, RENEW])], is_renew_ack=True)
    a.settle([(0, 1, ACCEPT)])


@story("H-236")
def acknowledgements_that_name_nothing(k: Stage) -> None:
    """No topic, no partition, no range."""
    topic = shared(k, 2)
    a = Taker(k, "a", topic)
    a.take()
    a.settle(topics=[])
    a.settle(topics=[{"topic_id": k.topic_id(topic), "partitions": []}])
    a.settle()
    a.take(max_wait_ms=300)


@story("H-236")
def an_acknowledgement_for_an_unknown_topic(k: Stage) -> None:
    """Kafka fails: it looks for rights on a topic without a name."""
    topic = shared(k, 2)
    a = Taker(k, "a", topic)
    a.take()
    ranges = [{"first_offset": 0, "last_offset": 1, "acknowledge_types": [ACCEPT]}]
    parts = [{"partition_index": 0, "acknowledgement_batches": ranges}]
    a.settle(topics=[{"topic_id": UNKNOWN_ID, "partitions": parts}])


@story("H-237")
def a_second_group_reads_the_same_records(k: Stage) -> None:
    """What one group accepts is new to another."""
    topic = shared(k, 3)
    begin_states(k, topic, group="g2")
    a, b = Taker(k, "a", topic), Taker(k, "b", topic, "g2")
    a.take()
    a.settle([(0, 2, ACCEPT)])
    b.take()
    b.settle([(0, 2, REJECT)])
    a.show()
    b.show()


@story("H-237")
def two_members_acknowledge_in_turn(k: Stage) -> None:
    """Each acknowledges its own."""
    topic = shared(k, 2, 2, 2)
    a, b = Taker(k, "a", topic), Taker(k, "b", topic)
    a.take(max_records=1)
    b.take(max_records=1)
    a.take(max_records=1)
    b.settle([(2, 3, ACCEPT)])
    a.settle([(0, 1, RELEASE), (4, 5, ACCEPT)])
    b.take()
    b.settle([(0, 1, ACCEPT)])
    a.show()


@story("H-238", server="share-restart")
def a_restart_forgets_locks_and_sessions_alone(k: Stage) -> None:
    """What was accepted stays so, what was acquired is available, and counts go on."""
    topic = shared(k, 4, 2)
    a = Taker(k, "a", topic)
    a.take()
    a.settle([(1, 1, ACCEPT), (2, 2, RELEASE)])
    k.restart(k.name("g"))
    a.look(epoch=3)
    a.take(epoch=0)
    a.settle([(0, 0, ACCEPT), (2, 5, ACCEPT)])
    a.show()
