"""ListOffsets: the start and the end of a partition, and the first record at or after a time.

Shown by tests/dataplane/test_list_offsets.py and tests/conformance/stories/list_offsets.py.
"""

from collections import Counter
from collections.abc import Generator
from typing import Final

from coordinator.dataplane.brokers import LEADER_EPOCH, NO_EPOCH
from coordinator.dataplane.isolation import READ_COMMITTED
from coordinator.dataplane.pace import READ_WORK, PartitionPace
from coordinator.dataplane.state import Env, State
from protocol.compression import Meter
from protocol.errors import ErrorCode, ProtocolError
from protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
    ListOffsetsResponseTopic,
)
from storage.files import StorageError
from storage.log import Log

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -1, -2, -3, -4, -5, -6
SINCE: Final = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
NONE: Final = (-1, -1)

_Found = tuple[int, int]  # offset and timestamp, -1 where there is none


def list_offsets(state: State, request: ListOffsetsRequest, env: Env) -> Generator[None, None, ListOffsetsResponse]:
    """Find the offset of each partition, in steps. One that is named twice is refused, and each topic told once."""
    times = Counter((topic.name, one.partition_index) for topic in request.topics for one in topic.partitions)
    wanted: dict[str, dict[int, ListOffsetsRequestPartition]] = {}
    for topic in request.topics:
        wanted.setdefault(topic.name, {}).update({one.partition_index: one for one in topic.partitions})
    committed = request.isolation_level == READ_COMMITTED and request.replica_id < 0
    pace, meter = PartitionPace(state.logs), Meter()
    topics: list[ListOffsetsResponseTopic] = []
    for topic_name, asked in wanted.items():
        results: list[ListOffsetsResponsePartition] = []
        for index, one in asked.items():
            if pace.count_partition():
                yield
            if times[topic_name, index] > 1:
                results.append(_error(index, ErrorCode.INVALID_REQUEST))
                continue
            if one.timestamp >= 0 or one.timestamp == MAX_TIMESTAMP:
                pace.add(READ_WORK)
            results.append((yield from _answer(state, topic_name, one, env.call.version, committed, meter)))
        topics.append(ListOffsetsResponseTopic(topic_name, tuple(results)))
    return ListOffsetsResponse(topics=tuple(topics))


def _answer(
    state: State, topic: str, asked: ListOffsetsRequestPartition, version: int, committed: bool, meter: Meter
) -> Generator[None, None, ListOffsetsResponsePartition]:
    index = asked.partition_index
    if asked.timestamp < EARLIEST_PENDING_UPLOAD or version < SINCE.get(asked.timestamp, 0):
        return _error(index, ErrorCode.UNSUPPORTED_VERSION)
    yield from state.open_log_in_steps(topic, index)
    if (error := state.try_open(topic, index)) != ErrorCode.NONE:
        return _error(index, error)
    if asked.current_leader_epoch > LEADER_EPOCH:
        return _error(index, ErrorCode.UNKNOWN_LEADER_EPOCH)
    if asked.current_leader_epoch < NO_EPOCH:
        return _error(index, ErrorCode.FENCED_LEADER_EPOCH)
    log = state.log(topic, index)
    if log is None:
        offset, timestamp = _find_in_nothing(asked.timestamp)
    else:
        try:
            offset, timestamp = yield from _find_in(log, asked.timestamp, committed, meter)
        except ProtocolError:  # in what another broker has written
            return _error(index, ErrorCode.CORRUPT_MESSAGE)
        except StorageError as failure:
            return _error(index, state.close_failed_partition(topic, index, failure))
        if (error := state.try_open(topic, index)) != ErrorCode.NONE:  # it may have gone between two steps
            return _error(index, error)
    epoch = -1 if offset < 0 else LEADER_EPOCH
    return ListOffsetsResponsePartition(index, timestamp=timestamp, offset=offset, leader_epoch=epoch)


def _error(index: int, error: ErrorCode) -> ListOffsetsResponsePartition:
    return ListOffsetsResponsePartition(index, error)


def _find_in(log: Log, timestamp: int, committed: bool, meter: Meter) -> Generator[None, None, _Found]:
    """Return offset and timestamp. With `committed`, the log ends at the last stable offset."""
    end = log.last_stable_offset if committed else log.end_offset
    if timestamp == LATEST:
        return end, -1
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return log.start_offset, -1
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NONE
    found = yield from (log.latest_time(meter) if timestamp == MAX_TIMESTAMP else log.offset_for_time(timestamp, meter))
    return found if found is not None and found[0] < end else NONE


def _find_in_nothing(timestamp: int) -> _Found:
    """Return offset and timestamp in a partition that was never written to."""
    return (0, -1) if timestamp in (LATEST, EARLIEST, EARLIEST_LOCAL) else NONE
