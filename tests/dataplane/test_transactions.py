"""Records in transactions: who may write them, who may read them, and what a crash at any step leaves."""

import errno

import pytest

from coordinator.core.transactions.states import State
from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnRequestTopic
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.write_txn_markers import (
    WriteTxnMarkersRequest,
    WriteTxnMarkersRequestWritableTxnMarker,
    WriteTxnMarkersRequestWritableTxnMarkerTopic,
)
from storage.files import StorageError
from storage.producers import PRODUCER_BYTES
from tests.dataplane.broker import NODES, NOW, Broker, batch, call, read_values
from tests.dataplane.transactional import transactional_batch
from tests.requests import commit_in_transaction, fetch, fetch_offsets, produce
from tests.steps import finish
from tests.storage.crashing_disk import CrashingDisk


def add(broker: Broker, producer: tuple[int, int], *partitions: int) -> None:
    topics = (AddPartitionsToTxnRequestTopic("t", partitions),)
    answer = broker.ask(AddPartitionsToTxnRequest((), "x", *producer, topics), version=3)
    assert answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code == 0


def end(broker: Broker, producer: tuple[int, int], committed: bool = True, version: int = 5) -> tuple[int, int]:
    answer = broker.ask(EndTxnRequest("x", *producer, committed), version=version)
    assert answer.error_code == 0, answer
    return answer.producer_id, answer.producer_epoch


def test_readers_of_committed_records_wait_for_the_end(broker: Broker) -> None:
    producer = broker.producer("x")
    broker.produce("t", 0, transactional_batch(producer, "a"), txn="x")
    broker.produce("t", 0, batch("b"))
    assert broker.ask(fetch("t", max_wait_ms=500, isolation_level=1), ticket=7) is None
    data = broker.fetch("t", isolation_level=1)
    assert (data.high_watermark, data.last_stable_offset, data.records) == (2, 0, b"")
    end(broker, producer)
    ((_, answer),) = broker.replies()
    assert read_values(answer.responses[0].partitions[0].records) == ["a", "b"]


@pytest.mark.parametrize(
    ("version", "ended_by", "error"),
    [
        (11, 4, ErrorCode.TRANSACTION_ABORTABLE),  # the partition is in none of the same epoch any more
        (11, 5, ErrorCode.INVALID_PRODUCER_EPOCH),
        (12, 5, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_a_transaction_that_ends_between_two_steps_takes_nothing(
    broker: Broker, version: int, ended_by: int, error: ErrorCode
) -> None:
    """A large batch is validated in steps, and other requests are decided in between: nobody would end what came in."""
    producer = broker.producer("x")
    add(broker, producer, 0)
    request = produce("t", {0: transactional_batch(producer, *("v" for _ in range(10_000)))}, transactional_id="x")
    steps = broker.plane.handle(request, call(request, 7, version, NOW), NODES).steps
    next(steps)
    end(broker, producer, version=ended_by)
    (result,) = finish(steps).response.responses[0].partition_responses
    data = broker.fetch("t", isolation_level=1)
    assert (result.error_code, data.last_stable_offset) == (error, data.high_watermark)


@pytest.mark.parametrize(
    ("version", "error"),
    [(9, ErrorCode.INVALID_TXN_STATE), (10, ErrorCode.INVALID_TXN_STATE), (11, ErrorCode.TRANSACTION_ABORTABLE)],
)
def test_a_batch_that_nobody_announced(broker: Broker, version: int, error: ErrorCode) -> None:
    producer = broker.producer("x")
    before = broker.files.contents()
    assert broker.produce("t", 0, transactional_batch(producer, "a"), txn="x", version=version).error_code == error
    assert broker.files.contents() == before
    unverified = Broker(broker.files.copy(), transaction_partition_verification_enable=False)
    assert unverified.produce("t", 0, transactional_batch(producer, "a"), txn="x", version=version).error_code == 0


@pytest.mark.parametrize("other", range(7))
def test_a_request_speaks_for_one_producer(broker: Broker, other: int) -> None:
    """One id in one epoch. Partitions that are not there, and batches of no transaction, count for nothing. Kafka:
    `ReplicaManager.handleProduceAppend`."""
    producer = (producer_id, epoch) = broker.producer("x")
    plain = batch("b", producer_id=producer_id + 1, producer_epoch=0, base_sequence=0)
    partition, second = [
        (1, transactional_batch(producer, "b")),
        (1, transactional_batch((producer_id + 1, epoch), "b")),
        (1, transactional_batch((producer_id, epoch + 1), "b")),
        (7, transactional_batch((producer_id + 1, epoch), "b")),
        (1, plain),
        (1, batch("b")),
        (1, transactional_batch((producer_id + 1, epoch), "b")[:-1]),
    ][other]
    request = produce("t", {0: transactional_batch(producer, "a"), partition: second}, "x")
    codes = [one.error_code for one in broker.ask(request, version=12).responses[0].partition_responses]
    if other in (1, 2):
        assert codes == [ErrorCode.INVALID_PRODUCER_ID_MAPPING] * 2
    else:
        assert codes[0] == ErrorCode.NONE


def test_a_producer_writes_nothing_beside_its_open_transaction(broker: Broker) -> None:
    producer = broker.producer("x")
    assert broker.produce("t", 0, transactional_batch(producer, "a"), txn="x").error_code == ErrorCode.NONE
    plain = batch("b", producer_id=producer[0], producer_epoch=producer[1], base_sequence=1)
    assert broker.produce("t", 0, plain).error_code == ErrorCode.INVALID_TXN_STATE


def test_a_late_batch_of_an_ended_transaction_is_fenced(broker: Broker) -> None:
    """KIP-890: the end raised the epoch, so what arrives after the marker opens nothing that nobody would close."""
    producer = broker.producer("x")
    broker.produce("t", 0, transactional_batch(producer, "a"), txn="x")
    end(broker, producer)
    late = broker.produce("t", 0, transactional_batch(producer, "b", sequence=1), txn="x")
    assert late.error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert broker.values("t", committed=True) == ["a"]


def test_a_topic_that_goes_does_not_hold_up_the_end(broker: Broker) -> None:
    producer = broker.producer("x")
    broker.create("u")
    broker.produce("t", 0, transactional_batch(producer, "a"), txn="x")
    broker.produce("u", 0, transactional_batch(producer, "b"), txn="x")
    broker.delete("u")
    end(broker, producer)
    assert broker.values("t", committed=True) == ["a"]


def test_what_is_open_in_a_log_and_in_no_transaction_is_aborted(broker: Broker) -> None:
    """A power cut may lose that the transaction began, and keep its records: nobody would ever end it."""
    before = broker.files.contents()
    producer = broker.producer("x")
    broker.produce("t", 0, transactional_batch(producer, "a"), txn="x")
    files = broker.files.copy()
    for path in [path for path in before if path.startswith("data/__muster_catalog-0")]:
        files.put(path, before[path])
    after = Broker(files)
    assert after.values("t", committed=True) == []
    after.produce("t", 0, batch("b"))
    assert after.values("t", committed=True) == ["b"]


# -- many partitions ---------------------------------------------------------------------------------------------------------

MANY = 30


def begin_wide(is_synced: bool = False) -> tuple[Broker, tuple[int, int]]:
    """Begin a transaction over many partitions without a record, whose logs are made with its markers."""
    broker = Broker(topics={"t": MANY}, is_synced=is_synced)
    producer = broker.producer("x")
    add(broker, producer, *range(MANY))
    return broker, producer


def begin_end(broker: Broker, producer: tuple[int, int]) -> None:
    """Ask for the end of the transaction, which is decided at once, and do some of its steps."""
    request = EndTxnRequest("x", *producer, True)
    assert broker.node.engine.handle(26, request, call(request, version=4), NODES).response.error_code == 0
    broker.node.engine.flush()
    for _ in range(MANY // 2):
        broker.node.engine.long_requests.step()
        broker.node.engine.flush()


def do_steps(broker: Broker) -> None:
    while broker.node.engine.unfinished:
        broker.node.engine.long_requests.step()
        broker.node.engine.flush()
    broker.node.engine.append()


def count_markers(broker: Broker) -> list[int]:
    logs = broker.plane._state.logs
    return [logs.log("t", index).end_offset for index in range(MANY)]


def state_of(broker: Broker) -> State:
    return broker.ledger.transactions.by_id["x"].state


def test_the_markers_of_many_partitions_are_written_in_steps() -> None:
    """A log that is made waits for the disk: others have their turn in between, and the producer waits for the end."""
    broker, producer = begin_wide()
    begin_end(broker, producer)
    assert 0 < sum(count_markers(broker)) < MANY
    assert state_of(broker) is State.PREPARE_COMMIT
    again = InitProducerIdRequest("x", 60_000)
    answer = broker.node.engine.handle(22, again, call(again, version=5), NODES).response
    assert answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    broker.node.engine.recorder.finish_transactions(NOW)
    do_steps(broker)
    assert count_markers(broker) == [1] * MANY, "once each"
    assert state_of(broker) is State.COMPLETE_COMMIT


def test_markers_that_a_crash_has_cut_off_are_written_at_the_next_start() -> None:
    broker, producer = begin_wide()
    begin_end(broker, producer)
    after = Broker(broker.files.copy())
    do_steps(after)
    assert min(count_markers(after)) == 1
    assert state_of(after) is State.COMPLETE_COMMIT


def test_a_transaction_is_not_complete_if_one_of_its_markers_is_lost_before_the_last_is_written() -> None:
    broker, producer = begin_wide(is_synced=True)
    begin_end(broker, producer)
    written = count_markers(broker).index(1)
    broker.plane._state.logs._dirty[("t", written)] = broker.plane._state.logs.log("t", written)
    broker.plane._state.close_failed_partition(
        "t", written, StorageError("sync", "log", errno.EMFILE, "no descriptor is left")
    )
    do_steps(broker)
    assert state_of(broker) is State.PREPARE_COMMIT
    broker.node.engine.recorder.finish_transactions(NOW)
    do_steps(broker)
    assert state_of(broker) is State.COMPLETE_COMMIT


# -- crashes ---------------------------------------------------------------------------------------------------------------

GROUP = "g"
ONE_PARTITION = {"offsets_topic_num_partitions": 1}


def run(broker: Broker, version: int, producer: tuple[int, int], number: int, committed: bool) -> tuple[int, int]:
    """One transaction: a record with its number, and its number as the group's offset."""
    sequence = number if version == 1 else 0  # which begins anew with each epoch
    if version == 1:
        add(broker, producer, 0)
        broker.ask(AddOffsetsToTxnRequest("x", *producer, GROUP), version=3)
    record = transactional_batch(producer, str(number), sequence=sequence)
    assert broker.produce("t", 0, record, txn="x", version=9 if version == 1 else 12).error_code == 0
    request = commit_in_transaction("x", GROUP, producer, {"t": {0: number}})
    answer = broker.ask(request, version=3 if version == 1 else 5)
    assert answer.topics[0].partitions[0].error_code == 0, answer
    ended = end(broker, producer, committed, version=4 if version == 1 else 5)
    return producer if version == 1 else ended


def offset(broker: Broker) -> int:
    answer = broker.ask(fetch_offsets(GROUP, {"t": (0,)}, require_stable=True), version=8)
    one = answer.groups[0].topics[0].partitions[0]
    assert one.error_code == 0, one
    return int(one.committed_offset)


def begin(broker: Broker) -> tuple[int, int]:
    """What a producer does when it starts: it asks until what was open under its id has ended."""
    for _ in range(3):
        answer = broker.ask(InitProducerIdRequest("x", 60_000), version=5)
        if answer.error_code == 0:
            return answer.producer_id, answer.producer_epoch
        assert answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    raise AssertionError("the transaction never ends")


STORY = (True, False, True, False, True)  # which of the transactions commit
Found = tuple[
    str, CrashingDisk, int
]  # how the crash went, what it left, how many transactions were acknowledged by then


def crashed(version: int, is_synced: bool) -> list[Found]:
    """What a crash at each call to the disk may leave of the story."""
    files, found = CrashingDisk(), []
    broker = Broker(files, is_synced=is_synced, topics={"t": 1}, **ONE_PARTITION)
    producer, ended = begin(broker), 0

    def after_call(operation: str, path: str) -> None:
        for how, disk in files.crashes():
            if is_synced or how == "killed":
                found.append((f"{how} after {operation} {path}", disk, ended))

    files.after_call = after_call
    for number, committed in enumerate(STORY):
        producer = run(broker, version, producer, number, committed)
        ended = number + 1
    return found


def test_that_a_record_has_begun_a_transaction_is_on_the_disk_with_the_record() -> None:
    """With --fsync: else a power cut would end a transaction of which the producer was told that it goes on."""
    files = CrashingDisk()
    broker = Broker(files, is_synced=True, topics={"t": 1}, **ONE_PARTITION)
    producer = begin(broker)
    assert broker.produce("t", 0, transactional_batch(producer, "0"), txn="x").error_code == 0
    for how, disk in files.crashes():
        after = Broker(disk, is_synced=True, topics={"t": 1}, **ONE_PARTITION)
        assert ("t", 0) in after.ledger.transactions.by_id["x"].partitions, how


@pytest.mark.rule("O-102")
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(("is_synced", "every"), [(False, 1), (True, 5), pytest.param(True, 1, marks=pytest.mark.long)])
def test_an_offset_is_visible_if_and_only_if_its_transaction_committed(
    version: int, is_synced: bool, every: int
) -> None:
    """With the process killed, and with --fsync with the power cut, at every call to the disk."""
    crashes = crashed(version, is_synced)
    assert len(crashes) > 30
    for how, disk, ended in crashes[::every]:
        broker = Broker(disk, is_synced=is_synced, topics={"t": 1}, **ONE_PARTITION)
        begin(broker)
        values = broker.values("t", committed=True)
        by_then = [[str(n) for n in range(upto) if STORY[n]] for upto in (ended, min(ended + 1, len(STORY)))]
        assert values in by_then, f"{how}, {ended} were acknowledged"
        assert offset(broker) == (int(values[-1]) if values else -1), f"{how}, {ended} were acknowledged"


@pytest.mark.parametrize("age", [-1, 0, 1], ids=["older", "same", "newer"])
@pytest.mark.parametrize("committed", [True, False])
def test_an_administrator_s_marker_is_judged_alike_in_every_topic(age: int, committed: bool) -> None:
    """One of an older epoch ends nothing, neither records nor offsets."""
    broker = Broker(topics={"t": 1}, offsets_topic_num_partitions=1)
    broker.producer("x")
    producer = broker.producer("x")
    assert producer[1] > 0
    broker.produce("t", 0, transactional_batch(producer, "a"), txn="x")
    assert broker.ask(commit_in_transaction("x", "g", producer, {"t": {0: 7}})).topics[0].partitions[0].error_code == 0

    topics = tuple(WriteTxnMarkersRequestWritableTxnMarkerTopic(name, (0,)) for name in ("t", "__consumer_offsets"))
    marker = WriteTxnMarkersRequestWritableTxnMarker(producer[0], producer[1] + age, committed, topics, 0)
    (answer,) = broker.ask(WriteTxnMarkersRequest((marker,))).markers
    codes = [one.error_code for topic in answer.topics for one in topic.partitions]
    is_ended = age >= 0
    assert codes == [ErrorCode.NONE if is_ended else ErrorCode.INVALID_PRODUCER_EPOCH] * 2
    for there in (broker, Broker(broker.files.copy(), topics={"t": 1}, offsets_topic_num_partitions=1)):
        (group,) = there.ask(fetch_offsets("g", {"t": (0,)}), version=8).groups
        assert group.topics[0].partitions[0].committed_offset == (7 if is_ended and committed else -1)
        assert (broker.fetch("t", isolation_level=1).last_stable_offset == 2) == is_ended
        assert broker.values("t", committed=True) == (["a"] if is_ended and committed else [])
    # What a log knows of a newer epoch counts against an older one, whatever the transaction says.
    error = ErrorCode.INVALID_PRODUCER_EPOCH if age > 0 else ErrorCode.NONE
    assert broker.produce("t", 0, transactional_batch(producer, "b", sequence=1), txn="x").error_code == error
    for version in (4, 5):
        told = broker.ask(commit_in_transaction("x", "g", producer, {"t": {0: 8}}), version=version)
        assert told.topics[0].partitions[0].error_code == error


@pytest.mark.parametrize("ahead", [-1, 0, 1])
def test_an_open_transaction_goes_on_in_its_own_epoch_only(ahead: int) -> None:
    """Of records and of offsets alike, whether partitions are added before or join by themselves (KIP-890)."""
    broker = Broker(topics={"t": 1})
    broker.producer("x")
    producer_id, epoch = producer = broker.producer("x")
    broker.produce("t", 0, transactional_batch(producer, "a"), txn="x")
    assert broker.ask(commit_in_transaction("x", "g", producer, {"t": {0: 7}})).topics[0].partitions[0].error_code == 0
    error = ErrorCode.INVALID_PRODUCER_EPOCH if ahead else ErrorCode.NONE
    for number, (of_records, of_offsets) in enumerate(((11, 4), (12, 5)), 1):
        other = producer_id, epoch + ahead
        told = broker.ask(commit_in_transaction("x", "g", other, {"t": {0: 8}}), version=of_offsets)
        assert told.topics[0].partitions[0].error_code == error
        data = transactional_batch(other, "b", sequence=0 if ahead > 0 else number)
        assert broker.produce("t", 0, data, txn="x", version=of_records).error_code == error


@pytest.mark.parametrize("topic", ["t", "__consumer_offsets"])
def test_no_id_that_an_administrator_writes_is_an_end_of_ids(topic: str) -> None:
    """No producer gets an id that a log knows; but there are always more of them."""
    broker = Broker(topics={"t": 1}, offsets_topic_num_partitions=1)
    for producer_id in (2**63 - 1, 2**62, 1_000):
        topics = (WriteTxnMarkersRequestWritableTxnMarkerTopic(topic, (0,)),)
        marker = WriteTxnMarkersRequestWritableTxnMarker(producer_id, 0, False, topics, 0)
        (answer,) = broker.ask(WriteTxnMarkersRequest((marker,))).markers
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    broker.node.close()
    again = Broker(broker.files, topics={"t": 1}, offsets_topic_num_partitions=1)
    assert broker.values("t") == []
    known, _ = again.producer()
    assert (known > 1_000 if topic != "t" else known >= 0) and known < 2**62
    assert again.produce("t", 0, batch("a", producer_id=known, producer_epoch=0, base_sequence=0)).error_code == 0


@pytest.mark.parametrize("is_loaded", [False, True])
def test_what_logs_know_of_producers_is_bounded_for_all_of_them_together(is_loaded: bool) -> None:
    """Those of `__consumer_offsets` among them: whoever may write markers can name any number of producers there."""
    fields: dict[str, object] = {"offsets_topic_num_partitions": 2, "producer_ids_max_bytes": 65_536}
    broker = Broker(topics={"t": 1}, **fields)
    places = (("t", 0), ("__consumer_offsets", 0), ("__consumer_offsets", 1))
    for number in range(300):
        if number == 10 and is_loaded:
            broker.node.close()
            broker = Broker(broker.files, topics={"t": 1}, **fields)
        topics = tuple(WriteTxnMarkersRequestWritableTxnMarkerTopic(topic, (index,)) for topic, index in places)
        marker = WriteTxnMarkersRequestWritableTxnMarker(1_000 + number, 0, False, topics, 0)
        (answer,) = broker.ask(WriteTxnMarkersRequest((marker,))).markers
        assert {one.error_code for topic in answer.topics for one in topic.partitions} == {ErrorCode.NONE}
        broker.node.engine.flush()
        state = broker.node.world.dataplane._state
        known = [len(log.producers.items()) for at in places if (log := state.log(*at)) is not None]
        assert sum(known) == broker.node.world.dataplane.producers.count <= 65_536 // PRODUCER_BYTES
    assert all(known)
