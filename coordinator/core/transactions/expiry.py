"""Transactional ids that nobody uses are forgotten. Open transactions that take too long are aborted: see `ending`."""

from typing import Any

from coordinator.core.catalog.records import CatalogRecord, TransactionKey
from coordinator.core.result import Result
from coordinator.core.transactions.transactions import Transactions


def forget_unused_ids(transactions: Transactions, now_ms: int) -> Result[Any]:
    """Forget the ids at rest that nobody has used for `transactional.id.expiration.ms`."""
    oldest = now_ms - transactions.settings.transactional_id_expiration_ms
    gone = [one for one in transactions.by_id.values() if one.state.is_over and one.updated_ms <= oldest]
    return Result(records=tuple([CatalogRecord(TransactionKey(one.transactional_id), None) for one in gone]))
