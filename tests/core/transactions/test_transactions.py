"""Transactions as the stories do not show them: whatever happens, many at once, and those that nobody uses."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from coordinator.core import pace, regex
from coordinator.core.catalog.records import CatalogRecord, TransactionKey, decode, encode
from coordinator.core.catalog.settings import Settings
from coordinator.core.prices import Held
from coordinator.core.result import STEP_ENTRIES, Call, Markers, Result
from coordinator.core.topics import Topic, Topics
from coordinator.core.transactions.add_partitions_to_txn import add_partitions_to_txn
from coordinator.core.transactions.ending import complete, fence
from coordinator.core.transactions.expiry import forget_unused_ids
from coordinator.core.transactions.membership import verify_partition
from coordinator.core.transactions.states import State
from coordinator.core.transactions.transaction import EPOCH_MAX, Transaction
from coordinator.core.transactions.transactions import Transactions
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
    AddPartitionsToTxnRequestTransaction,
)
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_transactions import ListTransactionsRequest
from tests.core.decide import decide
from tests.steps import count_steps, finish

TOPICS = Topics([Topic("t", b"t" * 16, 4)])
V1, V2 = 4, 5  # the versions of EndTxn with and without KIP-890


class TransactionsDriver:
    """Transactions, and what was written of them. Markers are written, and a transaction complete, when `finish` says so.

    Whatever a producer id stands for, it was noted as given out: another producer must not be given it.
    """

    def __init__(self) -> None:
        self.transactions = Transactions(Settings())
        self.now_ms = 1_000
        self.log: list[CatalogRecord] = []
        self.markers: list[Markers] = []

    def take(self, outcome: Result[Any]) -> Any:
        for record in outcome.records:
            self.log.append(decode(*encode(record)))
            self.transactions.replay(record)
            if isinstance(record.key, TransactionKey) and record.value is not None:
                one = self.at(record.key.transactional_id)
                ids = {one.producer_id, one.next_producer_id, one.previous_producer_id}
                assert max(ids) < self.transactions.next_producer_id
        self.markers += [effect for effect in outcome.effects if isinstance(effect, Markers)]
        return outcome.response

    def time_out(self, now_ms: int) -> None:
        for transaction in self.transactions.pop_overdue(now_ms, 10):
            self.take(fence(transaction, now_ms))

    def call(self, version: int) -> Call:
        return Call(1, self.now_ms, version, "c", "/h", lambda: "")

    def ask(self, request: Any, version: int = 5) -> Any:
        outcome = decide("transactions", self.transactions, request, self.call(version))
        return outcome if not isinstance(outcome, Result) else self.take(outcome)

    def init(
        self, name: str = "x", producer: tuple[int, int] = (-1, -1), timeout_ms: int = 60_000
    ) -> tuple[int, int] | ErrorCode:
        answer = self.ask(InitProducerIdRequest(name, timeout_ms, *producer), 6)
        return ErrorCode(answer.error_code) if answer.error_code else (answer.producer_id, answer.producer_epoch)

    def begun(self, name: str = "x") -> tuple[int, int]:
        found = self.init(name)
        assert isinstance(found, tuple), found
        return found

    def add(self, producer: tuple[int, int], *partitions: int, name: str = "x") -> None:
        request = AddPartitionsToTxnRequest((), name, *producer, (AddPartitionsToTxnRequestTopic("t", partitions),))
        self.add_all(request, 3)

    def add_all(self, request: AddPartitionsToTxnRequest, version: int) -> Any:
        """Take each result before the next one is decided. Returns the response."""
        decisions = add_partitions_to_txn(self.transactions, TOPICS, request, self.call(version))
        return [self.take(result) for result in decisions][-1]

    def end(self, producer: tuple[int, int], committed: bool = True, version: int = V2, name: str = "x") -> Any:
        answer = self.ask(EndTxnRequest(name, *producer, committed), version)
        if answer.error_code:
            return ErrorCode(answer.error_code)
        return (answer.producer_id, answer.producer_epoch) if version >= V2 else ErrorCode.NONE

    def finish(self) -> list[Markers]:
        """Write all markers; what they say."""
        written, self.markers = self.markers, []
        for one in written:
            self.take(complete(self.transactions, one.transactional_id, self.now_ms))
        return written

    def at(self, name: str = "x") -> Transaction:
        return self.transactions.by_id[name]


@pytest.fixture
def driver() -> TransactionsDriver:
    return TransactionsDriver()


def restored(driver: TransactionsDriver) -> Transactions:
    """The transactions read back from the log."""
    transactions = Transactions(driver.transactions.settings)
    for record in driver.log:
        transactions.replay(record)
    return transactions


def test_brokers_ask_for_several_transactions_at_once(driver: TransactionsDriver) -> None:
    x, y = driver.begun("x"), driver.begun("y")
    driver.add(x, 1)
    one = AddPartitionsToTxnRequestTransaction
    topics = (AddPartitionsToTxnRequestTopic("t", (1, 2)),)
    request = AddPartitionsToTxnRequest((one("x", *x, True, topics), one("y", *y, False, topics)))
    answer = driver.add_all(request, 5)
    found = {
        result.transactional_id: [p.partition_error_code for p in result.topic_results[0].results_by_partition]
        for result in answer.results_by_transaction
    }
    assert found == {"x": [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE], "y": [0, 0]}
    assert driver.at("x").partitions == {("t", 1)}
    assert driver.at("y").partitions == {("t", 1), ("t", 2)}
    assert verify_partition(driver.transactions, "y", y, ("t", 3)) == ErrorCode.TRANSACTION_ABORTABLE


def test_a_transaction_that_a_request_names_twice_has_the_partitions_of_both(driver: TransactionsDriver) -> None:
    x, one = driver.begun("x"), AddPartitionsToTxnRequestTransaction
    of = [(AddPartitionsToTxnRequestTopic("t", (index,)),) for index in (1, 2)]
    driver.add_all(AddPartitionsToTxnRequest(tuple([one("x", *x, False, topics) for topics in of])), 5)
    assert driver.at("x").partitions == {("t", 1), ("t", 2)}
    assert restored(driver).by_id["x"] == driver.at("x")


@pytest.mark.parametrize("version", [3, 5])
def test_many_topics_are_added_in_steps_and_written_once(
    driver: TransactionsDriver, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is told what became of it, in the order of the request; those of a refused one that it is not their fault."""
    monkeypatch.setattr(pace, "UNITS", 1)
    x, y, one = driver.begun("x"), driver.begun("y"), AddPartitionsToTxnRequestTransaction
    topics = [AddPartitionsToTxnRequestTopic("t", (index, index + 1)) for index in range(3)]
    wrong = (*topics, AddPartitionsToTxnRequestTopic("t", (9,)))
    before = len(driver.log)
    if version < 4:
        answer = driver.add_all(AddPartitionsToTxnRequest((), "x", *x, tuple(topics)), version)
        told = [answer.results_by_topic_v3_and_below]
        names = ["x"]
        expected = [[(index + more, ErrorCode.NONE) for index in range(3) for more in (0, 1)]]
    else:
        asked = (one("x", *x, False, tuple(topics)), one("y", *y, False, wrong), one("y", *y, False, tuple(topics)))
        answer = driver.add_all(AddPartitionsToTxnRequest(asked), version)
        told = [each.topic_results for each in answer.results_by_transaction]
        names = ["x", "y"]
        expected = [
            [(index + more, error) for index in range(3) for more in (0, 1)]
            for error in (ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED)
        ]
        expected[1] = [(index, ErrorCode.OPERATION_NOT_ATTEMPTED) for index in range(4)]  # each once
        expected[1].append((9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        expected.append(expected[0])
    assert [
        [(part.partition_index, part.partition_error_code) for topic in of for part in topic.results_by_partition]
        for of in told
    ] == expected
    written = [record.key for record in driver.log[before:]]
    assert written == [TransactionKey(name) for name in names]
    for name in names:
        assert driver.at(name).partitions == {("t", index) for index in range(4)}


LAST = (0, EPOCH_MAX - 1)


@pytest.fixture
def at_its_end(driver: TransactionsDriver) -> TransactionsDriver:
    """A producer whose epochs are used up."""
    driver.begun()
    driver.take(Result(records=(replace(driver.at(), producer_epoch=EPOCH_MAX - 1).record,)))
    return driver


def test_a_producer_that_missed_that_it_got_another_id_is_told_again(at_its_end: TransactionsDriver) -> None:
    """Also if it got that at the end of a transaction, whose response it has missed (KIP-890)."""
    assert [at_its_end.init(producer=LAST), at_its_end.init(producer=LAST)] == [(1, 0), (1, 0)]
    at_its_end.take(Result(records=(replace(at_its_end.at(), producer_epoch=EPOCH_MAX - 1).record,)))
    last = (1, EPOCH_MAX - 1)
    at_its_end.add(last, 2)
    assert at_its_end.end(last) == (2, 0)
    at_its_end.finish()
    assert at_its_end.init(producer=last) == (2, 0)
    assert at_its_end.init(producer=(2, 0)) == (2, 1)
    assert at_its_end.init(producer=last) == ErrorCode.PRODUCER_FENCED


def test_a_zombie_gets_no_new_id_in_the_place_of_a_producer_whose_epochs_are_used_up(
    at_its_end: TransactionsDriver,
) -> None:
    before = (0, EPOCH_MAX - 2)
    at_its_end.take(Result(records=(replace(at_its_end.at(), last_producer_epoch=before[1]).record,)))
    assert at_its_end.init(producer=(0, 5)) == ErrorCode.PRODUCER_FENCED
    assert at_its_end.init(producer=before) == LAST, "its answer got lost"
    assert at_its_end.init(producer=LAST) == (1, 0)


@pytest.mark.parametrize("version", [V1, V2])
def test_the_epoch_that_only_fences_is_nobody_s(at_its_end: TransactionsDriver, version: int) -> None:
    at_its_end.add(LAST, 2)
    at_its_end.time_out(at_its_end.now_ms + 60_000)
    assert at_its_end.at().producer_epoch == EPOCH_MAX
    at_its_end.finish()
    before = at_its_end.at()
    at_its_end.add((0, EPOCH_MAX), 1)
    assert at_its_end.end((0, EPOCH_MAX), False, version) == ErrorCode.PRODUCER_FENCED
    assert verify_partition(at_its_end.transactions, "x", (0, EPOCH_MAX), ("t", 2)) == ErrorCode.PRODUCER_FENCED
    assert at_its_end.at() == before


def test_a_producer_that_was_fenced_with_the_last_epoch_gets_another_id(at_its_end: TransactionsDriver) -> None:
    """No client may have that epoch: none would be left to fence it with."""
    at_its_end.add(LAST, 2)
    at_its_end.time_out(at_its_end.now_ms + 60_000)
    assert at_its_end.at().producer_epoch == EPOCH_MAX
    assert at_its_end.init(producer=LAST) == ErrorCode.CONCURRENT_TRANSACTIONS
    at_its_end.finish()
    assert at_its_end.init(producer=(0, EPOCH_MAX - 2)) == ErrorCode.PRODUCER_FENCED
    assert [at_its_end.init(producer=LAST), at_its_end.init(producer=LAST)] == [(1, 0), (1, 0)]


EPOCHS_ASKED = (-1, 0, 1, 2, 3)  # -1: a new instance, which names none


def test_no_two_instances_have_one_epoch() -> None:
    """An instance that names the current epoch gets the next one; one that names the epoch before, if it had that, gets
    the current one again."""
    for asked in product(EPOCHS_ASKED, repeat=4):
        driver = TransactionsDriver()
        current, exchanged = driver.begun()[1], -1  # the epoch that the current one was given in exchange for
        for epoch in asked:
            found = driver.init(producer=(0, epoch) if epoch >= 0 else (-1, -1))
            if epoch in (-1, current):
                current, exchanged = current + 1, epoch
            elif epoch != exchanged:
                assert found == ErrorCode.PRODUCER_FENCED, asked
                continue
            assert found == (0, current), asked


def test_a_zombie_that_has_the_id_before_is_fenced(at_its_end: TransactionsDriver) -> None:
    """Of that id, only the last epoch may be that of the producer itself, which missed the response."""
    assert at_its_end.init() == (1, 0)
    assert at_its_end.init(producer=(0, 0)) == ErrorCode.PRODUCER_FENCED, "the new id has the same epoch"
    assert at_its_end.init(producer=LAST) == ErrorCode.PRODUCER_FENCED, "another instance has begun since"
    at_its_end.add((1, 0), 2)
    assert at_its_end.init(producer=(0, EPOCH_MAX - 2)) == ErrorCode.PRODUCER_FENCED
    assert at_its_end.end((1, 0)) == (1, 1), "the transaction has gone on"


def test_only_the_last_epoch_of_the_id_before_repeats_an_end(at_its_end: TransactionsDriver) -> None:
    at_its_end.add(LAST, 2)
    assert at_its_end.end(LAST) == (1, 0)
    at_its_end.finish()
    for other in ((0, EPOCH_MAX - 2), (7, EPOCH_MAX - 1)):
        assert at_its_end.end(other) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert at_its_end.end(LAST) == (1, 0)


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("last", [(0, 0), LAST])
def test_an_end_is_not_repeated_once_the_id_was_used_again(
    driver: TransactionsDriver, last: tuple[int, int], committed: bool
) -> None:
    """The producer is a zombie then: another one has begun, or is in a transaction."""
    driver.begun()
    driver.take(Result(records=(replace(driver.at(), producer_epoch=last[1]).record,)))
    driver.add(last, 2)
    again = driver.end(last, committed)
    assert isinstance(again, tuple)
    driver.finish()
    assert driver.end(last, committed) == again
    driver.add(again, 2)
    assert driver.end(last, committed) == ErrorCode.PRODUCER_FENCED
    again = driver.end(again, committed)
    assert isinstance(again, tuple)
    driver.finish()
    driver.begun()
    assert driver.at().state == State.EMPTY
    assert driver.end(again, committed) == ErrorCode.PRODUCER_FENCED


def expect_second_end(version: int, raised: int, is_same: bool, is_commit: bool, is_finished: bool) -> Any:
    """What a second end is answered whose epoch the first one has `raised` by so much. Kafka: `endTransaction`."""
    if raised == (0 if version == V1 else 1):  # a retry
        refusal = ErrorCode.INVALID_TXN_STATE if is_finished or not is_same else ErrorCode.CONCURRENT_TRANSACTIONS
        done = ErrorCode.NONE if version == V1 else (0, 6)
        return done if is_finished and is_same else refusal
    if raised == 0 and version == V2 and is_finished:  # the next one: without a transaction an abort raises the epoch
        return ErrorCode.INVALID_TXN_STATE if is_commit else (0, 7)
    return ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("versions", list(product((V1, V2), repeat=2)))
@pytest.mark.parametrize("is_finished", [False, True])
def test_a_second_end_is_told_by_its_epoch(versions: tuple[int, int], is_finished: bool) -> None:
    """Whichever protocol the first one had: the newer one tells a retry by the epoch alone, the older one by the state."""
    for epoch, first, second in product(range(4, 9), (False, True), (False, True)):
        driver = TransactionsDriver()
        driver.begun()
        begun = 6 if versions[0] == V1 else 5
        driver.take(Result(records=(replace(driver.at(), producer_epoch=begun).record,)))
        driver.add((0, begun), 2)
        driver.end((0, begun), first, versions[0])
        if is_finished:
            driver.finish()
        assert driver.at().producer_epoch == 6
        expected = expect_second_end(versions[1], 6 - epoch, first == second, second, is_finished)
        assert driver.end((0, epoch), second, versions[1]) == expected, (epoch, first, second)


def test_ids_that_nobody_uses_are_forgotten(driver: TransactionsDriver) -> None:
    rest, busy = driver.begun("rest"), driver.begun("busy")
    driver.add(busy, 0, name="busy")
    old = driver.now_ms + driver.transactions.settings.transactional_id_expiration_ms
    forget(driver, old - 1)
    assert set(driver.transactions.by_id) == {"rest", "busy"}
    forget(driver, old)
    assert set(driver.transactions.by_id) == {"busy"}
    assert driver.end(rest, name="rest") == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert restored(driver).by_id == driver.transactions.by_id


def test_many_ids_are_forgotten_in_steps_but_for_those_that_are_used_meanwhile(driver: TransactionsDriver) -> None:
    for number in range(2 * STEP_ENTRIES):
        driver.begun(f"x{number}")
    names = list(driver.transactions.by_id)
    old = driver.now_ms + driver.transactions.settings.transactional_id_expiration_ms
    steps = forget_unused_ids(driver.transactions, old)
    driver.take(next(steps))
    assert list(driver.transactions.by_id) == names[STEP_ENTRIES:]
    driver.now_ms = old
    driver.begun(names[-1])
    driver.transactions.replay(CatalogRecord(TransactionKey(names[-2]), None))
    (last,) = steps
    driver.take(last)
    assert list(driver.transactions.by_id) == names[-1:]


def forget(driver: TransactionsDriver, now_ms: int) -> None:
    for result in forget_unused_ids(driver.transactions, now_ms):
        driver.take(result)


def test_transactions_are_found_by_how_long_they_last_and_by_their_ids(driver: TransactionsDriver) -> None:
    for name in ("a-1", "a-2", "b-1"):
        driver.begun(name)
    driver.now_ms = 2_000
    driver.add((1, 0), 0, name="a-2")
    driver.now_ms = 9_000

    def list_ids(*fields: Any) -> list[str]:
        answer = finish(driver.ask(ListTransactionsRequest(*fields), 2))
        return [one.transactional_id for one in answer.transaction_states]

    assert list_ids(("Ongoing",), (), 6_999) == ["a-2"]
    assert list_ids(("Ongoing",), (), 7_000) == []
    assert list_ids((), (), 7_000) == ["a-1", "b-1"]  # those that never began are in, as in Kafka
    assert list_ids((), (), -1, "a-.*") == ["a-1", "a-2"]
    assert list_ids((), (), -1, "a") == []
    assert list_ids((), (), -1, "") == ["a-1", "a-2", "b-1"]
    assert list_ids((), (2, 7)) == ["b-1"]
    states = ("Ongoing", "PrepareEpochFence", "Dead", "Open", "ongoing")
    answer = finish(driver.ask(ListTransactionsRequest(states), 2))
    assert answer.unknown_state_filters == ("Open", "ongoing"), "Kafka knows two that nothing is ever in"
    assert [one.transactional_id for one in answer.transaction_states] == ["a-2"]


def test_many_transactions_are_listed_in_steps(driver: TransactionsDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step is short, also with a pattern that costs milliseconds a name. What is gone by then is left out."""
    ids = [f"{'a' * 200}{number:04}" for number in range(2_500)]
    driver.transactions.by_id = {name: Transaction(name, 1) for name in ids}
    handling = driver.ask(ListTransactionsRequest(), 2)
    assert len(finish(handling).transaction_states) == 2_500
    handling = driver.ask(ListTransactionsRequest(), 2)
    next(handling)
    next(handling)
    del driver.transactions.by_id[ids[-1]], driver.transactions.by_id[ids[0]]
    assert [one.transactional_id for one in finish(handling).transaction_states] == ids[:-1]

    hostile = "((a{0,30}){0,30}).*"
    match, matched = regex.match, []
    most = 2 + regex.STEP_UNITS // match(hostile, ids[1:2]).units
    monkeypatch.setattr(regex, "match", lambda *each: matched.append(match(*each)) or matched[-1])
    handling = driver.ask(ListTransactionsRequest(transactional_id_pattern=hostile), 2)
    for step in range(20):
        next(handling)
        assert len(matched) == step + 1 and matched[-1].end <= most
    handling.close()


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["init", "resume", "add", "commit", "abort", "finish", "wait"]),
        st.integers(0, 3),
        st.sampled_from([V1, V2]),
    ),
    max_size=40,
)


def compare_with_before(before: Transaction, after: Transaction, now_ms: int, version: int) -> None:
    """A transaction began when it was opened, or with its end where none was open, which is by the protocol of the end."""
    has_begun = after.state is State.ONGOING or after.state.is_prepared
    if has_begun and before.state is not after.state:
        assert after.started_ms == (before.started_ms if before.state is State.ONGOING else now_ms)
    elif after.state is not State.EMPTY:
        assert after.started_ms == before.started_ms
    if after.state.is_prepared and not before.state.is_prepared:
        assert after.protocol == (2 if version == V2 else 0)


@settings(max_examples=300, deadline=None)
@given(STEPS, st.booleans())
def test_whatever_happens_epochs_only_rise_and_the_log_tells_it_all(
    steps: list[tuple[str, int, int]], is_near_the_end: bool
) -> None:
    """Every end has its markers once; every id and epoch that was answered is newer than those before; a transaction
    has the timeout that its producer has asked for last, and none is open for longer; a transaction read back from the
    log is the one that wrote it, at every step."""
    driver, producer = TransactionsDriver(), (-1, -1)
    newest, timeout_ms = (-1, -1), 60_000
    if is_near_the_end:  # of the epochs of the producer's id
        newest = producer = (driver.begun()[0], EPOCH_MAX - 3)
        driver.take(Result(records=(replace(driver.at(), producer_epoch=EPOCH_MAX - 3).record,)))
    for step, partition, version in steps:
        before = driver.transactions.by_id.get("x")
        match step:
            case "init" | "resume":
                asked_ms = 15_000 * (partition + 1)
                found = driver.init(producer=producer if step == "resume" else (-1, -1), timeout_ms=asked_ms)
                if isinstance(found, tuple):
                    timeout_ms = asked_ms
                    assert found >= newest
                    newest = producer = found
            case "add":
                driver.add(producer, partition)
            case "commit" | "abort":
                found = driver.end(producer, step == "commit", version)
                if isinstance(found, tuple):
                    assert found >= newest
                    newest = producer = found
            case "finish":
                for one in driver.finish():
                    now = driver.at()
                    assert (one.producer_id, one.producer_epoch) <= (now.producer_id, now.producer_epoch)
            case "wait":
                driver.now_ms += 20_000
                driver.time_out(driver.now_ms)
        for one in driver.transactions.by_id.values():
            assert one.timeout_ms == timeout_ms
            assert one.next_producer_id == -1 or not one.state.is_over, "nothing is to follow"
            if before is not None:
                compare_with_before(before, one, driver.now_ms, version if step in ("commit", "abort") else V2)
            assert one.state is not State.ONGOING or driver.now_ms - one.started_ms < timeout_ms
            assert one.state is not State.EMPTY or one.started_ms == -1, "it has not begun"
            assert not one.state.is_over or not one.partitions
        again = restored(driver)
        assert again.by_id == driver.transactions.by_id
        assert (
            again.find_prepared_transactions()
            == driver.transactions.find_prepared_transactions()
            == tuple(driver.markers)
        )
        assert again.next_deadline_ms() == driver.transactions.next_deadline_ms()


def test_the_next_timeout_and_what_is_unfinished_are_found_without_a_look_at_each(
    driver: TransactionsDriver,
) -> None:
    class Unwalked(dict[Any, Any]):
        def values(self) -> Any:
            raise AssertionError("it looks at each transaction")

        items = __iter__ = values

    producers = [driver.begun(f"x{number}") for number in range(200)]
    for number, producer in enumerate(producers):
        driver.now_ms = 1_000 + number
        driver.add(producer, 0, name=f"x{number}")
    for number in range(0, 200, 2):
        driver.end(producers[number], name=f"x{number}")
    transactions = driver.transactions
    transactions.by_id, transactions._deadlines = Unwalked(transactions.by_id), Unwalked(transactions._deadlines)
    assert transactions.next_deadline_ms() == 61_001
    assert [one.transactional_id for one in transactions.pop_overdue(61_005, 2)] == ["x1", "x3"]
    assert [one.transactional_id for one in transactions.pop_overdue(61_005, 9)] == ["x5"]
    assert transactions.next_deadline_ms() == 61_007
    assert len(transactions.find_prepared_transactions()) == 100
    assert [transactions.is_open(producers[number][0], ("t", 0)) for number in (0, 1)] == [True, True]
    assert not transactions.is_open(producers[1][0], ("t", 1))
    driver.finish()
    assert len(transactions.find_prepared_transactions()) == 0
    assert [transactions.is_open(producers[number][0], ("t", 0)) for number in (0, 1)] == [False, True]


def test_timeouts_of_transactions_that_are_over_are_not_kept(driver: TransactionsDriver) -> None:
    first, other = driver.begun("first"), driver.begun("other")
    driver.add(first, 0, name="first")
    for number in range(1_000):
        driver.now_ms = 2_000 + number
        driver.add(other, 0, name="other")
        other = driver.end(other, name="other")
        driver.finish()
    assert driver.transactions.next_deadline_ms() == 61_000
    assert len(driver.transactions.timeouts) < 100


def test_what_nobody_serves_times_out_when_somebody_does(driver: TransactionsDriver) -> None:
    for number in range(6):
        producer = driver.begun(f"x{number}")
        driver.now_ms = 1_000 + number
        driver.add(producer, 0, name=f"x{number}")
    transactions, gone = driver.transactions, {"x1", "x2", "x5"}

    def late(most: int) -> list[str]:
        found = transactions.pop_overdue(61_004, most, lambda name: name not in gone)
        return [one.transactional_id for one in found]

    assert late(3) == ["x0"], "those that wait count as well: a turn looks at so many"
    assert late(9) == ["x3", "x4"]
    assert transactions.next_deadline_ms() == 61_005 and transactions.deadlines().keys() == gone
    transactions.resume_timeouts()
    assert late(9) == []
    gone.discard("x1")
    transactions.resume_timeouts()
    assert late(9) == ["x1"]
    assert transactions.pop_overdue(61_005, 9)[0].transactional_id == "x5"
    gone.clear()
    transactions.resume_timeouts()
    assert late(9) == ["x2"] and late(9) == []


def test_what_differs_from_the_log_is_found_in_steps_and_replaced(driver: TransactionsDriver) -> None:
    for number in range(200):
        driver.begun(f"x{number}")
    producer = driver.begun("open")
    driver.add(producer, 0, name="open")
    transactions, found = driver.transactions, Transactions(driver.transactions.settings)
    lost, changed, elsewhere = "x7", "x8", "x9"  # the last one is of another partition: it is not read
    for name, one in transactions.by_id.items():
        if name not in (lost, "open", elsewhere) and name.startswith(("x", "open")):
            found.replay(one.record)
    running = transactions.by_id[changed].with_partitions([("t", 1)], driver.now_ms)
    found.replay(replace(running, timeout_ms=5).record)
    steps, names = count_steps(transactions.find_differences(found, lambda name: name != elsewhere))
    assert steps > 3 and names == [lost, "open", changed]
    for one in transactions.by_id.values():
        transactions.held.note(one.record)
    transactions.replace(names, found)
    held = Held()
    for one in transactions.by_id.values():
        held.note(one.record)
    assert transactions.held.bytes == held.bytes
    assert lost not in transactions.by_id and "open" not in transactions.by_id
    assert transactions.deadlines() == found.deadlines() and transactions.next_deadline_ms() == driver.now_ms + 5
    assert [transactions.is_open(one.producer_id, ("t", 1)) for one in found.by_id.values()] == [
        one.transactional_id == changed for one in found.by_id.values()
    ]
    assert transactions.by_id[changed].timeout_ms == 5 and elsewhere in transactions.by_id
    assert count_steps(transactions.find_differences(found, lambda name: True))[1] == [elsewhere]
