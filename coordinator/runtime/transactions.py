"""Requests about transactions: each is for the broker that coordinates the transactional id."""

from typing import Any

from msgspec.structs import replace

from coordinator.core.decision import Decision, Done, Steps, in_steps
from coordinator.core.pace import map_in_steps, name_units
from coordinator.core.result import Call
from coordinator.core.transactions.describe_transactions import describe_transactions as describe
from coordinator.core.transactions.list_transactions import list_transactions as list_them
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
        return engine.world.dataplane.handle(request, call, where)
    return _decide(engine, request.transactional_id, request, call, where)


def end_txn(engine: Engine, request: EndTxnRequest, call: Call, where: Where) -> Decision:
    """End the transaction of one producer."""
    return _decide(engine, request.transactional_id, request, call, where)


def add_partitions_to_txn(engine: Engine, request: AddPartitionsToTxnRequest, call: Call, where: Where) -> Decision:
    """Add partitions to the transaction of one producer."""
    if call.version >= BATCHED_SINCE:
        return engine.world.dataplane.handle(request, call, where)
    return _decide(engine, request.v3_and_below_transactional_id, request, call, where)


@in_steps
def describe_transactions(
    engine: Engine, request: DescribeTransactionsRequest, call: Call, where: Where
) -> Steps[DescribeTransactionsResponse]:
    """Describe each transactional id by itself."""
    names = request.transactional_ids
    codes = yield from map_in_steps(
        names, lambda name: engine.world.coordinators.refuse_transaction(name, where), units=name_units
    )
    if not any(codes):
        return (yield from describe(engine.world.ledger.transactions, request, call))
    own = tuple([name for name, code in zip(names, codes, strict=True) if not code])
    served = replace(request, transactional_ids=own)
    response = yield from describe(engine.world.ledger.transactions, served, call)
    described = iter(response.transaction_states)
    states = [
        DescribeTransactionsResponseTransactionState(code, name) if code else next(described)
        for name, code in zip(names, codes, strict=True)
    ]
    return DescribeTransactionsResponse(transaction_states=tuple(states))


@in_steps
def list_transactions(
    engine: Engine, request: ListTransactionsRequest, call: Call, where: Where
) -> Steps[ListTransactionsResponse]:
    """List the transactions that the broker coordinates, in steps; none while it loads some of them."""
    if engine.world.coordinators.loads_transactions(where):
        return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    response = yield from list_them(engine.world.ledger.transactions, request, call)
    states = response.transaction_states
    codes = yield from map_in_steps(
        states, lambda one: engine.world.coordinators.refuse_transaction(one.transactional_id, where)
    )
    if ErrorCode.COORDINATOR_LOAD_IN_PROGRESS in codes:  # some have moved between two steps
        return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    own = [one for one, code in zip(states, codes, strict=True) if not code]
    return replace(response, transaction_states=tuple(own))


def _decide(engine: Engine, transactional_id: str, request: Any, call: Call, where: Where) -> Decision:
    if code := engine.world.coordinators.refuse_transaction(transactional_id, where):
        return Done(error_response(request, call.version, code))
    return engine.world.dataplane.handle(request, call, where)
