"""A producer with transactions: it produces, commits offsets with what it produced, and ends the transaction or not."""

from typing import Any, Final

from protocol import record_batch
from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnRequestTopic
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.records import Record
from tests.requests import commit_in_transaction, produce
from tests.simulation.members import REQUEST_MS, RETRY_MS, Process
from tests.simulation.network import Network
from tests.simulation.promises import codes_in

TXN_TIMEOUT_MS: Final = 30_000
PAUSE_MS: Final = 3_000
JOURNAL: Final = "journal"
JOURNAL_PARTITIONS: Final = 2


class Producer(Process):
    """One transactional id. Whatever goes wrong, it begins again with InitProducerId."""

    def __init__(self, name: str, network: Network) -> None:
        super().__init__(name, network)
        self.group = f"of-{name}"
        self._is_v2 = network.dice.random() < 0.5  # KIP-890: partitions join by being written to
        self._ids = (-1, -1)
        self._sequences: dict[int, int] = {}

    def start(self) -> None:
        super().start()
        self._begin()

    def _begin(self) -> None:
        self._ask(InitProducerIdRequest(self.name, TXN_TIMEOUT_MS), 5 if self._is_v2 else 4, REQUEST_MS, self._begun)

    def _begun(self, answer: Any) -> None:
        if answer is None or answer.error_code:
            self._later(RETRY_MS, self._begin)
            return
        self._ids = (answer.producer_id, answer.producer_epoch)
        self._sequences = {}
        self._add()

    def _add(self) -> None:
        """Open a transaction; in the newer protocol the first write does."""
        self._partition = self._dice.randrange(JOURNAL_PARTITIONS)
        if self._is_v2:
            self._produce()
            return
        topics = (AddPartitionsToTxnRequestTopic(JOURNAL, (self._partition,)),)
        self._next(AddPartitionsToTxnRequest((), self.name, *self._ids, topics), 3, self._add_offsets)

    def _add_offsets(self) -> None:
        self._next(AddOffsetsToTxnRequest(self.name, *self._ids, self.group), 3, self._produce)

    def _produce(self) -> None:
        count = self._dice.randint(1, 3)
        now_ms = self._network.clock.now_ms
        records = [Record(None, b"%d" % self._network.position(), timestamp=now_ms) for _ in range(count)]
        first = self._sequences.get(self._partition, 0)
        self._sequences[self._partition] = first + count
        data = record_batch.encode(
            records,
            producer_id=self._ids[0],
            producer_epoch=self._ids[1],
            base_sequence=first,
            transactional=True,
        )
        self._next(produce(JOURNAL, {self._partition: data}, self.name), 12 if self._is_v2 else 9, self._commit_offsets)

    def _commit_offsets(self) -> None:
        offsets = {"t": {p: self._network.position() for p in range(2)}}
        request = commit_in_transaction(self.name, self.group, self._ids, offsets)
        what_next = self._dice.random()
        then = self._abandon if what_next < 0.1 else self._produce if what_next < 0.3 else self._end
        self._next(request, 5 if self._is_v2 else 3, then)

    def _abandon(self) -> None:
        """Leave the transaction open, until it times out or the next life ends it."""
        self._later(self._dice.choice((1_000, TXN_TIMEOUT_MS + 5_000)), self._begin)

    def _end(self) -> None:
        request = EndTxnRequest(self.name, *self._ids, self._dice.random() < 0.7)
        self._ask(request, 5 if self._is_v2 else 3, REQUEST_MS, self._ended)

    def _ended(self, answer: Any) -> None:
        if answer is None or answer.error_code:
            self._later(RETRY_MS, self._begin)
            return
        if self._is_v2:
            self._ids = (answer.producer_id, answer.producer_epoch)
            self._sequences = {}  # they begin anew with each epoch
        self._later(PAUSE_MS, self._add)

    def _next(self, request: Any, version: int, then: Any) -> None:
        def heard(answer: Any) -> None:
            errors = {ErrorCode.NETWORK_EXCEPTION} if answer is None else codes_in(answer)
            if not errors:
                then()
            elif errors == {ErrorCode.CONCURRENT_TRANSACTIONS}:
                self._later(RETRY_MS, lambda: self._next(request, version, then))
            else:
                self._later(RETRY_MS, self._begin)

        self._ask(request, version, REQUEST_MS, heard)
