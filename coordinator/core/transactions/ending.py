"""How a transaction ends: decided and written down, then marked in each partition, then complete.

    Ongoing ──► PrepareCommit ──► markers ──► CompleteCommit
            └─► PrepareAbort  ──► markers ──► CompleteAbort

The prepared state is in the log before the first marker is written, and the complete one after the last: a crash at any
point is mended at start by writing all markers again. A marker that is there twice changes nothing.
"""

from typing import Any

from msgspec.structs import replace

from coordinator.core.result import Result
from coordinator.core.transactions.states import State
from coordinator.core.transactions.transaction import NO_EPOCH, NO_ID, V1, V2, Transaction
from coordinator.core.transactions.transactions import Transactions, markers


def ended(
    transaction: Transaction, commits: bool, now_ms: int, *, protocol: int = V1, next_producer_id: int = NO_ID
) -> Result[Any]:
    """The end is decided. By KIP-890 (V2) it raises the producer's epoch, and so fences what comes late."""
    prepared = transaction.to(State.PREPARE_COMMIT if commits else State.PREPARE_ABORT, now_ms)
    begun = prepared.started_ms if transaction.state == State.ONGOING else now_ms
    prepared = replace(prepared, protocol=protocol, started_ms=begun)
    if protocol == V2:
        prepared = replace(
            prepared,
            producer_epoch=transaction.producer_epoch + 1,
            last_producer_epoch=transaction.producer_epoch,
            next_producer_id=next_producer_id,
        )
    return Result(records=(prepared.record,), effects=(markers(prepared),))


def fenced(transaction: Transaction, now_ms: int) -> Result[Any]:
    """An open transaction is aborted over its producer's head: it timed out, or another instance took the id over."""
    raised = replace(
        transaction, producer_epoch=transaction.producer_epoch + 1, last_producer_epoch=NO_EPOCH, next_producer_id=NO_ID
    )
    return ended(raised, False, now_ms, protocol=V1)


def completed(transactions: Transactions, transactional_id: str, now_ms: int) -> Result[Any]:
    """All markers of a transaction are written."""
    prepared = transactions.by_id[transactional_id]
    state = State.COMPLETE_COMMIT if prepared.state == State.PREPARE_COMMIT else State.COMPLETE_ABORT
    complete = replace(prepared.to(state, now_ms), partitions=frozenset(), previous_producer_id=prepared.producer_id)
    if prepared.next_producer_id != NO_ID:
        complete = replace(
            complete,
            producer_id=prepared.next_producer_id,
            producer_epoch=0,
            last_producer_epoch=prepared.producer_epoch,
            next_producer_id=NO_ID,
        )
    return Result(records=(complete.record,))
