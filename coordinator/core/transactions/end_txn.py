"""EndTxn: a producer commits or aborts. From version 5 on (KIP-890, V2) each end raises the producer's epoch.

Shown by tests/core/transactions/test_*.py and tests/conformance/stories/transactions.py.
"""

from typing import Any

from coordinator.core.result import Call, Result
from coordinator.core.transactions.ending import end
from coordinator.core.transactions.membership import for_version
from coordinator.core.transactions.states import State
from coordinator.core.transactions.transaction import EPOCH_MAX, NO_EPOCH, NO_ID, V1, V2, Transaction
from coordinator.core.transactions.transactions import Transactions
from protocol.errors import ErrorCode
from protocol.messages.end_txn import EndTxnRequest, EndTxnResponse

V2_SINCE = 5


def end_txn(transactions: Transactions, request: EndTxnRequest, call: Call) -> Result[Any]:
    """End the open transaction. A retry gets the response of the first request."""
    if not request.transactional_id:
        return _refuse(ErrorCode.INVALID_REQUEST, call)
    known = transactions.by_id.get(request.transactional_id)
    if known is None:
        return _refuse(ErrorCode.INVALID_PRODUCER_ID_MAPPING, call)
    # With V2 each end raises the epoch, and a retry shows by its epoch; without, by the state.
    v2 = call.version >= V2_SINCE
    is_retry = v2 and _is_retry(known, request)
    if is_retry and known.state in (State.EMPTY, State.ONGOING):
        return _refuse(ErrorCode.PRODUCER_FENCED, call)  # its response no longer counts: the id has been used since
    if not is_retry and (error := _validate_producer(known, request, v2)):
        return _refuse(error, call)
    if known.state.is_prepared:
        same = (known.state == State.PREPARE_COMMIT) == request.committed
        return _refuse(ErrorCode.CONCURRENT_TRANSACTIONS if same else ErrorCode.INVALID_TXN_STATE, call)
    if known.state == State.ONGOING:
        return _end(transactions, known, request, v2, call)
    if is_retry or (not v2 and known.state != State.EMPTY):
        same = known.state == (State.COMPLETE_COMMIT if request.committed else State.COMPLETE_ABORT)
        return _repeat_response(known, v2) if same else _refuse(ErrorCode.INVALID_TXN_STATE, call)
    if v2 and not request.committed:
        return _end(transactions, known, request, v2, call)  # nothing is open: the abort only raises the epoch
    return _refuse(ErrorCode.INVALID_TXN_STATE, call)


def _is_retry(known: Transaction, request: EndTxnRequest) -> bool:
    """Return whether the request has been answered already, by the epoch that it has raised (KIP-890).

    Whatever protocol has ended the latest transaction: a client may end one by the older in between.
    """
    if known.producer_id == request.producer_id:
        return known.producer_epoch == request.producer_epoch + 1
    overflowed = request.producer_epoch == EPOCH_MAX - 1 and known.producer_epoch == 0
    return known.previous_producer_id == request.producer_id and overflowed


def _validate_producer(known: Transaction, request: EndTxnRequest, v2: bool) -> ErrorCode:
    """Return why the producer may not end the transaction, NONE if it may."""
    if known.producer_id != request.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    is_behind = v2 and known.state.is_prepared
    if request.producer_epoch == EPOCH_MAX or known.producer_epoch != request.producer_epoch or is_behind:
        return ErrorCode.PRODUCER_FENCED
    return ErrorCode.NONE


def _end(transactions: Transactions, known: Transaction, request: EndTxnRequest, v2: bool, call: Call) -> Result[Any]:
    """Decide the end. When the epochs of a producer id are used up, a new id follows, with the epoch 0."""
    is_renewed = v2 and known.is_exhausted
    next_id = transactions.next_producer_id if is_renewed else NO_ID
    outcome = end(known, request.committed, call.now_ms, protocol=V2 if v2 else V1, next_producer_id=next_id)
    records = outcome.records
    if is_renewed:
        response = EndTxnResponse(producer_id=next_id, producer_epoch=0)
        records = (transactions.producer_id_record, *records)
    elif v2:
        response = EndTxnResponse(producer_id=known.producer_id, producer_epoch=known.producer_epoch + 1)
    else:
        response = EndTxnResponse()
    return Result(response=response, records=records, effects=outcome.effects)


def _repeat_response(known: Transaction, v2: bool) -> Result[Any]:
    """Return the response to the request that has ended the transaction."""
    if not v2:
        return Result(response=EndTxnResponse())
    return Result(response=EndTxnResponse(producer_id=known.producer_id, producer_epoch=known.producer_epoch))


def _refuse(error: ErrorCode, call: Call) -> Result[Any]:
    code = for_version(error, call.version)
    return Result(response=EndTxnResponse(error_code=code, producer_id=NO_ID, producer_epoch=NO_EPOCH))
