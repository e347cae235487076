"""All transactional producers, and the producer ids that were given out. Changed by `replay` alone."""

from collections.abc import Callable, Iterable, Mapping
from heapq import heapify, heappop, heappush
from typing import Final

from coordinator.core.catalog.records import (
    CatalogRecord,
    ProducerIdKey,
    ProducerIdValue,
    TransactionKey,
    TransactionValue,
)
from coordinator.core.catalog.settings import Settings
from coordinator.core.decision import Steps
from coordinator.core.pace import Pace, empty_in_steps
from coordinator.core.prices import Held
from coordinator.core.result import Markers
from coordinator.core.transactions.states import State
from coordinator.core.transactions.transaction import Transaction, restore

STALE_MAX: Final = 64  # timeouts in the heap that count no more, beyond as many as there are


class Transactions:
    """Transactions by transactional id."""

    def __init__(self, settings: Settings | None = None, held: Held | None = None) -> None:
        """`held` is the memory of all that is in the catalog's log, to be asked whether there is room."""
        self.settings = settings or Settings()
        self.held = held or Held()
        self.by_id: dict[str, Transaction] = {}
        self.next_producer_id = 0
        self._unfinished: dict[int, str] = {}  # by producer id: those that are open, or whose end is only decided
        self._deadlines: dict[str, int] = {}  # of those that are open
        self.timeouts: list[tuple[int, str]] = []  # a heap of the deadlines, with some that are over
        self._held_back: list[tuple[int, str]] = []  # of them, those that nobody coordinates

    def replay(self, record: CatalogRecord) -> None:
        """Apply one fact, new or from the log."""
        match record.key, record.value:
            case TransactionKey(transactional_id), TransactionValue() as value:
                transaction = restore(transactional_id, value)
                self._put(transaction)
                self._watch(transaction)
            case TransactionKey(transactional_id), None:
                self._remove(transactional_id)
                self._deadlines.pop(transactional_id, None)
            case ProducerIdKey(), ProducerIdValue(next_id):
                self.next_producer_id = next_id

    def _put(self, transaction: Transaction) -> None:
        name = transaction.transactional_id
        self._note_end(name)
        self.by_id[name] = transaction
        if not transaction.state.is_over:
            self._unfinished[transaction.producer_id] = name

    def _remove(self, transactional_id: str) -> None:
        self._note_end(transactional_id)
        self.by_id.pop(transactional_id, None)

    def _note_end(self, transactional_id: str) -> None:
        known = self.by_id.get(transactional_id)
        if known is not None and not known.state.is_over:
            self._unfinished.pop(known.producer_id, None)

    def forget(self) -> Steps[None]:
        """Forget everything in steps: it is long to free. The transactions are of no use then."""
        return empty_in_steps(self.by_id, self._unfinished, self._deadlines)

    def find_differences(self, others: "Transactions", owns: Callable[[str], bool]) -> Steps[list[str]]:
        """Return the transactional ids that `owns` names and that are not the same in `others`, in steps."""
        pace, found = Pace(), list[str]()
        for name in tuple(self.by_id):
            if pace.is_due():
                yield
            if owns(name) and name not in others.by_id:
                found.append(name)
        for name, transaction in others.by_id.items():
            if pace.is_due():
                yield
            if self.by_id.get(name) != transaction:
                found.append(name)
        return found

    def replace(self, names: Iterable[str], others: "Transactions") -> None:
        """Put those that were read from the log in the place of these transactional ids."""
        for name in names:
            transaction = others.by_id.get(name)
            if transaction is None:
                self._remove(name)
                self._deadlines.pop(name, None)
                self.held.forget(TransactionKey(name))
            else:
                self._put(transaction)
                self._watch(transaction)
                self.held.note(transaction.record)

    def resume_timeouts(self) -> None:
        """Let those time out that nobody coordinated when their time came; those that nobody does still wait on."""
        for one in self._held_back:
            heappush(self.timeouts, one)
        self._held_back.clear()

    def _watch(self, transaction: Transaction) -> None:
        name, deadline_ms = transaction.transactional_id, transaction.deadline_ms
        if deadline_ms is None:
            self._deadlines.pop(name, None)
        elif self._deadlines.get(name) != deadline_ms:
            self._deadlines[name] = deadline_ms
            heappush(self.timeouts, (deadline_ms, name))
            if len(self.timeouts) > 2 * len(self._deadlines) + STALE_MAX:
                self.timeouts = [(at_ms, name) for name, at_ms in self._deadlines.items()]
                heapify(self.timeouts)

    @property
    def producer_id_record(self) -> CatalogRecord:
        """The fact that `next_producer_id` is given out."""
        return CatalogRecord(ProducerIdKey(), ProducerIdValue(self.next_producer_id + 1))

    def keep_producer_ids(self, end: int) -> tuple[CatalogRecord, ...]:
        """Return the facts by which no id below `end` is given out: producers that have them may still be there."""
        return (CatalogRecord(ProducerIdKey(), ProducerIdValue(end)),) if end > self.next_producer_id else ()

    def deadlines(self) -> Mapping[str, int]:
        """Return when each open transaction times out, by its transactional id."""
        return self._deadlines

    def next_deadline_ms(self) -> int | None:
        """Return when the next open transaction times out."""
        while self.timeouts:
            at_ms, name = self.timeouts[0]
            if self._deadlines.get(name) == at_ms:
                return at_ms
            heappop(self.timeouts)
        return None

    def pop_overdue(
        self, now_ms: int, most: int, is_served: Callable[[str], bool] = lambda name: True
    ) -> list[Transaction]:
        """Return open transactions that have timed out, the earliest first; each is told once.

        Those that nobody serves wait for `resume_timeouts`.
        """
        late: list[Transaction] = []
        for _ in range(most):
            at_ms = self.next_deadline_ms()
            if at_ms is None or at_ms > now_ms:
                break
            _, name = heappop(self.timeouts)
            if is_served(name):
                del self._deadlines[name]
                late.append(self.by_id[name])
            else:
                self._held_back.append((at_ms, name))
        return late

    def find_prepared_transactions(self) -> tuple[Markers, ...]:
        """Find the transactions whose end is decided and may not be written in every log. A crash leaves such ones."""
        unfinished = [self.by_id[name] for name in self._unfinished.values()]
        return tuple([markers(one) for one in unfinished if one.state.is_prepared])

    def is_open(self, producer_id: int, partition: tuple[str, int]) -> bool:
        """Return whether a transaction of this producer that has no marker yet holds the partition."""
        name = self._unfinished.get(producer_id)
        return name is not None and partition in self.by_id[name].partitions


def markers(transaction: Transaction) -> Markers:
    """Return the markers to write into the partitions of a transaction whose end is decided."""
    assert transaction.state.is_prepared, f"{transaction.transactional_id} is {transaction.state.name}"
    return Markers(
        transaction.transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        transaction.state == State.PREPARE_COMMIT,
        tuple(sorted(transaction.partitions)),
    )
