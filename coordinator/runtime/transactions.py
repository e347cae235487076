"""Requests about transactions: each is for the broker that coordinates the transactional id."""

from typing import Any

from msgspec.structs import replace

from coordinator.core.decision import Decision, Done, map_response
from coordinator.core.result import Call
from coordinator.dataplane.brokers import Where
from coordinator.runtime.engine import Engine
from coordinator.runtime.error_response import error_response
from protocol.errors import ErrorCode
from protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsResponseTransactionState,
)
from protocol.messages.end_txn import EndTxnRequest
from protocol.messages.init_producer_id import InitProducerIdRequest
from protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse

BATCHED_SINCE = 4  # AddPartitionsToTxn of brokers, which here have nobody to ask


def init_producer_id(engine: Engine, request: InitProducerIdRequest, call: Call, where: Where) -> Decision:
    """Give a producer an id. One without transactions may ask any broker."""
    if request.transactional_id is None:
        return engine.dataplane.handle(request, call, where)
    return _decide(engine, request.transactional_id, request, call, where)


def end_txn(engine: Engine, request: EndTxnRequest, call: Call, where: Where) -> Decision:
    """End the transaction of one producer."""
    return _decide(engine, request.transactional_id, request, call, where)


def add_partitions_to_txn(engine: Engine, request: AddPartitionsToTxnRequest, call: Call, where: Where) -> Decision:
    """Add partitions to the transaction of one producer."""
    if call.version >= BATCHED_SINCE:
        return engine.dataplane.handle(request, call, where)
    return _decide(engine, request.v3_and_below_transactional_id, request, call, where)


def describe_transactions(engine: Engine, request: DescribeTransactionsRequest, call: Call, where: Where) -> Decision:
    """Describe each transactional id by itself."""
    codes = {name: code for name in request.transactional_ids if (code := engine.refuse_transaction(name, where))}
    if not codes:
        return engine.dataplane.handle(request, call, where)
    served = replace(request, transactional_ids=tuple([n for n in request.transactional_ids if n not in codes]))

    def add_refused(response: DescribeTransactionsResponse) -> DescribeTransactionsResponse:
        described = iter(response.transaction_states)
        states = [
            DescribeTransactionsResponseTransactionState(codes[name], name) if name in codes else next(described)
            for name in request.transactional_ids
        ]
        return DescribeTransactionsResponse(transaction_states=tuple(states))

    return map_response(engine.dataplane.handle(served, call, where), add_refused)


def list_transactions(engine: Engine, request: ListTransactionsRequest, call: Call, where: Where) -> Decision:
    """List the transactions that the broker coordinates, in steps; none while it loads some of them."""
    if engine.loads_transactions(where):
        return Done(ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))

    def keep_own(response: ListTransactionsResponse) -> ListTransactionsResponse:
        own = [one for one in response.transaction_states if not engine.refuse_transaction(one.transactional_id, where)]
        return replace(response, transaction_states=tuple(own))

    return map_response(engine.dataplane.handle(request, call, where), keep_own)


def _decide(engine: Engine, transactional_id: str, request: Any, call: Call, where: Where) -> Decision:
    if code := engine.refuse_transaction(transactional_id, where):
        return Done(error_response(request, call.version, code))
    return engine.dataplane.handle(request, call, where)
