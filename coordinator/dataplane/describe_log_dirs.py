"""DescribeLogDirs: how many bytes each partition has in the one directory there is.

Shown by tests/dataplane/test_describe_log_dirs.py.
"""

from collections.abc import Generator, Iterable

from coordinator.core.catalog.names import OFFSETS_TOPIC
from coordinator.core.response_budget import ResponseBudget
from coordinator.dataplane.state import Env, State
from protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResponseDescribeLogDirsPartition,
    DescribeLogDirsResponseDescribeLogDirsResult,
    DescribeLogDirsResponseDescribeLogDirsTopic,
)


def describe_log_dirs(
    state: State, request: DescribeLogDirsRequest, env: Env
) -> Generator[None, None, DescribeLogDirsResponse]:
    """Describe the partitions that are asked for, each once; those that do not exist are left out, as in Kafka."""
    topics, budget = [], ResponseBudget()
    for name, indexes in _select(state, request).items():
        partitions = []
        for index in indexes:
            if state.has(name, index):
                budget.charge_elements(1)
                partitions.append(DescribeLogDirsResponseDescribeLogDirsPartition(index, _size(state, name, index)))
                yield
        if partitions:
            topics.append(DescribeLogDirsResponseDescribeLogDirsTopic(name, tuple(partitions)))
    total, usable = state.logs.space()
    directory = DescribeLogDirsResponseDescribeLogDirsResult(
        log_dir=state.logs.path, topics=tuple(topics), total_bytes=total, usable_bytes=usable
    )
    return DescribeLogDirsResponse(results=(directory,))


def _select(state: State, request: DescribeLogDirsRequest) -> dict[str, Iterable[int]]:
    """Return the partitions to describe, by topic."""
    if request.topics is None:
        return {name: range(fact.partitions) for name, fact in state.catalog.topics_by_name.items()}
    wanted: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        wanted.setdefault(topic.topic, {}).update(dict.fromkeys(topic.partitions))
    return dict(wanted)


def _size(state: State, topic: str, index: int) -> int:
    if topic == OFFSETS_TOPIC:
        log = state.runtime.offsets_log(index)
        return 0 if log is None else log.size
    return state.logs.size(topic, index)
