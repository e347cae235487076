"""DescribeProducers (KIP-664): who has written to a partition, and whose transaction is open in it."""

from collections.abc import Sequence

from coordinator.core.catalog.names import reason_invalid
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


def describe_producers(state: State, request: DescribeProducersRequest, env: Env) -> DescribeProducersResponse:
    """Describe the producers of each partition."""
    return DescribeProducersResponse(
        topics=tuple([
            DescribeProducersResponseTopic(
                topic.name, _partitions(state, topic.name, topic.partition_indexes)
            )
            for topic in request.topics
        ])
    )  # fmt: skip


def _partitions(state: State, topic: str, indexes: Sequence[int]) -> tuple[DescribeProducersResponsePartition, ...]:
    if reason := reason_invalid(topic):
        invalid = ErrorCode.INVALID_TOPIC_EXCEPTION
        return tuple([DescribeProducersResponsePartition(index, invalid, reason) for index in indexes])
    return tuple([_partition(state, topic, index) for index in indexes])


def _partition(state: State, topic: str, index: int) -> DescribeProducersResponsePartition:
    if (error := state.refusal(topic, index)) != ErrorCode.NONE:
        message = None if topic in state.catalog.topics_by_name else "This server does not host this topic-partition."
        return DescribeProducersResponsePartition(index, error, message)
    log = state.log(topic, index)
    producers = [] if log is None else log.producers.items()
    return DescribeProducersResponsePartition(index, active_producers=tuple([_describe(*one) for one in producers]))


def _describe(producer_id: int, producer: Producer) -> DescribeProducersResponseProducerState:
    return DescribeProducersResponseProducerState(
        producer_id=producer_id,
        producer_epoch=producer.epoch,
        last_sequence=producer.last_sequence,
        last_timestamp=producer.last_timestamp,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_start_offset=-1 if producer.first_open_offset is None else producer.first_open_offset,
    )
