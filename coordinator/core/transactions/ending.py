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
from coordinator.core.transactions.transaction import EPOCH_MAX, NO_ID, V1, V2, Transaction
from coordinator.core.transactions.transactions import Transactions, markers


def end(
    transaction: Transaction, commits: bool, now_ms: int, *, protocol: int = V1, next_producer_id: int = NO_ID
) -> Result[Any]:
    """Decide the end. By KIP-890 (V2) it raises the producer's epoch, and so fences what comes late."""
    if protocol == V2:
        transaction = replace(
            transaction,
            producer_epoch=transaction.producer_epoch + 1,
            last_producer_epoch=transaction.producer_epoch,
            next_producer_id=next_producer_id,
        )
    return _prepare(transaction, commits, protocol, now_ms)


def fence(transaction: Transaction, now_ms: int) -> Result[Any]:
    """Abort an open transaction by the coordinator's decision: it timed out, or InitProducerId took the id over.

    The epoch is raised, so that the producer finds itself fenced. If it names the epoch before, InitProducerId gives it
    the raised one, as long as nobody else has asked. Kafka ends the transaction by the broker's own protocol, which is
    the newer one.
    """
    assert transaction.producer_epoch < EPOCH_MAX, f"{transaction.transactional_id}: no epoch is left to fence with"
    raised = replace(
        transaction,
        producer_epoch=transaction.producer_epoch + 1,
        last_producer_epoch=transaction.producer_epoch,
        next_producer_id=NO_ID,
    )
    return _prepare(raised, False, V2, now_ms)


def _prepare(transaction: Transaction, commits: bool, protocol: int, now_ms: int) -> Result[Any]:
    prepared = transaction.with_state(State.PREPARE_COMMIT if commits else State.PREPARE_ABORT, now_ms)
    begun = transaction.started_ms if transaction.state == State.ONGOING else now_ms
    prepared = replace(prepared, protocol=protocol, started_ms=begun)
    return Result(records=(prepared.record,), effects=(markers(prepared),))


def complete(transactions: Transactions, transactional_id: str, now_ms: int) -> Result[Any]:
    """Complete a transaction whose markers are all written.

    With a new producer id, the epoch before is still the last one of the old id that the producer knew. Kafka:
    `TransactionMetadata.prepareComplete`.
    """
    prepared = transactions.by_id[transactional_id]
    state = State.COMPLETE_COMMIT if prepared.state == State.PREPARE_COMMIT else State.COMPLETE_ABORT
    complete = replace(
        prepared.with_state(state, now_ms), partitions=frozenset(), previous_producer_id=prepared.producer_id
    )
    if prepared.next_producer_id != NO_ID:
        complete = replace(
            complete,
            producer_id=prepared.next_producer_id,
            producer_epoch=0,
            next_producer_id=NO_ID,
        )
    return Result(records=(complete.record,))
