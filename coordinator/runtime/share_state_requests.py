"""Requests of brokers to the share coordinator: each names share partitions of one group, which are decided one by one.

Kafka: `ShareCoordinatorService`.

Shown by tests/runtime/test_share_states.py and tests/conformance/stories/share_states.py.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from coordinator.core.decision import Steps, in_steps
from coordinator.core.refusal import Refusal
from coordinator.core.response_budget import ResponseBudget
from coordinator.core.result import Call
from coordinator.core.share_state.machine import NO_ROOM, StateDecision
from coordinator.core.share_state.values import ShareState, StateBatch, StateKey, StateSummary, StateUpdate
from coordinator.dataplane.brokers import Where
from coordinator.runtime.engine import Engine
from coordinator.runtime.share_states import Decide
from protocol.messages import delete_share_group_state as delete
from protocol.messages import initialize_share_group_state as initialize
from protocol.messages import read_share_group_state as read
from protocol.messages import read_share_group_state_summary as summary
from protocol.messages import write_share_group_state as write

STEP_PARTITIONS: Final = 200  # decided in one step: some milliseconds

Each = Callable[[StateKey, Any], Decide]
"""What to decide about a share partition, given the entry of the request that names it."""


@in_steps
def initialize_share_group_state(
    engine: Engine, request: initialize.InitializeShareGroupStateRequest, call: Call, where: Where
) -> Steps[Any]:
    """Begin states anew."""
    topics = engine.world.ledger.catalog.topics

    def decide(key: StateKey, one: Any) -> Decide:
        return lambda states: states.initialize(key, one.state_epoch, one.start_offset, topics, call.now_ms)

    results = yield from _decide_each(engine, request, call, where, decide, _entry_of(initialize))
    topic = initialize.InitializeShareGroupStateResponseInitializeStateResult
    return initialize.InitializeShareGroupStateResponse(results=_join(results, topic))


@in_steps
def read_share_group_state(
    engine: Engine, request: read.ReadShareGroupStateRequest, call: Call, where: Where
) -> Steps[Any]:
    """Return states, and note the leader epochs of who reads them."""
    topics = engine.world.ledger.catalog.topics
    entry, budget = read.ReadShareGroupStateResponsePartitionResult, ResponseBudget()

    def decide(key: StateKey, one: Any) -> Decide:
        return lambda states: states.read(key, one.leader_epoch, topics, call.now_ms)

    def answer(index: int, state: Any) -> Any:
        if not isinstance(state, ShareState):
            return entry(index, state.error, state.message)
        budget.charge_elements(1 + len(state.batches))
        batches = tuple([
            read.ReadShareGroupStateResponseStateBatch(
                batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count
            )
            for batch in state.batches
        ])  # fmt: skip
        return entry(index, 0, None, state.state_epoch, state.start_offset, batches)

    results = yield from _decide_each(engine, request, call, where, decide, answer)
    return read.ReadShareGroupStateResponse(results=_join(results, read.ReadShareGroupStateResponseReadStateResult))


@in_steps
def write_share_group_state(
    engine: Engine, request: write.WriteShareGroupStateRequest, call: Call, where: Where
) -> Steps[Any]:
    """Change states."""
    topics = engine.world.ledger.catalog.topics

    def decide(key: StateKey, one: Any) -> Decide:
        batches = tuple([
            StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
            for batch in one.state_batches
        ])  # fmt: skip
        update = StateUpdate(one.state_epoch, one.leader_epoch, one.start_offset, one.delivery_complete_count, batches)
        if batches and engine.memory.shortage.of_members:
            return lambda states: StateDecision(NO_ROOM)
        return lambda states: states.write(key, update, topics, call.now_ms)

    results = yield from _decide_each(engine, request, call, where, decide, _entry_of(write))
    return write.WriteShareGroupStateResponse(
        results=_join(results, write.WriteShareGroupStateResponseWriteStateResult)
    )


@in_steps
def delete_share_group_state(
    engine: Engine, request: delete.DeleteShareGroupStateRequest, call: Call, where: Where
) -> Steps[Any]:
    """Forget states."""
    topics = engine.world.ledger.catalog.topics

    def decide(key: StateKey, one: Any) -> Decide:
        return lambda states: states.delete(key, topics)

    results = yield from _decide_each(engine, request, call, where, decide, _entry_of(delete))
    topic = delete.DeleteShareGroupStateResponseDeleteStateResult
    return delete.DeleteShareGroupStateResponse(results=_join(results, topic))


@in_steps
def read_share_group_state_summary(
    engine: Engine, request: summary.ReadShareGroupStateSummaryRequest, call: Call, where: Where
) -> Steps[Any]:
    """Return the offsets and epochs of states."""
    topics = engine.world.ledger.catalog.topics
    entry = summary.ReadShareGroupStateSummaryResponsePartitionResult

    def decide(key: StateKey, one: Any) -> Decide:
        return lambda states: states.summarize(key, topics)

    def answer(index: int, found: Any) -> Any:
        if not isinstance(found, StateSummary):
            return entry(index, found.error, found.message)
        return entry(
            index, 0, None, found.state_epoch, found.leader_epoch, found.start_offset, found.delivery_complete_count
        )

    results = yield from _decide_each(engine, request, call, where, decide, answer)
    topic = summary.ReadShareGroupStateSummaryResponseReadStateSummaryResult
    return summary.ReadShareGroupStateSummaryResponse(results=_join(results, topic))


def _entry_of(module: Any) -> Callable[[int, Any], Any]:
    """Return what makes the entry of a partition, of an API whose entries have an error and nothing else."""
    name = next(name for name in vars(module) if name.endswith("ResponsePartitionResult"))
    entry = getattr(module, name)

    def answer(index: int, refused: Refusal | None) -> Any:
        return entry(index) if refused is None else entry(index, refused.error, refused.message)

    return answer


def _decide_each(
    engine: Engine, request: Any, call: Call, where: Where, decide: Each, answer: Callable[[int, Any], Any]
) -> Steps[dict[bytes, dict[int, Any]]]:
    """Decide each partition of a request, in steps. Returns the entries by topic id and partition."""
    results: dict[bytes, dict[int, Any]] = {}
    if not request.group_id or not request.topics or not all(topic.partitions for topic in request.topics):
        return results
    for number, (topic_id, one) in enumerate(_partitions(request.topics)):
        if number % STEP_PARTITIONS == STEP_PARTITIONS - 1:
            yield
        key = StateKey(request.group_id, topic_id, one.partition)
        found = engine.share_states.perform(key, decide(key, one), where.node_id, call.now_ms)
        results.setdefault(topic_id, {})[one.partition] = answer(one.partition, found)
    return results


def _partitions(topics: Iterable[Any]) -> Iterable[tuple[bytes, Any]]:
    return ((topic.topic_id, one) for topic in topics for one in topic.partitions)


def _join(results: dict[bytes, dict[int, Any]], topic: Any) -> tuple[Any, ...]:
    return tuple([topic(topic_id, tuple(partitions.values())) for topic_id, partitions in results.items()])
