"""AddOffsetsToTxn: a producer is going to commit a group's offsets in its transaction.

Shown by tests/core/transactions/test_*.py and tests/conformance/stories/txn_offsets.py.
"""

from typing import Any

from coordinator.core.catalog.names import OFFSETS_TOPIC
from coordinator.core.result import Call, Result
from coordinator.core.transactions.membership import add_to_transaction, for_version
from coordinator.core.transactions.transactions import Transactions
from protocol.errors import ErrorCode
from protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse


def add_offsets_to_txn(
    transactions: Transactions, offsets_partition: int, request: AddOffsetsToTxnRequest, call: Call
) -> Result[Any]:
    """Join the partition that keeps the group's offsets. The group need not exist, nor have a name (O-100)."""
    producer = (request.producer_id, request.producer_epoch)
    partition = (OFFSETS_TOPIC, offsets_partition)
    outcome = add_to_transaction(transactions, request.transactional_id, producer, (partition,), call.now_ms)
    if not isinstance(outcome, ErrorCode):
        return Result(response=AddOffsetsToTxnResponse(), records=outcome.records)
    return Result(response=AddOffsetsToTxnResponse(error_code=for_version(outcome, call.version)))
