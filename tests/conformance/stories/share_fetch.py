"""Records of share groups (KIP-932): who acquires which, how many, and when; share sessions."""

from tests.conformance.actors import Producer
from tests.conformance.requests import UNKNOWN_ID
from tests.conformance.sharing import (
    ACCEPT,
    EXACTLY,
    REJECT,
    RELEASE,
    Taker,
    append,
    begin_states,
    delete_before,
    open_transaction,
    shared,
    transaction,
)
from tests.conformance.stage import Stage
from tests.conformance.story import story

T1970 = 1_000  # long before any other record


@story("H-201")
def a_record_has_one_member(k: Stage) -> None:
    """What one has acquired no other one gets; what comes later goes to whoever asks."""
    topic = shared(k, 3)
    a, b = Taker(k, "a", topic), Taker(k, "b", topic)
    a.take()
    b.take(max_wait_ms=500)
    append(k, topic, 2)
    b.take()
    a.look()


@story("H-201")
def versions_of_share_fetch(k: Stage) -> None:
    """Version 1 has no acquire mode."""
    topic = shared(k, 3)
    a = Taker(k, "a", topic)
    a.take(version=1)
    a.take([(0, 2, ACCEPT)], version=1, max_wait_ms=0)
    a.settle([(0, 2, ACCEPT)], version=1)


@story("H-202")
def whole_batches_exceed_the_number_of_records(k: Stage) -> None:
    """As long as there are fewer records than are asked for, another batch is taken."""
    topic = shared(k, 3, 3, 3, 3)
    a = Taker(k, "a", topic)
    a.take(max_records=4)
    a.take(max_records=1)
    a.take(max_records=1)


@story("H-202")
def exactly_so_many_records(k: Stage) -> None:
    """With the mode that limits records a produced batch is cut."""
    topic = shared(k, 3, 3, 3, 3)
    a, b = Taker(k, "a", topic), Taker(k, "b", topic)
    a.take(max_records=4, share_acquire_mode=EXACTLY)
    b.take(max_records=4, share_acquire_mode=EXACTLY)
    a.take(max_records=100, share_acquire_mode=EXACTLY)
    a.settle([(0, 3, RELEASE)])
    b.take(max_records=2, share_acquire_mode=EXACTLY)
    b.take(max_records=100, share_acquire_mode=EXACTLY)


@story("H-202")
def exactly_so_many_records_of_a_large_batch(k: Stage) -> None:
    """What is left of the batch is in flight, and nobody's."""
    topic = shared(k, 10)
    a = Taker(k, "a", topic)
    a.take(max_records=4, share_acquire_mode=EXACTLY)
    a.settle([(0, 3, ACCEPT)])
    a.settle([(4, 4, ACCEPT)])
    a.settle([(10, 10, ACCEPT)])
    a.show()
    a.take(max_records=4)


@story("H-203")
def batches_of_acquired_records(k: Stage) -> None:
    """They have about the size that the client likes, and are never cut within a produced batch."""
    topic = shared(k, 2, 2, 5, 2, 2, 1)
    Taker(k, "a", topic).take(batch_size=4)
    other = shared_by(k, topic, "g2")
    Taker(k, "b", other, "g2").take(batch_size=1)
    shared_by(k, topic, "g3")
    Taker(k, "c", topic, "g3").take(batch_size=0)
    shared_by(k, topic, "g4")
    Taker(k, "d", topic, "g4").take(batch_size=-1)


def shared_by(k: Stage, topic: str, group: str) -> str:
    begin_states(k, topic, group=group)
    return topic


@story("H-204")
def nothing_is_asked_for(k: Stage) -> None:
    """No records, no bytes: an empty response at once, without any partition."""
    topic = shared(k, 3)
    a = Taker(k, "a", topic)
    a.send(max_records=0, max_wait_ms=2_000).answer()
    a.send(max_bytes=0, max_wait_ms=2_000).answer()
    a.send(max_records=-1, max_wait_ms=500).answer()
    a.take()


@story("H-204")
def a_first_fetch_that_finds_nothing(k: Stage) -> None:
    """It names its partition; later fetches only what is new."""
    topic = shared(k)
    a = Taker(k, "a", topic)
    a.take(max_wait_ms=500)
    a.take(max_wait_ms=100)
    a.look()


@story("H-205")
def a_share_fetch_waits_for_records(k: Stage) -> None:
    """A record that is appended ends the wait."""
    topic = shared(k)
    a = Taker(k, "a", topic)
    a.take(max_wait_ms=500)
    waiting = a.send(max_wait_ms=5_000)
    waiting.silent()
    append(k, topic, 1)
    waiting.answer()


@story("H-205")
def a_share_fetch_waits_for_bytes(k: Stage) -> None:
    """It waits for as many as it asks for, or until its time is over."""
    topic = shared(k)
    a = Taker(k, "a", topic)
    a.take(max_wait_ms=500)
    waiting = a.send(max_wait_ms=5_000, min_bytes=150)
    append(k, topic, 1)
    waiting.silent()
    append(k, topic, 1)
    waiting.answer()
    short = a.send(max_wait_ms=800, min_bytes=1_000)
    append(k, topic, 1)
    short.answer()


@story("H-205")
def a_share_fetch_waits_for_a_release(k: Stage) -> None:
    """Records that another member gives back end the wait."""
    topic = shared(k, 4)
    a, b = Taker(k, "a", topic), Taker(k, "b", topic)
    a.take()
    b.take(max_wait_ms=300)
    waiting = b.send(max_wait_ms=5_000)
    waiting.silent()
    a.settle([(1, 2, RELEASE)])
    waiting.answer(is_timed=False)


@story("H-206", server="share")
def a_lock_ends(k: Stage) -> None:
    """Then the records are another member's, and the first one cannot acknowledge them."""
    topic = shared(k, 4, share_record_lock_duration_ms=1_000)
    a, b = Taker(k, "a", topic), Taker(k, "b", topic)
    a.take()
    b.take()
    a.settle([(0, 3, ACCEPT)])
    b.settle([(0, 3, ACCEPT)])
    a.look()


@story("H-206", server="share")
def a_lock_ends_and_nobody_asks(k: Stage) -> None:
    """The member that had the records gets them once more."""
    topic = shared(k, 4, share_record_lock_duration_ms=1_000)
    a = Taker(k, "a", topic)
    a.take()
    k.pause(1_300)
    a.settle([(0, 3, ACCEPT)])
    a.take()
    a.settle([(0, 3, ACCEPT)])


@story("H-207", server="share")
def a_record_that_fails_again_and_again(k: Stage) -> None:
    """A single record is delivered as often as the limit says, then archived silently."""
    topic = shared(k, 1, share_delivery_count_limit=3)
    a = Taker(k, "a", topic)
    a.take()
    for _ in range(2):
        a.take([(0, 0, RELEASE)])
    a.take([(0, 0, RELEASE)], max_wait_ms=500)
    a.show()
    append(k, topic, 1)
    a.take()


@story("H-207", server="share")
def a_poison_record_among_others(k: Stage) -> None:
    """A batch that is released again and again is cut, so that one record does not take the others with it."""
    topic = shared(k, 8)
    a = Taker(k, "a", topic)
    found = a.take()
    for _ in range(24):
        parts = found.responses[0].partitions[0].acquired_records if found.responses else []
        if not parts:
            break
        a.settle([(one.first_offset, one.last_offset, RELEASE) for one in parts])
        found = a.look()
    a.show()


@story("H-207", server="share")
def a_limit_of_two_deliveries(k: Stage) -> None:
    """Then a batch is not cut."""
    topic = shared(k, 4, share_delivery_count_limit=2)
    a = Taker(k, "a", topic)
    a.take()
    a.take([(0, 3, RELEASE)])
    a.look([(0, 3, RELEASE)])
    a.show()


@story("H-207", server="share")
def a_limit_of_deliveries_that_is_lowered(k: Stage) -> None:
    """The new limit counts for what is released from then on."""
    topic = shared(k, 2)
    a = Taker(k, "a", topic)
    a.take()
    a.take([(0, 1, RELEASE)])
    k.group_config(k.name("g"), share_delivery_count_limit=2)
    a.look([(0, 1, RELEASE)])
    a.show()


@story("H-208", server="share")
def so_many_records_in_flight(k: Stage) -> None:
    """No more are acquired until the first ones are done; what is available again is."""
    topic = shared(k, 60, 60, 60, share_partition_max_record_locks=100)
    a = Taker(k, "a", topic)
    a.take()
    a.take(max_wait_ms=300)
    a.settle([(10, 19, ACCEPT)])
    a.look()
    a.settle([(30, 39, RELEASE)])
    a.look()
    a.settle([(0, 9, ACCEPT)])
    a.look()
    a.settle([(20, 29, ACCEPT)])
    a.look()


@story("H-208", server="share")
def the_window_is_nearly_full(k: Stage) -> None:
    """Of records that are available again, fewer are taken than are asked for."""
    topic = shared(k, 45, 45, 45, share_partition_max_record_locks=100)
    a = Taker(k, "a", topic)
    a.take(max_records=90)
    a.settle([(0, 89, RELEASE)])
    a.look()
    a.look()
    a.look()


@story("H-209")
def sessions_and_their_epochs(k: Stage) -> None:
    """Which epochs a ShareFetch may have."""
    topic = shared(k, 3)
    a = Taker(k, "a", topic)
    a.look(epoch=1)
    a.look(epoch=-1)
    a.take(epoch=0)
    for wrong in (2, 5, -2):
        a.look(epoch=wrong)
    a.look(epoch=1)
    a.look(epoch=2)
    a.look(epoch=-1)
    a.look(epoch=3)


@story("H-209")
def epochs_of_acknowledgements(k: Stage) -> None:
    """A ShareAcknowledge cannot open a session; it counts as a request of it."""
    topic = shared(k, 3)
    a = Taker(k, "a", topic)
    a.settle([(0, 0, ACCEPT)], epoch=0)
    a.settle([(0, 0, ACCEPT)], epoch=1)
    a.settle([(0, 0, ACCEPT)], epoch=-1)
    a.take(epoch=0)
    a.settle([(0, 0, ACCEPT)], epoch=0)
    a.settle([(0, 0, ACCEPT)], epoch=2)
    a.settle([(0, 0, ACCEPT)], epoch=1)
    a.settle([(1, 1, ACCEPT)], epoch=1)
    a.settle([(1, 1, ACCEPT)], epoch=2)
    a.look(epoch=3)


@story("H-209")
def a_session_is_opened_again(k: Stage) -> None:
    """What the member has acquired stays acquired, and can be acknowledged."""
    topic = shared(k, 4)
    a, b = Taker(k, "a", topic), Taker(k, "b", topic)
    a.take()
    a.look(epoch=0)
    b.take(max_wait_ms=300)
    a.settle([(0, 3, ACCEPT)])
    a.show()


@story("H-209")
def a_session_that_opens_with_acknowledgements(k: Stage) -> None:
    """That is refused, whether there is a session or not."""
    topic = shared(k, 4)
    a = Taker(k, "a", topic)
    a.look([(0, 0, ACCEPT)], epoch=0)
    a.take(epoch=0)
    a.look([(0, 0, ACCEPT)], epoch=0)
    a.look([(0, 0, ACCEPT)], epoch=1)


@story("H-210")
def a_session_is_closed(k: Stage) -> None:
    """What its member has acquired is released, but for what it acknowledges with it."""
    topic = shared(k, 4)
    a, b = Taker(k, "a", topic), Taker(k, "b", topic)
    a.take()
    b.take(max_wait_ms=300)
    waiting = b.send(max_wait_ms=5_000)
    waiting.silent()
    a.settle([(0, 1, ACCEPT)], epoch=-1)
    waiting.answer(is_timed=False)
    a.look(epoch=2)


@story("H-210")
def a_session_is_closed_by_a_fetch(k: Stage) -> None:
    """The final epoch acknowledges, and fetches nothing."""
    topic = shared(k, 4)
    a, b = Taker(k, "a", topic), Taker(k, "b", topic)
    a.take()
    a.look([(0, 1, ACCEPT)], epoch=-1)
    b.take()
    b.look(epoch=-1, topics=[])
    a.look(epoch=-1)


@story("H-210")
def a_connection_is_lost(k: Stage) -> None:
    """The session that it opened is closed, and what its member has acquired is released."""
    topic = shared(k, 4)
    a, b = Taker(k, "a", topic), Taker(k, "b", topic)
    a.take()
    a.settle([(0, 0, ACCEPT)])
    b.take(max_wait_ms=300)
    waiting = b.send(max_wait_ms=5_000)
    k.line("a").close()
    waiting.answer(is_timed=False)
    Taker(k, "a", topic, line="c").look(epoch=2)


@story("H-210")
def another_connection_carries_a_session_on(k: Stage) -> None:
    """A session is the member's; it ends with the connection that opened it."""
    topic = shared(k, 4)
    a = Taker(k, "a", topic)
    a.take()
    a.line_name = "other"
    a.look()
    a.settle([(0, 0, ACCEPT)])
    k.line("a").close()
    k.pause(500)
    a.look()


@story("H-211")
def partitions_come_and_go_in_a_session(k: Stage) -> None:
    """One that is added is named in the next response even without records; one that is forgotten is not read."""
    topic = shared(k, 2)
    other = k.topic("u")
    begin_states(k, other)
    a = Taker(k, "a", topic)
    a.take()
    added = [{"topic_id": k.topic_id(other), "partitions": [{"partition_index": 0, "acknowledgement_batches": []}]}]
    a.take(topics=added, max_wait_ms=500)
    a.look(topics=[])
    append(k, topic, 1)
    gone = [{"topic_id": k.topic_id(topic), "partitions": [0]}]
    a.look(topics=[], forgotten_topics_data=gone)
    append(k, other, 1)
    a.take(topics=[])
    a.take()


@story("H-211")
def a_session_without_partitions(k: Stage) -> None:
    """There is nothing to wait for."""
    topic = shared(k, 2)
    a = Taker(k, "a", topic)
    a.look(topics=[])
    a.take(topics=[], max_wait_ms=300)
    a.take()


@story("H-212", server="share-sessions")
def as_many_sessions_as_there_may_be(k: Stage) -> None:
    """Another one is refused, after the time that its fetch would wait; one that is opened again is not."""
    topic = shared(k, 2)
    a, b, c = (Taker(k, name, topic) for name in "abc")
    a.take()
    b.take(max_wait_ms=300)
    c.look()
    c.look(epoch=0, max_wait_ms=500)
    a.look(epoch=0)
    a.look(epoch=-1)
    c.take(epoch=0)


@story("H-213")
def requests_that_name_nobody(k: Stage) -> None:
    """The group must be named, and the member by 1 to 36 characters."""
    topic = shared(k, 2)
    a = Taker(k, "a", topic)
    for wrong in ({"group_id": None}, {"member_id": None}, {"member_id": ""}, {"member_id": "x" * 37}):
        a.look(epoch=0, **wrong)
        a.settle([(0, 0, ACCEPT)], epoch=1, **wrong)
    a.take(epoch=0, member_id="x" * 36)


@story("H-213")
def a_partition_that_does_not_exist(k: Stage) -> None:
    """Of a topic that exists."""
    topic = shared(k, 2)
    a = Taker(k, "a", topic)
    a.look(index=7)
    a.look(index=7)
    a.settle([(0, 0, ACCEPT)], index=7)
    a.settle([(0, 0, ACCEPT)])


@story("H-213")
def a_share_fetch_of_an_unknown_topic(k: Stage) -> None:
    """Kafka fails: it looks for rights on a topic without a name."""
    topic = shared(k, 2)
    a = Taker(k, "a", topic)
    parts = [{"partition_index": 0, "acknowledgement_batches": []}]
    a.look(topics=[{"topic_id": UNKNOWN_ID, "partitions": parts}])


@story("H-213")
def a_group_without_a_state(k: Stage) -> None:
    """Kafka has no error of its own for that."""
    topic = shared(k, 2)
    a = Taker(k, "a", topic, "other")
    a.take(max_wait_ms=2_000)
    a.take(max_wait_ms=2_000)
    begin_states(k, topic, group="other")
    a.take()


@story("H-213")
def an_acquire_mode_that_does_not_exist(k: Stage) -> None:
    """Kafka takes it for a failure of its own."""
    topic = shared(k, 2)
    a = Taker(k, "a", topic)
    a.look(share_acquire_mode=2)


@story("H-213")
def an_acquire_mode_that_does_not_exist_where_nothing_is_acquired(k: Stage) -> None:
    """Errors of the session come first; without partitions, and at the end of the session, the mode does not count."""
    topic = shared(k, 2)
    a = Taker(k, "a", topic)
    for epoch in (5, -7, -1):
        a.look(share_acquire_mode=2, epoch=epoch)
    a.look(share_acquire_mode=2, epoch=0, topics=[])
    a.look(share_acquire_mode=2, topics=[])
    a.look(share_acquire_mode=2, epoch=-1, topics=[])
    a.take(epoch=0)


@story("H-214")
def latest_is_decided_by_the_first_fetch(k: Stage) -> None:
    """Records of before are never seen."""
    topic = shared(k, 3, start=-1)
    a = Taker(k, "a", topic)
    a.take(max_wait_ms=500)
    append(k, topic, 2)
    a.take()
    a.settle([(3, 4, ACCEPT)])
    a.show()


@story("H-214")
def a_group_that_begins_at_the_earliest_record(k: Stage) -> None:
    """The stored start offset is unknown until something is acknowledged."""
    topic = shared(k, 3, start=-1, share_auto_offset_reset="earliest")
    a = Taker(k, "a", topic)
    a.take()
    a.show()
    a.settle([(0, 2, ACCEPT)])
    a.show()


@story("H-214")
def a_group_that_begins_by_duration(k: Stage) -> None:
    """All records are older than an hour: there is none to begin at."""
    topic = shared(k, 3, start=-1, share_auto_offset_reset="by_duration:PT1H")
    a = Taker(k, "a", topic)
    a.take(max_wait_ms=500)
    append(k, topic, 1)
    a.take(max_wait_ms=500)


@story("H-214")
def a_group_that_begins_by_a_long_duration(k: Stage) -> None:
    """It begins at the first record."""
    topic = shared(k, 3, start=-1, share_auto_offset_reset="by_duration:P30000D")
    Taker(k, "a", topic).take()


@story("H-214")
def a_group_that_begins_by_a_duration_within_the_log(k: Stage) -> None:
    """At the first record that is as young."""
    topic = shared(k, start=-1, share_auto_offset_reset="by_duration:P10000D")
    append(k, topic, 2, at_ms=T1970)
    append(k, topic, 3)
    a = Taker(k, "a", topic)
    a.take()
    a.show()
    a.settle([(2, 4, ACCEPT)])
    a.show()


@story("H-214")
def a_duration_counts_again_when_the_offsets_are_forgotten(k: Stage) -> None:
    """A state that begins anew looks at the setting of then."""
    topic = shared(k, 2, start=-1, share_auto_offset_reset="by_duration:P30000D")
    append(k, topic, 2, at_ms=T1970)
    a = Taker(k, "a", topic)
    a.take()
    a.settle([(0, 3, ACCEPT)], epoch=-1)
    k.group_config(k.name("g"), share_auto_offset_reset="by_duration:P10000D")
    begin_states(k, topic, start=-1, epoch=2)
    Taker(k, "b", topic).take()


@story("H-215")
def a_state_that_begins_within_the_log(k: Stage) -> None:
    """In the middle of a batch: the batch is sent, and only what follows is acquired."""
    topic = shared(k, 5, 2, start=3)
    a = Taker(k, "a", topic)
    a.take()
    a.settle([(0, 6, ACCEPT)])
    a.show()


@story("H-215")
def a_state_that_begins_beyond_the_log(k: Stage) -> None:
    """There is nothing to read, and no error."""
    topic = shared(k, 2, start=10)
    a = Taker(k, "a", topic)
    a.take(max_wait_ms=500)
    a.look()


@story("H-216")
def records_that_are_deleted_while_they_are_in_flight(k: Stage) -> None:
    """They count as done; the next fetch that meets the new start of the log brings nothing."""
    topic = shared(k, 4, 4, 4)
    a = Taker(k, "a", topic)
    a.take(max_records=1)
    delete_before(k, topic, 6)
    a.settle([(0, 3, ACCEPT)])
    a.look()
    a.look()
    a.settle([(6, 11, ACCEPT)])
    a.show()


@story("H-216")
def records_that_are_deleted_before_they_are_read(k: Stage) -> None:
    """The group goes on at the new start of the log."""
    topic = shared(k, 4, 4)
    delete_before(k, topic, 5)
    a = Taker(k, "a", topic)
    a.look(max_wait_ms=500)
    a.take()
    a.settle([(5, 7, REJECT)])
    a.show()


@story("H-216")
def a_topic_that_is_deleted_in_a_session(k: Stage) -> None:
    """Its share partition is gone with it."""
    topic = shared(k, 4)
    a = Taker(k, "a", topic)
    a.take()
    k.delete_topic(topic)
    k.pause(300)
    a.settle([(0, 3, ACCEPT)])


@story("H-217")
def aborted_records_of_a_group_that_reads_everything(k: Stage) -> None:
    """Markers lie inside of what is acquired."""
    topic = shared(k)
    transaction(k, topic, 2, committed=False)
    append(k, topic, 1)
    a = Taker(k, "a", topic)
    a.take()
    a.settle([(0, 3, ACCEPT)])
    a.show()


@story("H-217")
def aborted_records_of_a_group_that_reads_what_is_committed(k: Stage) -> None:
    """They are left out, markers are not."""
    topic = shared(k, 1, share_isolation_level="read_committed")
    transaction(k, topic, 2, committed=False)
    append(k, topic, 1)
    transaction(k, topic, 2, committed=True)
    a = Taker(k, "a", topic)
    found = a.take()
    ranges = [(one.first_offset, one.last_offset, ACCEPT) for one in found.responses[0].partitions[0].acquired_records]
    a.settle(ranges)
    a.show()


@story("H-217")
def a_group_that_waits_for_the_end_of_a_transaction(k: Stage) -> None:
    """It reads up to the last stable offset."""
    topic = shared(k, 1, share_isolation_level="read_committed")
    a = Taker(k, "a", topic)
    a.take()
    p = Producer(k, "p")
    p.begin()
    open_transaction(k, p, topic, 2)
    append(k, topic, 1)
    waiting = a.send(max_wait_ms=5_000)
    waiting.silent()
    p.end(True)
    waiting.answer()


@story("H-218")
def partitions_take_turns(k: Stage) -> None:
    """Of two partitions each is the first in its turn. One record at a time shows which."""
    topic = shared(k, partitions=2)
    a = Taker(k, "a", topic)
    a.take(index=0, max_wait_ms=500)
    a.take(index=1, max_wait_ms=500)
    for _ in range(3):
        append(k, topic, 1, 0)
        append(k, topic, 1, 1)
    for _ in range(4):
        a.take(topics=[], max_records=1, share_acquire_mode=EXACTLY)


@story("H-219")
def a_reset_counts_when_the_session_has_gone(k: Stage) -> None:
    """Until then the share partition is served as it was, and what is written of it is refused."""
    topic = shared(k, 4)
    a = Taker(k, "a", topic)
    a.take()
    begin_states(k, topic, start=2, epoch=2)
    a.look()
    a.settle([(0, 3, ACCEPT)])
    a.take()


@story("H-219")
def a_state_that_begins_anew_while_nobody_reads(k: Stage) -> None:
    """It counts once the connection of the last session has gone."""
    topic = shared(k, 4)
    a = Taker(k, "a", topic)
    a.take()
    a.settle([(0, 3, ACCEPT)], epoch=-1)
    begin_states(k, topic, start=1, epoch=2)
    b = Taker(k, "b", topic)
    b.take(max_wait_ms=500)
    k.line("b").close()
    k.line("a").close()
    k.pause(500)
    Taker(k, "c", topic).take()


@story("H-213")
def offsets_of_a_partition_that_does_not_exist(k: Stage) -> None:
    """There are none, and no error. Kafka does not answer."""
    topic = shared(k, 2)
    for partitions in ([0], [7]):
        groups = [{"group_id": k.name("g"), "topics": [{"topic_name": topic, "partitions": partitions}]}]
        k.line("watch").send("describe_share_group_offsets", 1, groups=groups).silent(3_000)
