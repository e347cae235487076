"""Add partitions to a transaction, and verify that they belong to it.

Four requests come here: AddPartitionsToTxn and AddOffsetsToTxn say it outright; Produce and TxnOffsetCommit imply it
from the versions of KIP-890 on, and are held to it in the versions before.
"""

from collections.abc import Collection
from typing import Any

from coordinator.core.result import Result
from coordinator.core.transactions.states import State
from coordinator.core.transactions.transaction import EPOCH_MAX, Partition, Transaction
from coordinator.core.transactions.transactions import Transactions
from protocol.errors import ErrorCode


def for_version(error: ErrorCode, version: int, fenced_since: int = 2) -> ErrorCode:
    """Return the error as clients of that version know it: before PRODUCER_FENCED there was INVALID_PRODUCER_EPOCH."""
    is_new = error == ErrorCode.PRODUCER_FENCED and version < fenced_since
    return ErrorCode.INVALID_PRODUCER_EPOCH if is_new else error


def add_to_transaction(
    transactions: Transactions,
    transactional_id: str,
    producer: tuple[int, int],
    partitions: Collection[Partition],
    now_ms: int,
) -> ErrorCode | Result[Any]:
    """Add partitions to the transaction of the producer (id, epoch). Begin the transaction if none is open.

    Kafka: `TransactionCoordinator.handleAddPartitionsToTransaction`.
    """
    known = find_transaction(transactions, transactional_id, producer)
    if isinstance(known, ErrorCode):
        return known
    if known.state == State.ONGOING and known.partitions.issuperset(partitions):
        return Result()
    record = known.with_partitions(partitions, now_ms).record
    full = transactions.held.refuse(record)
    return Result(records=(record,)) if full is None else full.error


def verify_partition(
    transactions: Transactions, transactional_id: str, producer: tuple[int, int], partition: Partition
) -> ErrorCode:
    """Return NONE if the partition is in the open transaction of the producer (id, epoch), else the error.

    Kafka: `TransactionCoordinator.handleVerifyPartitionsInTransaction`.
    """
    known = find_transaction(transactions, transactional_id, producer)
    if isinstance(known, ErrorCode):
        return known
    return ErrorCode.NONE if partition in known.partitions else ErrorCode.TRANSACTION_ABORTABLE


def find_transaction(
    transactions: Transactions, transactional_id: str, producer: tuple[int, int]
) -> ErrorCode | Transaction:
    """Find the transaction that the producer (id, epoch) may write in, or the error that says why there is none."""
    if not transactional_id:
        return ErrorCode.INVALID_REQUEST
    known = transactions.by_id.get(transactional_id)
    if known is None or known.producer_id != producer[0]:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if producer[1] == EPOCH_MAX or known.producer_epoch != producer[1]:
        return ErrorCode.PRODUCER_FENCED
    if known.state.is_prepared:
        return ErrorCode.CONCURRENT_TRANSACTIONS
    return known
