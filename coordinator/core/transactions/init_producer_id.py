"""InitProducerId: a producer gets its id and epoch; whoever had the same transactional id before is fenced.

Shown by tests/core/transactions/test_*.py and tests/conformance/stories/transactions.py.
"""

from typing import Any

from msgspec.structs import replace

from coordinator.core.catalog.records import CatalogRecord
from coordinator.core.result import Call, Result
from coordinator.core.transactions.ending import fence
from coordinator.core.transactions.membership import for_version
from coordinator.core.transactions.states import State
from coordinator.core.transactions.transaction import EPOCH_MAX, NO_EPOCH, NO_ID, Transaction, is_exhausted
from coordinator.core.transactions.transactions import Transactions
from protocol.errors import ErrorCode
from protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

PRODUCER_FENCED_SINCE = 4


def init_producer_id(transactions: Transactions, request: InitProducerIdRequest, call: Call) -> Result[Any]:
    """Answer with an id and an epoch that nobody else has."""
    if (error := _validate(transactions, request)) != ErrorCode.NONE:
        return _refuse(error, call)
    if request.transactional_id is None:
        answer = InitProducerIdResponse(producer_id=transactions.next_producer_id, producer_epoch=0)
        return Result(response=answer, records=(transactions.producer_id_record,))
    known = transactions.by_id.get(request.transactional_id)
    if known is None:
        return _begin(transactions, request, call)
    if not _is_its_own(known, request):
        return _refuse(ErrorCode.PRODUCER_FENCED, call)
    if known.state.is_prepared:
        return _refuse(ErrorCode.CONCURRENT_TRANSACTIONS, call)
    if known.state == State.ONGOING:
        # The producer asks again once the abort is done, and gets its epoch then: the one of the fence is nobody's.
        aborting = fence(known, call.now_ms)
        return replace(aborting, response=_answer(ErrorCode.CONCURRENT_TRANSACTIONS, call))
    return _bump_epoch(transactions, known, request, call)


def _validate(transactions: Transactions, request: InitProducerIdRequest) -> ErrorCode:
    """Validate the request itself, before its transactional id is looked up."""
    if (request.producer_id == NO_ID) != (request.producer_epoch == NO_EPOCH):
        return ErrorCode.INVALID_REQUEST
    if request.transactional_id is None:
        return ErrorCode.NONE
    if not request.transactional_id:
        return ErrorCode.INVALID_REQUEST
    if request.enable2_pc:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED  # KIP-939: what a broker says that has it switched off
    if request.keep_prepared_txn:
        return ErrorCode.UNSUPPORTED_VERSION
    if not 0 < request.transaction_timeout_ms <= transactions.settings.transaction_max_timeout_ms:
        return ErrorCode.INVALID_TRANSACTION_TIMEOUT
    return ErrorCode.NONE


def _is_its_own(known: Transaction, request: InitProducerIdRequest) -> bool:
    """Return whether the id that the producer says it has is the one it was given; one that names none is a new
    instance."""
    if request.producer_id in (NO_ID, known.producer_id):
        return True
    return request.producer_id == known.previous_producer_id and is_exhausted(request.producer_epoch)


def _begin(transactions: Transactions, request: InitProducerIdRequest, call: Call) -> Result[Any]:
    begun = Transaction(
        transactional_id=request.transactional_id or "",
        producer_id=transactions.next_producer_id,
        producer_epoch=0,
        timeout_ms=request.transaction_timeout_ms,
        updated_ms=call.now_ms,
    )
    full = transactions.held.refuse(begun.record)
    return _give_producer_id(begun, transactions.producer_id_record) if full is None else _refuse(full.error, call)


def _bump_epoch(
    transactions: Transactions, known: Transaction, request: InitProducerIdRequest, call: Call
) -> Result[Any]:
    """Give a producer without an open transaction its next epoch, or a new id if the old one has no epoch left."""
    expected = None if request.producer_epoch == NO_EPOCH else request.producer_epoch
    rest = replace(
        known.with_state(State.EMPTY, call.now_ms),
        timeout_ms=request.transaction_timeout_ms,
        previous_producer_id=known.producer_id,
        next_producer_id=NO_ID,
        started_ms=-1,
        partitions=frozenset(),
    )
    is_fenced = known.producer_epoch == EPOCH_MAX  # with the last epoch, which no client may have
    if known.is_exhausted and (
        expected in (None, known.producer_epoch) or (is_fenced and expected == known.last_producer_epoch)
    ):
        last = NO_EPOCH if expected is None else expected
        renewed = replace(rest, producer_id=transactions.next_producer_id, producer_epoch=0, last_producer_epoch=last)
        return _give_producer_id(renewed, transactions.producer_id_record)
    if expected is None:
        return _give_producer_id(replace(rest, producer_epoch=known.producer_epoch + 1, last_producer_epoch=NO_EPOCH))
    if expected == known.producer_epoch:
        return _give_producer_id(
            replace(rest, producer_epoch=known.producer_epoch + 1, last_producer_epoch=known.producer_epoch)
        )
    if expected == known.last_producer_epoch:
        return _give_producer_id(rest)  # the answer to the same question got lost: give it again
    return _refuse(ErrorCode.PRODUCER_FENCED, call)


def _give_producer_id(transaction: Transaction, *first: CatalogRecord) -> Result[Any]:
    answer = InitProducerIdResponse(producer_id=transaction.producer_id, producer_epoch=transaction.producer_epoch)
    return Result(response=answer, records=(*first, transaction.record))


def _refuse(error: ErrorCode, call: Call) -> Result[Any]:
    return Result(response=_answer(error, call))


def _answer(error: ErrorCode, call: Call) -> InitProducerIdResponse:
    code = for_version(error, call.version, PRODUCER_FENCED_SINCE)
    return InitProducerIdResponse(error_code=code, producer_id=NO_ID, producer_epoch=NO_EPOCH)
