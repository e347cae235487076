"""EndTxn: a producer commits or aborts. From version 5 on (KIP-890, V2) each end raises the producer's epoch."""

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
    """End the open transaction; what was said already is answered as it was then."""
    if not request.transactional_id:
        return _refuse(ErrorCode.INVALID_REQUEST, call)
    known = transactions.by_id.get(request.transactional_id)
    if known is None:
        return _refuse(ErrorCode.INVALID_PRODUCER_ID_MAPPING, call)
    # A retry is told by its epoch alone where each end raises it, and by the state where none does.
    v2 = call.version >= V2_SINCE
    retries = v2 and _is_retry(known, request)
    if error := _of_producer(known, request, retries):
        return _refuse(error, call)
    if known.state.is_prepared:
        same = (known.state == State.PREPARE_COMMIT) == request.committed
        return _refuse(ErrorCode.CONCURRENT_TRANSACTIONS if same else ErrorCode.INVALID_TXN_STATE, call)
    if known.state == State.ONGOING:
        return _end(transactions, known, request, v2, call)
    if retries or (not v2 and known.state != State.EMPTY):
        same = known.state == (State.COMPLETE_COMMIT if request.committed else State.COMPLETE_ABORT)
        return _answer(known, v2) if same else _refuse(ErrorCode.INVALID_TXN_STATE, call)
    if v2 and not request.committed:
        return _end(transactions, known, request, v2, call)  # nothing is open: the abort only raises the epoch
    return _refuse(ErrorCode.INVALID_TXN_STATE, call)


def _is_retry(known: Transaction, request: EndTxnRequest) -> bool:
    """Return whether the request is the one that led to the state at hand, by the epoch that it raised (KIP-890)."""
    if known.protocol != V2 or known.state == State.ONGOING:
        return False
    if known.producer_id == request.producer_id:
        return known.producer_epoch == request.producer_epoch + 1
    overflowed = request.producer_epoch == EPOCH_MAX - 1 and known.producer_epoch == 0
    return known.previous_producer_id == request.producer_id and overflowed


def _of_producer(known: Transaction, request: EndTxnRequest, retries: bool) -> ErrorCode | None:
    if retries:
        return None
    if known.producer_id != request.producer_id:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    is_behind = known.protocol == V2 and known.state.is_prepared
    if request.producer_epoch == EPOCH_MAX or known.producer_epoch != request.producer_epoch or is_behind:
        return ErrorCode.PRODUCER_FENCED
    return None


def _end(transactions: Transactions, known: Transaction, request: EndTxnRequest, v2: bool, call: Call) -> Result[Any]:
    """Decide the end. A producer id whose epochs are used up is followed by a new one, with the epoch 0."""
    renews = v2 and known.is_exhausted
    next_id = transactions.next_producer_id if renews else NO_ID
    outcome = end(known, request.committed, call.now_ms, protocol=V2 if v2 else V1, next_producer_id=next_id)
    answer = EndTxnResponse()
    if v2:
        answer = EndTxnResponse(producer_id=known.producer_id, producer_epoch=known.producer_epoch + 1)
    if renews:
        answer = EndTxnResponse(producer_id=next_id, producer_epoch=0)
        return Result(
            response=answer, records=(transactions.producer_id_record, *outcome.records), effects=outcome.effects
        )
    return Result(response=answer, records=outcome.records, effects=outcome.effects)


def _answer(known: Transaction, v2: bool) -> Result[Any]:
    if not v2:
        return Result(response=EndTxnResponse())
    return Result(response=EndTxnResponse(producer_id=known.producer_id, producer_epoch=known.producer_epoch))


def _refuse(error: ErrorCode, call: Call) -> Result[Any]:
    code = for_version(error, call.version)
    return Result(response=EndTxnResponse(error_code=code, producer_id=NO_ID, producer_epoch=NO_EPOCH))
