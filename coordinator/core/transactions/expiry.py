"""Transactional ids that nobody uses are forgotten. Open transactions that take too long are aborted: see `ending`."""

from collections.abc import Iterator
from typing import Any

from coordinator.core.catalog.records import CatalogRecord, TransactionKey
from coordinator.core.result import STEP_ENTRIES, Result
from coordinator.core.transactions.transaction import Transaction
from coordinator.core.transactions.transactions import Transactions


def forget_unused_ids(transactions: Transactions, now_ms: int) -> Iterator[Result[Any]]:
    """Forget the ids at rest that nobody has used for `transactional.id.expiration.ms`, some in each step."""
    oldest = now_ms - transactions.settings.transactional_id_expiration_ms

    def is_unused(one: Transaction) -> bool:
        return one.state.is_over and one.updated_ms <= oldest

    names = [one.transactional_id for one in transactions.by_id.values() if is_unused(one)]
    for at in range(0, len(names), STEP_ENTRIES):
        some = [transactions.by_id.get(name) for name in names[at : at + STEP_ENTRIES]]
        gone = [
            one.transactional_id for one in some if one is not None and is_unused(one)
        ]  # others were used meanwhile
        yield Result(records=tuple([CatalogRecord(TransactionKey(name), None) for name in gone]))
