"""Transactions over records: producer ids and epochs, markers, what readers see, and how operators look."""

import time
from typing import Any

from tests.conformance.actors import FAR, Producer
from tests.conformance.batches import TRANSACTIONAL, batch
from tests.conformance.scenes import begin_producer
from tests.conformance.stage import Answer, Stage
from tests.conformance.stories.fetch import fetch, offsets
from tests.conformance.stories.produce import produce
from tests.conformance.story import story

COMMITTED = 1  # the isolation level that sees no open or aborted transaction


def write(p: Producer, topic: str, *values: bytes, sequence: int = 0, version: int = 11) -> Answer:
    """Send records of now: a marker years younger than they are would begin another segment."""
    now = [int(time.time() * 1000)] * len(values)
    numbers: dict[str, Any] = {"producer_id": p.id, "epoch": p.epoch, "sequence": sequence, "attributes": TRANSACTIONAL}
    records = batch(*values, timestamps=now, **numbers)
    return produce(p.line, topic, records, version=version, transactional_id=p.transactional_id)


def write_in_transaction(k: Stage, *values: bytes, timeout_ms: int = 60_000) -> tuple[str, Producer]:
    """A topic, and a producer whose open transaction has written these records to it."""
    topic, p = k.topic(), begin_producer(k, timeout_ms=timeout_ms)
    p.add_partitions(topic)
    write(p, topic, *values)
    return topic, p


def await_stable_offset(k: Stage, topic: str, end: int) -> Answer:
    """Wait until everything before this offset is decided."""
    parts = [{"partition_index": 0, "timestamp": -1}]
    return k.line("watch").eventually(
        "list_offsets",
        7,
        lambda answer: bool(answer.topics[0].partitions[0].offset == end),
        replica_id=-1,
        isolation_level=COMMITTED,
        topics=[{"name": topic, "partitions": parts}],
    )


def await_completion(k: Stage, p: Producer) -> Answer:
    """Wait until all markers of the producer's transaction are written."""
    return k.line("watch").eventually(
        "describe_transactions",
        0,
        lambda answer: bool(answer.transaction_states[0].transaction_state.startswith("Complete")),
        transactional_ids=[p.transactional_id],
    )


@story("O-100")
def a_producer_id_for_an_idempotent_producer(k: Stage) -> None:
    """Without a transactional id each call gives another id, at epoch 0; every version does."""
    for version in range(6):
        k.line("p").call("init_producer_id", version, transactional_id=None, transaction_timeout_ms=0)


@story("O-100")
def a_transactional_id_keeps_its_producer_id(k: Stage) -> None:
    """Each new start raises the epoch."""
    p = Producer(k)
    for version in (0, 2, 4, 5):
        p.begin(version=version)


@story("O-100")
def producers_that_cannot_begin(k: Stage) -> None:
    """An empty transactional id, times that are none, and an id and epoch that are not its own."""
    p = Producer(k)
    p.begin(transactional_id="")
    p.begin(transaction_timeout_ms=0)
    p.begin(transaction_timeout_ms=-1)
    p.begin(transaction_timeout_ms=2_000_000_000)
    p.begin()
    p.begin(producer_id=p.id + FAR, producer_epoch=0)
    p.begin(producer_id=p.id, producer_epoch=-1)
    p.begin(producer_id=p.id, producer_epoch=7)


@story("O-100")
def a_producer_raises_its_own_epoch(k: Stage) -> None:
    """It names its id and epoch and gets the next one; asked again with the old one it gets the same (a retry)."""
    p = begin_producer(k)
    me = {"producer_id": p.id, "producer_epoch": p.epoch}
    p.begin(**me)
    p.begin(**me)


@story("O-100 V-003")
def a_producer_with_an_open_transaction_begins_again(k: Stage) -> None:
    """It names its epoch: first the transaction is aborted, then it gets the next epoch; asked again, the same one."""
    topic, p = write_in_transaction(k, b"a")
    me = {"producer_id": p.id, "producer_epoch": p.epoch}
    p.begin(**me)
    await_completion(k, p)
    p.begin(**me)
    p.begin(**me)
    p.add_partitions(topic)
    write(p, topic, b"b")
    p.end(True)


@story("O-100 V-003")
def a_producer_whose_transaction_took_too_long_begins_again(k: Stage) -> None:
    """By its epoch, unless another one has begun under its id."""
    topic, p = write_in_transaction(k, b"a", timeout_ms=300)
    me = {"producer_id": p.id, "producer_epoch": p.epoch}
    await_stable_offset(k, topic, 2)
    await_completion(k, p)
    write(p, topic, b"b", sequence=1)
    p.begin(**me)
    Producer(k, "q", "p").begin()
    p.begin(**me)


@story("O-116 V-007")
def a_batch_of_an_older_epoch_than_the_log_knows(k: Stage) -> None:
    """It is refused before its transaction is asked for, in both forms; the partition is not added."""
    topic, p = k.topic(), begin_producer(k)
    produce(p.line, topic, batch(b"a", producer_id=p.id, epoch=p.epoch + 1, sequence=0), version=11)
    for version in (10, 11, 12):
        write(p, topic, b"b", version=version)
    k.line("watch").call("describe_transactions", 0, transactional_ids=[p.transactional_id])


@story("O-101 O-131")
def a_committed_transaction_is_seen_when_it_is_over(k: Stage) -> None:
    """Readers of committed records stop before it; then they see records and marker."""
    topic, p = write_in_transaction(k, b"a", b"b")
    fetch(k, topic)
    fetch(k, topic, isolation_level=COMMITTED)
    offsets(k, topic, -1)
    offsets(k, topic, -1, isolation_level=COMMITTED)
    p.end(True)
    await_stable_offset(k, topic, 3)
    fetch(k, topic, isolation_level=COMMITTED)


@story("O-101 O-132")
def an_aborted_transaction_is_named_to_readers(k: Stage) -> None:
    """Its records are in the log; the fetch of committed records says which producer's to drop."""
    topic, p = write_in_transaction(k, b"a")
    p.end(False)
    await_stable_offset(k, topic, 2)
    produce(k.line("q"), topic, batch(b"plain"))
    fetch(k, topic, isolation_level=COMMITTED)
    fetch(k, topic)


@story("O-131")
def what_is_behind_an_open_transaction_waits(k: Stage) -> None:
    """A plain record after it is not read as committed until it is over."""
    topic, p = write_in_transaction(k, b"open")
    produce(k.line("q"), topic, batch(b"plain"))
    fetch(k, topic, isolation_level=COMMITTED)
    p.end(True)
    await_stable_offset(k, topic, 3)
    fetch(k, topic, isolation_level=COMMITTED)


@story("V-003")
def the_second_form_needs_no_adding(k: Stage) -> None:
    """Produce v12 adds the partition; each end raises the epoch, and sequences begin anew."""
    topic = k.topic()
    p = begin_producer(k, version=5)
    write(p, topic, b"a", version=12)
    p.end(True, version=5)
    await_stable_offset(k, topic, 2)
    write(p, topic, b"b", version=12)
    p.end(False, version=5)
    await_stable_offset(k, topic, 4)
    fetch(k, topic, isolation_level=COMMITTED)


@story("V-003 V-007")
def sequences_of_the_second_form_begin_at_zero(k: Stage) -> None:
    """A producer that the log does not know begins at 0, and after each end of a transaction again."""
    topic = k.topic()
    p = begin_producer(k, version=5)
    for sequence in (3, 0, 2, 1, 0):
        write(p, topic, b"%d" % sequence, sequence=sequence, version=12)
    p.end(True, version=5)
    await_stable_offset(k, topic, 3)
    for sequence in (2, 1, 0):
        write(p, topic, b"%d" % sequence, sequence=sequence, version=12)


@story("O-116 V-007")
def sequences_of_the_first_form_begin_anywhere(k: Stage) -> None:
    """But not behind a batch of the producer that was refused, because the partition was not added."""
    topic, other = k.topic(), k.topic("other")
    p = begin_producer(k)
    p.add_partitions(topic)
    write(p, topic, b"3", sequence=3)
    write(p, topic, b"4", sequence=4)
    for sequence in (3, 4):
        write(p, other, b"early", sequence=sequence)
    p.add_partitions(other)
    for sequence in (4, 3, 4):
        write(p, other, b"%d" % sequence, sequence=sequence)
    p.end(True)
    await_stable_offset(k, other, 3)
    write(p, other, b"5", sequence=5)


@story("O-116 V-007")
def a_plain_batch_while_a_transaction_is_open(k: Stage) -> None:
    """It is refused, with the transactional id and without; when the transaction is over, it is appended."""
    topic, p = write_in_transaction(k, b"a")
    plain = batch(b"plain", producer_id=p.id, epoch=p.epoch, sequence=1)
    produce(p.line, topic, plain, version=11, transactional_id=p.transactional_id)
    produce(p.line, topic, plain, version=11)
    p.end(True)
    await_stable_offset(k, topic, 2)
    produce(p.line, topic, plain, version=11)
    fetch(k, topic)


@story("O-132")
def aborted_transactions_that_overlap(k: Stage) -> None:
    """A fetch names those that reach beyond its offset, also where their first records are deleted."""
    topic, one = write_in_transaction(k, b"a")
    other = begin_producer(k, "q")
    other.add_partitions(topic)
    write(other, topic, b"b")
    one.end(False)
    await_stable_offset(k, topic, 1)
    other.end(False)
    await_stable_offset(k, topic, 4)
    for offset in range(5):
        fetch(k, topic, offset, isolation_level=COMMITTED)
    k.line("admin").call(
        "delete_records",
        2,
        topics=[{"name": topic, "partitions": [{"partition_index": 0, "offset": 2}]}],
        timeout_ms=1000,
    )
    for offset in range(1, 4):
        fetch(k, topic, offset, isolation_level=COMMITTED)


@story("O-101")
def transactions_that_cannot_end(k: Stage) -> None:
    """Nothing was begun: the first form forgives neither commit nor abort without a transaction; unknown ids are not mapped."""
    p = begin_producer(k)
    for version in (0, 3, 4):
        p.end(True, version=version)
        p.end(False, version=version)
    p.end(True, transactional_id=k.name("nobody"))
    p.end(True, transactional_id="")


@story("V-003")
def an_end_of_nothing_in_the_second_form(k: Stage) -> None:
    """Abort is fine and raises the epoch; commit is not."""
    p = begin_producer(k, version=5)
    p.end(True, version=5)
    p.end(False, version=5)
    p.end(False, version=5)


@story("O-101")
def an_end_may_be_asked_for_again(k: Stage) -> None:
    """The same end twice is fine, the other one is not."""
    topic, p = write_in_transaction(k, b"a")
    p.end(True)
    await_stable_offset(k, topic, 2)
    p.end(True)
    p.end(False)


@story("O-116")
def partitions_are_added_in_every_version(k: Stage) -> None:
    """Versions 0 to 3 for one transaction; an unknown topic spoils the others, which are not attempted."""
    topic = k.topic(partitions=3)
    p = begin_producer(k)
    for version in range(4):
        p.add_partitions(topic, 0, 1, version=version)
    p.add_partitions(k.name("none"))
    both = [{"name": topic, "partitions": [2]}, {"name": k.name("none"), "partitions": [0]}]
    p.add_partitions(topic, v3_and_below_topics=both)
    p.add_partitions(topic, 2, 9)


@story("O-116")
def partitions_of_a_transaction_that_are_named_twice(k: Stage) -> None:
    """Where one is refused each is told once, and so where they are verified; else as the request names them."""
    topic = k.topic(partitions=3)
    p = begin_producer(k)
    me = {"transactional_id": k.name("x"), "producer_id": p.id, "producer_epoch": p.epoch}
    for numbers in ([0, 0], [0, 0, 9]):
        topics = [{"name": topic, "partitions": numbers}, {"name": topic, "partitions": [0]}]
        p.add_partitions(topic, v3_and_below_topics=topics)
        for verify_only in (False, True):
            of = [{**me, "verify_only": verify_only, "topics": topics}]
            k.line("broker").call("add_partitions_to_txn", 5, transactions=of)


@story("O-116")
def two_transactions_of_one_id(k: Stage) -> None:
    """Only brokers ask so, and none names one twice. Kafka tells of the partitions of the first, twice."""
    one, other = k.topic("one"), k.topic("other")
    p = begin_producer(k)
    me = {"transactional_id": k.name("x"), "producer_id": p.id, "producer_epoch": p.epoch, "verify_only": False}
    of = [{**me, "topics": [{"name": name, "partitions": [0]}]} for name in (one, other)]
    k.line("broker").call("add_partitions_to_txn", 5, transactions=of)


@story("O-116")
def partitions_of_a_producer_that_is_not_this_one(k: Stage) -> None:
    """Wrong id, wrong epoch, unknown transactional id."""
    topic = k.topic()
    p = begin_producer(k)
    p.add_partitions(topic, v3_and_below_producer_id=p.id + FAR)
    p.add_partitions(topic, v3_and_below_producer_epoch=p.epoch + 1)
    p.add_partitions(topic, v3_and_below_transactional_id=k.name("nobody"))
    p.add_partitions(topic, version=1, v3_and_below_producer_epoch=p.epoch + 1)


@story("O-116 V-003")
def a_fenced_producer_cannot_write(k: Stage) -> None:
    """Its successor has begun: its open transaction is aborted, and it is refused everywhere."""
    topic = k.topic()
    old = begin_producer(k, "old", "same")
    old.add_partitions(topic)
    write(old, topic, b"a")
    Producer(k, "new", "same").begin_eventually()
    await_stable_offset(k, topic, 2)
    write(old, topic, b"b", sequence=1)
    old.add_partitions(topic)
    old.end(True)
    fetch(k, topic, isolation_level=COMMITTED)


@story("O-101")
def a_transaction_that_takes_too_long(k: Stage) -> None:
    """After its time it is aborted, and its producer fenced."""
    topic, p = write_in_transaction(k, b"a", timeout_ms=600)
    await_stable_offset(k, topic, 2)
    write(p, topic, b"b", sequence=1)
    p.end(True)


@story("O-100")
def transactions_are_described(k: Stage) -> None:
    """Before, in and after a transaction; an unknown one is not there."""
    topic = k.topic(partitions=2)
    p = begin_producer(k)
    watch = k.line("watch")
    watch.call("describe_transactions", 0, transactional_ids=[p.transactional_id, k.name("nobody"), ""])
    p.add_partitions(topic, 0, 1)
    watch.call("describe_transactions", 0, transactional_ids=[p.transactional_id])
    p.end(True)
    watch.eventually(
        "describe_transactions",
        0,
        lambda answer: bool(answer.transaction_states[0].transaction_state == "CompleteCommit"),
        transactional_ids=[p.transactional_id],
    )


@story("O-100")
def transactions_are_listed(k: Stage) -> None:
    """All, by state (an unknown one is named), by producer id, by how long they last."""
    topic = k.topic()
    p, q = Producer(k, "p"), Producer(k, "q")
    for one in (p, q):
        one.begin()
    p.add_partitions(topic)
    mine = "transaction_states.transactional_id"
    watch = k.line("watch")
    for states in ([], ["Ongoing"], ["Empty", "Ongoing"], ["Bogus"]):
        watch.call("list_transactions", 0, mine=mine, state_filters=states)
    watch.call("list_transactions", 1, mine=mine, producer_id_filters=[q.id])
    watch.call("list_transactions", 1, mine=mine, duration_filter=0)
    watch.call("list_transactions", 1, mine=mine, duration_filter=600_000)


@story("O-100")
def the_producers_of_a_partition_are_described(k: Stage) -> None:
    """Their epochs, last sequences, and where an open transaction begins."""
    topic = k.topic(partitions=2)
    p = begin_producer(k)
    p.add_partitions(topic)
    produce(k.line("q"), topic, batch(b"plain"))
    write(p, topic, b"a", b"b")
    wanted = [{"name": topic, "partition_indexes": [0, 1, 5]}, {"name": k.name("none"), "partition_indexes": [0]}]
    k.line("watch").call("describe_producers", 0, topics=wanted)
    p.end(True)
    await_stable_offset(k, topic, 4)
    k.line("watch").call("describe_producers", 0, topics=[{"name": topic, "partition_indexes": [0]}])


def raised(p: Producer, epoch: int) -> None:
    """Ask for producer ids, many at a time, until the epoch is this one. Stage setting: not in the transcript."""
    p.begin()
    p.line.wire.pump.skip_epochs(p.transactional_id, epoch - 500)
    while p.epoch < epoch:
        flights = [p.line.wire.send("init_producer_id", 4, p.start()) for _ in range(min(500, epoch - p.epoch))]
        answers = [p.line.arrive(flight, 60_000) for flight in flights]
        p.id, p.epoch = answers[-1]["producer_id"], answers[-1]["producer_epoch"]


@story("O-100", server="epochs")
def the_epochs_of_a_producer_id_come_to_their_end(k: Stage) -> None:
    """From 32,765 on: each InitProducerId raises the epoch until another producer id begins at 0."""
    p = Producer(k)
    raised(p, 32_765)
    for _ in range(3):
        p.begin()


@story("O-100", server="epochs")
def the_last_epoch_with_a_transaction_open(k: Stage) -> None:
    """At 32,765 a transaction is open and InitProducerId aborts it; EndTxn is asked for again at 32,765 and 32,766."""
    topic = k.topic()
    p = Producer(k)
    raised(p, 32_765)
    p.add_partitions(topic)
    p.begin()
    k.pause(500)
    for epoch in (32_765, 32_766):
        p.end(False, version=5, producer_epoch=epoch)
    p.begin_eventually()
    k.line("watch").call("describe_transactions", 0, transactional_ids=[p.transactional_id])


@story("O-100", server="epochs")
def the_last_epochs_are_used_up_by_transactions(k: Stage) -> None:
    """From 32,764 on each EndTxn of version 5 raises the epoch, until another producer id begins at 0."""
    topic = k.topic()
    p = Producer(k)
    raised(p, 32_764)
    for committed in (True, False, True):
        p.add_partitions(topic)
        p.end(committed, version=5)
        k.pause(300)
    k.line("watch").call("describe_transactions", 0, transactional_ids=[p.transactional_id])
