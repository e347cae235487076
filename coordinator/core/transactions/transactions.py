"""All transactional producers, and the producer ids that were given out. Changed by `replay` alone."""

from collections.abc import Callable, Mapping

from coordinator.core.catalog.records import (
    CatalogRecord,
    ProducerIdKey,
    ProducerIdValue,
    TransactionKey,
    TransactionValue,
)
from coordinator.core.catalog.settings import Settings
from coordinator.core.result import Markers
from coordinator.core.transactions.states import State
from coordinator.core.transactions.transaction import Transaction, restore


class Transactions:
    """Transactions by transactional id."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self.by_id: dict[str, Transaction] = {}
        self.next_producer_id = 0
        self._deadlines: dict[str, int] = {}  # of those that are open: a handful, so the earliest is looked for

    def replay(self, record: CatalogRecord) -> None:
        """Apply one fact, new or from the log."""
        match record.key, record.value:
            case TransactionKey(transactional_id), TransactionValue() as value:
                transaction = self.by_id[transactional_id] = restore(transactional_id, value)
                self._watch(transaction)
            case TransactionKey(transactional_id), None:
                self.by_id.pop(transactional_id, None)
                self._deadlines.pop(transactional_id, None)
            case ProducerIdKey(), ProducerIdValue(next_id):
                self.next_producer_id = next_id

    def replace(self, others: "Transactions", owns: Callable[[str], bool]) -> None:
        """Put those that were read from the log in the place of the transactional ids that `owns` names."""
        for name in [name for name in self.by_id if owns(name) and name not in others.by_id]:
            del self.by_id[name]
        self.by_id.update(others.by_id)

    def suspend_timeouts(self, owns: Callable[[str], bool]) -> None:
        """Let none of the transactions that `owns` names time out: nobody coordinates them."""
        for name in [name for name in self._deadlines if owns(name)]:
            del self._deadlines[name]

    def resume_timeouts(self, owns: Callable[[str], bool]) -> None:
        """Let the transactions that `owns` names time out in their time."""
        for name, transaction in self.by_id.items():
            if owns(name):
                self._watch(transaction)

    def _watch(self, transaction: Transaction) -> None:
        deadline = transaction.deadline_ms
        if deadline is None:
            self._deadlines.pop(transaction.transactional_id, None)
        else:
            self._deadlines[transaction.transactional_id] = deadline

    @property
    def producer_id_record(self) -> CatalogRecord:
        """The fact that `next_producer_id` is given out."""
        return CatalogRecord(ProducerIdKey(), ProducerIdValue(self.next_producer_id + 1))

    def deadlines(self) -> Mapping[str, int]:
        """Return when each open transaction times out, by its transactional id."""
        return self._deadlines

    def next_deadline_ms(self) -> int | None:
        """Return when the next open transaction times out."""
        return min(self._deadlines.values()) if self._deadlines else None

    def pop_overdue(self, now_ms: int, most: int) -> list[Transaction]:
        """Return open transactions that have timed out, the earliest first; each is told once."""
        late = sorted((at_ms, name) for name, at_ms in self._deadlines.items() if at_ms <= now_ms)[:most]
        for _, name in late:
            del self._deadlines[name]
        return [self.by_id[name] for _, name in late]

    def find_prepared(self) -> tuple[Markers, ...]:
        """Find the transactions whose end is decided and may not be written in every log. A crash leaves such ones."""
        return tuple([markers(one) for one in self.by_id.values() if one.state.is_prepared])

    def is_open(self, producer_id: int, partition: tuple[str, int]) -> bool:
        """Return whether a transaction of this producer that has no marker yet holds the partition."""
        return any(
            one.producer_id == producer_id and partition in one.partitions and not one.state.is_over
            for one in self.by_id.values()
        )


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
