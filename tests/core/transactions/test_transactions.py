"""Transactional producers: ids and epochs, who is fenced, how a transaction ends, and what time does to it."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from coordinator.core import regex
from coordinator.core.catalog.records import CatalogRecord, decode, encode
from coordinator.core.catalog.settings import Settings
from coordinator.core.result import Call, Markers, Result
from coordinator.core.topics import Topic, Topics
from coordinator.core.transactions.add_offsets_to_txn import add_offsets_to_txn
from coordinator.core.transactions.add_partitions_to_txn import add_partitions_to_txn
from coordinator.core.transactions.ending import complete, fence
from coordinator.core.transactions.expiry import forget_unused
from coordinator.core.transactions.membership import verify_partition
from coordinator.core.transactions.states import NEXT, State
from coordinator.core.transactions.transaction import EPOCH_MAX, Transaction
from coordinator.core.transactions.transactions import Transactions
from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnRequestTopic,
    AddPartitionsToTxnRequestTransaction,
)
from protocol.messages.describe_transactions import DescribeTransactionsRequest
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_transactions import ListTransactionsRequest
from tests.core.decide import decide
from tests.steps import finish

TOPICS = Topics([Topic("t", b"t" * 16, 4)])
V1, V2 = 4, 5  # the versions of EndTxn with and without KIP-890


class TransactionsDriver:
    """Transactions, and what was written of them. Markers are written, and a transaction complete, when `finish` says so."""

    def __init__(self, **settings: Any) -> None:
        self.transactions = Transactions(Settings(**settings))
        self.now_ms = 1_000
        self.log: list[CatalogRecord] = []
        self.markers: list[Markers] = []

    def take(self, outcome: Result[Any]) -> Any:
        for record in outcome.records:
            self.log.append(decode(*encode(record)))
            self.transactions.replay(record)
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
        self, name: str | None = "x", producer: tuple[int, int] = (-1, -1), version: int = 6
    ) -> tuple[int, int] | ErrorCode:
        answer = self.ask(InitProducerIdRequest(name, 60_000, *producer), version)
        return ErrorCode(answer.error_code) if answer.error_code else (answer.producer_id, answer.producer_epoch)

    def begun(self, name: str = "x") -> tuple[int, int]:
        found = self.init(name)
        assert isinstance(found, tuple), found
        return found

    def add(self, producer: tuple[int, int], *partitions: int, name: str = "x", version: int = 3) -> list[ErrorCode]:
        topics = (AddPartitionsToTxnRequestTopic("t", partitions),)
        request = AddPartitionsToTxnRequest((), name, *producer, topics)
        answer = self.take(add_partitions_to_txn(self.transactions, TOPICS, request, self.call(version)))
        (topic,) = answer.results_by_topic_v3_and_below
        return [ErrorCode(one.partition_error_code) for one in topic.results_by_partition]

    def end(self, producer: tuple[int, int], committed: bool = True, version: int = V2, name: str = "x") -> Any:
        answer = self.ask(EndTxnRequest(name, *producer, committed), version)
        if answer.error_code:
            return ErrorCode(answer.error_code)
        return (answer.producer_id, answer.producer_epoch) if version >= V2 else ErrorCode.NONE

    def finish(self) -> list[tuple[bool, int, int, tuple[tuple[str, int], ...]]]:
        """Write all markers; what they say."""
        written, self.markers = self.markers, []
        for one in written:
            self.take(complete(self.transactions, one.transactional_id, self.now_ms))
        return [(one.committed, one.producer_id, one.producer_epoch, one.partitions) for one in written]

    def at(self, name: str = "x") -> Transaction:
        return self.transactions.by_id[name]


@pytest.fixture
def driver() -> TransactionsDriver:
    return TransactionsDriver()


def test_each_producer_gets_an_id_of_its_own(driver: TransactionsDriver) -> None:
    assert [driver.init(None), driver.init(None), driver.init("x"), driver.init("y")] == [
        (0, 0),
        (1, 0),
        (2, 0),
        (3, 0),
    ]
    assert restored(driver).next_producer_id == 4


def restored(driver: TransactionsDriver) -> Transactions:
    """The transactions read back from the log."""
    transactions = Transactions(driver.transactions.settings)
    for record in driver.log:
        transactions.replay(record)
    return transactions


def test_a_second_instance_fences_the_first(driver: TransactionsDriver) -> None:
    first, second = driver.begun(), driver.begun()
    assert (first, second) == ((0, 0), (0, 1))
    assert driver.add(first, 0) == [ErrorCode.PRODUCER_FENCED]
    assert driver.add(first, 0, version=1) == [ErrorCode.INVALID_PRODUCER_EPOCH]
    assert driver.end(first) == ErrorCode.PRODUCER_FENCED
    assert driver.end(first, version=1) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert driver.add(second, 0) == [ErrorCode.NONE]


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (InitProducerIdRequest("", 1), ErrorCode.INVALID_REQUEST),
        (InitProducerIdRequest("x", 0), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (InitProducerIdRequest("x", 900_001), ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (InitProducerIdRequest("x", 1, 5, -1), ErrorCode.INVALID_REQUEST),
        (InitProducerIdRequest("x", 1, -1, 5), ErrorCode.INVALID_REQUEST),
        (InitProducerIdRequest("x", 1, enable2_pc=True), ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (InitProducerIdRequest("x", 1, keep_prepared_txn=True), ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_what_gets_no_id(driver: TransactionsDriver, request_: InitProducerIdRequest, error: ErrorCode) -> None:
    answer = driver.ask(request_, 6)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (error, -1, -1)
    assert driver.log == []


def test_a_producer_that_goes_on_after_an_error_names_its_epoch(driver: TransactionsDriver) -> None:
    producer = driver.begun()
    assert driver.init(producer=producer) == (0, 1)
    assert driver.init(producer=producer) == (0, 1)  # the answer was lost: the same again
    assert driver.init(producer=(0, 7)) == ErrorCode.PRODUCER_FENCED
    assert driver.init(producer=(9, 0)) == ErrorCode.PRODUCER_FENCED
    assert driver.init(producer=(9, 0), version=3) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert driver.init() == (0, 2)
    assert driver.init(producer=(0, 1)) == ErrorCode.PRODUCER_FENCED


def test_an_open_transaction_is_aborted_for_the_next_instance(driver: TransactionsDriver) -> None:
    producer = driver.begun()
    driver.add(producer, 0, 1)
    assert driver.init() == ErrorCode.CONCURRENT_TRANSACTIONS
    assert driver.at().state == State.PREPARE_ABORT
    assert driver.init() == ErrorCode.CONCURRENT_TRANSACTIONS
    assert driver.finish() == [(False, 0, 1, (("t", 0), ("t", 1)))]
    assert driver.init() == (0, 2)
    assert driver.end(producer) == ErrorCode.PRODUCER_FENCED


def test_commit_and_abort_in_the_old_protocol(driver: TransactionsDriver) -> None:
    producer = driver.begun()
    for committed, state in ((True, State.COMPLETE_COMMIT), (False, State.COMPLETE_ABORT)):
        assert driver.add(producer, 2) == [ErrorCode.NONE]
        assert driver.end(producer, committed, V1) == ErrorCode.NONE
        assert driver.end(producer, committed, V1) == ErrorCode.CONCURRENT_TRANSACTIONS
        assert driver.end(producer, not committed, V1) == ErrorCode.INVALID_TXN_STATE
        assert driver.add(producer, 3) == [ErrorCode.CONCURRENT_TRANSACTIONS]
        assert driver.finish() == [(committed, 0, 0, (("t", 2),))]
        assert (driver.at().state, driver.at().partitions) == (state, frozenset())
        assert driver.end(producer, committed, V1) == ErrorCode.NONE  # again: it is as it was
        assert driver.end(producer, not committed, V1) == ErrorCode.INVALID_TXN_STATE


def test_each_end_raises_the_epoch_in_the_new_protocol(driver: TransactionsDriver) -> None:
    producer = driver.begun()
    driver.add(producer, 2)
    assert driver.end(producer) == (0, 1)
    assert driver.end(producer) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert driver.finish() == [(True, 0, 1, (("t", 2),))]
    assert driver.end(producer) == (0, 1)  # asked again, it says so again
    assert driver.end(producer, committed=False) == ErrorCode.INVALID_TXN_STATE
    assert driver.add(producer, 2) == [ErrorCode.PRODUCER_FENCED]
    driver.add((0, 1), 2)
    assert driver.end(producer) == ErrorCode.PRODUCER_FENCED
    assert driver.end((0, 1), committed=False) == (0, 2)
    assert driver.finish() == [(False, 0, 2, (("t", 2),))]


def test_with_nothing_open_an_abort_raises_the_epoch_and_a_commit_does_not(driver: TransactionsDriver) -> None:
    producer = driver.begun()
    assert driver.end(producer, committed=True) == ErrorCode.INVALID_TXN_STATE
    assert driver.end(producer, committed=False) == (0, 1)
    assert driver.finish() == [(False, 0, 1, ())]
    assert driver.end(producer, committed=False) == (0, 1)
    assert driver.end((0, 1), committed=True) == ErrorCode.INVALID_TXN_STATE
    assert driver.end((0, 1), committed=False) == (0, 2)


def test_nothing_to_end_in_the_old_protocol(driver: TransactionsDriver) -> None:
    producer = driver.begun()
    assert driver.end(producer, version=V1) == ErrorCode.INVALID_TXN_STATE
    assert driver.end(producer, False, V1) == ErrorCode.INVALID_TXN_STATE


def test_who_has_no_transaction_ends_none(driver: TransactionsDriver) -> None:
    assert driver.end((0, 0)) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert driver.end((0, 0), name="") == ErrorCode.INVALID_REQUEST
    driver.begun()
    assert driver.end((7, 0)) == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def with_epoch(driver: TransactionsDriver, epoch: int) -> None:
    driver.take(Result(records=(replace(driver.at(), producer_epoch=epoch).record,)))


def test_a_producer_whose_epochs_are_used_up_gets_another_id(driver: TransactionsDriver) -> None:
    driver.begun()
    with_epoch(driver, EPOCH_MAX - 1)
    assert driver.init() == (1, 0)
    with_epoch(driver, EPOCH_MAX - 1)
    assert driver.init(producer=(1, EPOCH_MAX - 1)) == (2, 0)
    assert driver.init(producer=(1, EPOCH_MAX - 1)) == (2, 0)  # the answer was lost


def test_an_instance_of_the_id_before_is_fenced_unless_it_repeats_its_last_request(driver: TransactionsDriver) -> None:
    driver.begun()
    with_epoch(driver, EPOCH_MAX - 1)
    assert driver.init() == (1, 0)
    assert driver.init(producer=(0, 0)) == ErrorCode.PRODUCER_FENCED, "of the new id it would be the epoch at hand"
    assert driver.init(producer=(0, EPOCH_MAX - 2)) == ErrorCode.PRODUCER_FENCED
    assert driver.transactions.by_id["x"].producer_id == 1


def test_only_the_last_epoch_of_the_id_before_repeats_an_end(driver: TransactionsDriver) -> None:
    driver.begun()
    with_epoch(driver, EPOCH_MAX - 1)
    driver.add((0, EPOCH_MAX - 1), 2)
    assert driver.end((0, EPOCH_MAX - 1)) == (1, 0)
    driver.finish()
    assert driver.end((0, EPOCH_MAX - 2)) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert driver.end((0, EPOCH_MAX - 1)) == (1, 0)


def test_also_in_the_middle_of_its_transactions(driver: TransactionsDriver) -> None:
    driver.begun()
    with_epoch(driver, EPOCH_MAX - 1)
    driver.add((0, EPOCH_MAX - 1), 2)
    assert driver.end((0, EPOCH_MAX - 1)) == (1, 0)
    assert driver.finish() == [(True, 0, EPOCH_MAX, (("t", 2),))]  # written in the name of the old id
    assert driver.end((0, EPOCH_MAX - 1)) == (1, 0)
    assert driver.add((1, 0), 2) == [ErrorCode.NONE]


def test_partitions_join_all_or_none(driver: TransactionsDriver) -> None:
    producer = driver.begun()
    assert driver.add(producer, 1, 9) == [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert driver.at().state == State.EMPTY
    written = len(driver.log)
    driver.add(producer, 1)
    driver.add(producer, 1)
    assert len(driver.log) == written + 1  # the second says nothing new
    assert driver.add((8, 0), 1) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    assert driver.add(producer, 1, name="") == [ErrorCode.INVALID_REQUEST]


def test_brokers_ask_for_several_transactions_at_once(driver: TransactionsDriver) -> None:
    x, y = driver.begun("x"), driver.begun("y")
    driver.add(x, 1)
    one = AddPartitionsToTxnRequestTransaction
    topics = (AddPartitionsToTxnRequestTopic("t", (1, 2)),)
    request = AddPartitionsToTxnRequest((one("x", *x, True, topics), one("y", *y, False, topics)))
    answer = driver.take(add_partitions_to_txn(driver.transactions, TOPICS, request, driver.call(5)))
    found = {
        result.transactional_id: [p.partition_error_code for p in result.topic_results[0].results_by_partition]
        for result in answer.results_by_transaction
    }
    assert found == {"x": [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE], "y": [0, 0]}
    assert driver.at("x").partitions == {("t", 1)}
    assert driver.at("y").partitions == {("t", 1), ("t", 2)}
    assert verify_partition(driver.transactions, "y", y, ("t", 3)) == ErrorCode.TRANSACTION_ABORTABLE


@pytest.mark.rule("O-100 O-102")
def test_a_groups_offsets_join_by_their_partition(driver: TransactionsDriver) -> None:
    """The group need not exist, and its name may be empty."""
    producer = driver.begun()

    def add(producer: tuple[int, int], version: int = 4) -> ErrorCode:
        request = AddOffsetsToTxnRequest("x", *producer, "")
        return ErrorCode(
            driver.take(add_offsets_to_txn(driver.transactions, 7, request, driver.call(version))).error_code
        )

    assert add(producer) == ErrorCode.NONE
    assert driver.at().partitions == {("__consumer_offsets", 7)}
    assert add((0, 5)) == ErrorCode.PRODUCER_FENCED
    assert add((0, 5), version=1) == ErrorCode.INVALID_PRODUCER_EPOCH
    driver.end(producer)
    assert add((0, 1)) == ErrorCode.CONCURRENT_TRANSACTIONS


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(driver: TransactionsDriver) -> None:
    producer = driver.begun()
    driver.now_ms = 2_000
    driver.add(producer, 0)
    driver.now_ms = 30_000
    driver.add(producer, 1)
    assert driver.transactions.next_deadline_ms() == 62_000  # by when it began, whatever was added since
    driver.time_out(61_999)
    assert driver.at().state == State.ONGOING
    driver.now_ms = 62_000
    driver.time_out(62_000)
    assert driver.finish() == [(False, 0, 1, (("t", 0), ("t", 1)))]
    assert driver.transactions.next_deadline_ms() is None
    assert driver.end(producer, version=V1) == ErrorCode.PRODUCER_FENCED
    assert driver.init(producer=producer) == ErrorCode.PRODUCER_FENCED
    assert driver.init() == (0, 2)


def test_ids_that_nobody_uses_are_forgotten(driver: TransactionsDriver) -> None:
    rest, busy = driver.begun("rest"), driver.begun("busy")
    driver.add(busy, 0, name="busy")
    old = driver.now_ms + driver.transactions.settings.transactional_id_expiration_ms
    driver.take(forget_unused(driver.transactions, old - 1))
    assert set(driver.transactions.by_id) == {"rest", "busy"}
    driver.take(forget_unused(driver.transactions, old))
    assert set(driver.transactions.by_id) == {"busy"}
    assert driver.end(rest, name="rest") == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert restored(driver).by_id == driver.transactions.by_id


def test_transactions_are_described(driver: TransactionsDriver) -> None:
    producer = driver.begun()
    driver.now_ms = 5_000
    driver.add(producer, 3, 1)
    known, unknown, empty = driver.ask(DescribeTransactionsRequest(("x", "y", ""))).transaction_states
    assert (known.transaction_state, known.producer_id, known.producer_epoch) == ("Ongoing", 0, 0)
    assert (known.transaction_timeout_ms, known.transaction_start_time_ms) == (60_000, 5_000)
    assert [(topic.topic, topic.partitions) for topic in known.topics] == [("t", (1, 3))]
    assert unknown.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert empty.error_code == ErrorCode.INVALID_REQUEST


def test_transactions_are_listed(driver: TransactionsDriver) -> None:
    for name in ("a-1", "a-2", "b-1"):
        driver.begun(name)
    driver.now_ms = 2_000
    driver.add((1, 0), 0, name="a-2")
    driver.now_ms = 9_000

    def listed(*fields: Any) -> list[str]:
        answer = finish(driver.ask(ListTransactionsRequest(*fields), 2))
        return [one.transactional_id for one in answer.transaction_states]

    assert listed() == ["a-1", "a-2", "b-1"]
    assert listed(("Ongoing",)) == ["a-2"]
    assert listed((), (0, 2)) == ["a-1", "b-1"]
    assert listed(("Ongoing",), (), 6_999) == ["a-2"]
    assert listed(("Ongoing",), (), 7_000) == []
    assert listed((), (), 7_000) == ["a-1", "b-1"]  # those that never began are in, as in Kafka
    assert listed((), (), -1, "a-.*") == ["a-1", "a-2"]
    assert listed((), (), -1, "a") == []
    assert listed((), (), -1, "") == ["a-1", "a-2", "b-1"]
    answer = finish(driver.ask(ListTransactionsRequest(("Ongoing", "Gone", "Dead")), 2))
    assert (answer.unknown_state_filters, len(answer.transaction_states)) == (("Gone",), 1)
    refused = finish(driver.ask(ListTransactionsRequest(transactional_id_pattern="("), 2))
    assert refused.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


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


def test_the_table_of_states_names_each_and_leads_on_from_each() -> None:
    assert set(NEXT) == set(State)
    assert all(NEXT.values())
    assert [state.kafka_name for state in State][2:4] == ["PrepareCommit", "PrepareAbort"]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["init", "resume", "add", "commit", "abort", "finish", "wait"]),
        st.integers(0, 3),
        st.sampled_from([V1, V2]),
    ),
    max_size=40,
)


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_whatever_happens_epochs_only_rise_and_the_log_tells_it_all(steps: list[tuple[str, int, int]]) -> None:
    """Every end has its markers once; every id and epoch that was answered is newer than those before; a transaction
    read back from the log is the one that wrote it, at every step."""
    driver, producer = TransactionsDriver(), (-1, -1)
    newest = (-1, -1)
    for step, partition, version in steps:
        match step:
            case "init" | "resume":
                found = driver.init(producer=producer if step == "resume" else (-1, -1))
                if isinstance(found, tuple):
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
                for _, producer_id, epoch, _ in driver.finish():
                    assert (producer_id, epoch) <= (driver.at().producer_id, driver.at().producer_epoch)
            case "wait":
                driver.now_ms += 20_000
                driver.time_out(driver.now_ms)
        again = restored(driver)
        assert again.by_id == driver.transactions.by_id
        assert again.find_prepared() == driver.transactions.find_prepared() == tuple(driver.markers)
        assert again.next_deadline_ms() == driver.transactions.next_deadline_ms()


@pytest.mark.rule("O-100")
def test_the_epoch_of_the_last_fence_is_nobodys(driver: TransactionsDriver) -> None:
    """32,767 is given to no client, so that no transaction can be open at it and have to be fenced once more."""
    producer = driver.begun()
    driver.take(Result(records=(replace(driver.at(), producer_epoch=EPOCH_MAX - 1).record,)))
    driver.add((producer[0], EPOCH_MAX - 1), 0)
    assert driver.init() == ErrorCode.CONCURRENT_TRANSACTIONS
    driver.finish()
    last = (producer[0], EPOCH_MAX)
    assert driver.at().producer_epoch == EPOCH_MAX
    for version in (V1, V2):
        assert driver.end(last, False, version) == ErrorCode.PRODUCER_FENCED
    assert driver.add(last, 0) == [ErrorCode.PRODUCER_FENCED]
    assert driver.init() == (producer[0] + 1, 0), "another id begins"


def test_the_end_by_the_coordinator_is_told_to_the_one_who_asks_for_it_again(driver: TransactionsDriver) -> None:
    """KIP-890, as Kafka 4.3.1: with the epoch before, an abort of version 5 is the retry of the coordinator's."""
    producer = driver.begun()
    driver.add(producer, 0)
    assert driver.init() == ErrorCode.CONCURRENT_TRANSACTIONS
    driver.finish()
    assert driver.end(producer, False, V2) == (producer[0], producer[1] + 1)
    assert driver.end(producer, False, V1) == ErrorCode.PRODUCER_FENCED
