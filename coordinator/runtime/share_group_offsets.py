"""DescribeShareGroupOffsets: where share groups are in each partition, and how far behind (KIP-932, KIP-1226).

Shown by tests/conformance/stories/share_acknowledge.py.
"""

from collections.abc import Iterable
from typing import Any

from coordinator.core.decision import Steps, in_steps
from coordinator.core.pace import Pace, name_units
from coordinator.core.response_budget import ResponseBudget
from coordinator.core.result import Call
from coordinator.core.share_state.values import NO_OFFSET, UNKNOWN_COUNT, StateKey, StateSummary
from coordinator.core.topics import NO_ID
from coordinator.dataplane.brokers import Where
from coordinator.runtime.engine import Engine
from coordinator.runtime.share_states import NOT_SERVED
from protocol.errors import ErrorCode
from protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)

Partition = DescribeShareGroupOffsetsResponsePartition


@in_steps
def describe_share_group_offsets(
    engine: Engine, request: DescribeShareGroupOffsetsRequest, call: Call, where: Where
) -> Steps[DescribeShareGroupOffsetsResponse]:
    """Describe each group by itself, in steps. A group that does not exist has no offsets, which is no error."""
    groups = []
    pace, budget = Pace(), ResponseBudget()
    for asked in request.groups:
        if pace.is_due(name_units(asked.group_id)):
            yield
        if asked.topics is None:
            partition = engine.world.partitions.owner(asked.group_id)
            if code := engine.world.coordinators.refuse(partition, where):
                groups.append(DescribeShareGroupOffsetsResponseGroup(asked.group_id, error_code=code))
                continue
            topics: Iterable[DescribeShareGroupOffsetsRequestTopic]
            topics = yield from _all_topics(engine, asked.group_id, pace)
        else:
            topics = asked.topics
        group = yield from _describe(engine, asked.group_id, topics, pace, budget)
        groups.append(group)
    return DescribeShareGroupOffsetsResponse(groups=tuple(groups))


def _all_topics(engine: Engine, group_id: str, pace: Pace) -> Steps[list[DescribeShareGroupOffsetsRequestTopic]]:
    """Return the partitions of which the group has a state."""
    group: Any = engine.world.partitions.owner(group_id).shard.groups.get(group_id)
    found = []
    for topic_id, one in getattr(group, "initialized", {}).items():
        if pace.is_due():
            yield
        topic = engine.world.ledger.catalog.topics.by_id(topic_id)
        if topic is not None:
            found.append(DescribeShareGroupOffsetsRequestTopic(topic.name, one.partitions))
    return found


def _describe(
    engine: Engine,
    group_id: str,
    wanted: Iterable[DescribeShareGroupOffsetsRequestTopic],
    pace: Pace,
    budget: ResponseBudget,
) -> Steps[DescribeShareGroupOffsetsResponseGroup]:
    known: list[DescribeShareGroupOffsetsResponseTopic] = []
    unknown: list[DescribeShareGroupOffsetsResponseTopic] = []
    for asked in wanted:
        budget.charge_elements(1 + len(asked.partitions))
        if pace.is_due():
            yield
        topic = engine.world.ledger.catalog.topics.get(asked.topic_name)
        if topic is None:
            nowhere = tuple([Partition(index, start_offset=NO_OFFSET) for index in asked.partitions])
            unknown.append(DescribeShareGroupOffsetsResponseTopic(asked.topic_name, NO_ID, nowhere))
            continue
        partitions = []
        for index in asked.partitions:
            if pace.is_due():
                yield
            summary = engine.share_states.summary(StateKey(group_id, topic.id, index))
            if summary in NOT_SERVED:
                return DescribeShareGroupOffsetsResponseGroup(group_id, error_code=int(summary))
            partitions.append((yield from _partition(engine, asked.topic_name, index, summary)))
        known.append(DescribeShareGroupOffsetsResponseTopic(topic.name, topic.id, tuple(partitions)))
    return DescribeShareGroupOffsetsResponseGroup(group_id, (*known, *unknown))


def _partition(engine: Engine, topic: str, index: int, summary: StateSummary | ErrorCode) -> Steps[Partition]:
    if not isinstance(summary, StateSummary):
        return Partition(index, NO_OFFSET, 0)
    start, count = summary.start_offset, summary.delivery_complete_count
    if start == NO_OFFSET or count == UNKNOWN_COUNT:
        return Partition(index, start, summary.leader_epoch)
    yield from engine.world.dataplane.open_in_steps(topic, index)
    end = engine.world.dataplane.find_end_offset(topic, index)
    if isinstance(end, ErrorCode):
        return Partition(index, 0, 0, error_code=end)
    return Partition(index, start, summary.leader_epoch, _wrap(end - start - count))


def _wrap(number: int) -> int:
    """Return a number as 64 bits have it: states may hold any offset and any count, and Kafka counts so as well."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)
