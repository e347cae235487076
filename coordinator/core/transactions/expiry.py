"""What time does to transactions: open ones that take too long are aborted, ids that nobody uses are forgotten."""

from coordinator.core.catalog.outcome import Outcome
from coordinator.core.catalog.records import CatalogRecord, TransactionKey
from coordinator.core.transactions.ending import fenced
from coordinator.core.transactions.transactions import Transactions


def timed_out(transactions: Transactions, now_ms: int) -> Outcome:
    """Abort every open transaction that has had its time; its producer is fenced."""
    outcomes = [fenced(transaction, now_ms) for transaction in transactions.overdue(now_ms)]
    return Outcome(
        records=tuple([record for outcome in outcomes for record in outcome.records]),
        markers=tuple([one for outcome in outcomes for one in outcome.markers]),
    )


def forgotten(transactions: Transactions, now_ms: int) -> Outcome:
    """Forget the ids at rest that nobody has used for `transactional.id.expiration.ms`."""
    oldest = now_ms - transactions.settings.transactional_id_expiration_ms
    gone = [one for one in transactions.by_id.values() if one.state.is_over and one.updated_ms <= oldest]
    return Outcome(records=tuple([CatalogRecord(TransactionKey(one.transactional_id), None) for one in gone]))
