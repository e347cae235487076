"""DescribeProducers (KIP-664): which producers have written to a partition, and whose transaction is open in it.

Shown by tests/conformance/stories/{admin_features,transactions}.py.
"""

from collections.abc import Generator

from coordinator.core.catalog.names import reason_invalid
from coordinator.core.response_budget import ResponseBudget
from coordinator.dataplane.pace import PartitionPace
from coordinator.dataplane.state import Env, State
from protocol.errors import ErrorCode
from protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersResponsePartition,
    DescribeProducersResponseProducerState,
    DescribeProducersResponseTopic,
)
from storage.producers import Producer


def describe_producers(
    state: State, request: DescribeProducersRequest, env: Env
) -> Generator[None, None, DescribeProducersResponse]:
    """Describe the producers of each partition, in steps."""
    pace, budget = PartitionPace(state.logs), ResponseBudget()
    topics: list[DescribeProducersResponseTopic] = []
    for topic in request.topics:
        reason = reason_invalid(topic.name)
        partitions: list[DescribeProducersResponsePartition] = []
        for index in topic.partition_indexes:
            if pace.count_partition():
                yield
            if reason:
                described = DescribeProducersResponsePartition(index, ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
            else:
                described = yield from _partition(state, topic.name, index, pace, budget)
            partitions.append(described)
        topics.append(DescribeProducersResponseTopic(topic.name, tuple(partitions)))
    return DescribeProducersResponse(topics=tuple(topics))


def _partition(
    state: State, topic: str, index: int, pace: PartitionPace, budget: ResponseBudget
) -> Generator[None, None, DescribeProducersResponsePartition]:
    yield from state.open_log_in_steps(topic, index)
    if (error := state.try_open(topic, index)) != ErrorCode.NONE:
        message = None if topic in state.catalog.topics_by_name else "This server does not host this topic-partition."
        return DescribeProducersResponsePartition(index, error, message)
    log = state.log(topic, index)
    producers = [] if log is None else log.producers.items()
    budget.charge_elements(1 + 2 * len(producers))
    described: list[DescribeProducersResponseProducerState] = []
    for one in producers:
        if pace.count_entry():
            yield
        described.append(_describe(*one))
    return DescribeProducersResponsePartition(index, active_producers=tuple(described))


def _describe(producer_id: int, producer: Producer) -> DescribeProducersResponseProducerState:
    return DescribeProducersResponseProducerState(
        producer_id=producer_id,
        producer_epoch=producer.epoch,
        last_sequence=producer.last_sequence,
        last_timestamp=producer.last_timestamp,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_start_offset=-1 if producer.first_open_offset is None else producer.first_open_offset,
    )
