"""Begin to serve share partitions: open the log, read the state, and find out where a new one begins.

Kafka: `SharePartition.maybeInitialize`.
"""

from collections.abc import Callable, Iterable
from typing import Final

from coordinator.core.decision import Steps
from coordinator.core.durations import parse_duration_ms
from coordinator.core.share_partitions.load import load_partition
from coordinator.core.share_state.values import NO_OFFSET, ShareState, StateKey
from coordinator.dataplane.brokers import LEADER_EPOCH
from coordinator.dataplane.pace import READ_WORK, PartitionPace
from coordinator.dataplane.share.changes import NOT_SERVED, told
from coordinator.dataplane.state import State
from protocol.compression import Meter
from protocol.errors import ErrorCode, ProtocolError
from storage.files import StorageError

EARLIEST: Final = "earliest"
BY_DURATION: Final = "by_duration:"


def open_partitions(state: State, keys: Iterable[StateKey], now_ms: int) -> Steps[dict[StateKey, ErrorCode]]:
    """Serve these share partitions from now on, in steps. Returns why some cannot be.

    One whose state is being loaded is served later, and wakes the fetches that wait for it then. One whose group has no
    session any more is not served: it would not be forgotten before another session of the group ends.
    """
    pace, errors = PartitionPace(state.logs), dict[StateKey, ErrorCode]()
    for key in keys:
        if key in state.share.served:
            continue
        if pace.count_partition():
            yield
        pace.add(READ_WORK)
        error = yield from _open(state, key, now_ms)
        if error:
            errors[key] = error
    return errors


def _open(state: State, key: StateKey, now_ms: int) -> Steps[ErrorCode]:
    """Return why the partition cannot be served. Whether its state is there is found out later, while it is loaded."""
    name = state.name_of(key.topic_id)
    if name is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    yield from state.open_log_in_steps(name, key.partition)
    if error := state.try_open(name, key.partition):
        return error
    found = state.runtime.share_states.read(key, LEADER_EPOCH, now_ms)
    if found in NOT_SERVED:
        if key not in state.share.awaited:
            state.share.awaited.add(key)
            state.runtime.share_states.call_when_served(key, _try_again(state, key))
        return ErrorCode.NONE
    if not isinstance(found, ShareState):
        return told(found)
    start = 0
    if found.start_offset == NO_OFFSET:
        begin = yield from _find_start(state, name, key, now_ms)
        if isinstance(begin, ErrorCode):
            return begin
        start = begin
    is_wanted = state.share.sessions.has_group(key.group_id)  # the client may have gone meanwhile
    if is_wanted and key not in state.share.served and state.name_of(key.topic_id) == name:
        try:
            state.share.put(key, load_partition(found, start))
        except ValueError:
            return ErrorCode.UNKNOWN_SERVER_ERROR
    return ErrorCode.NONE


def _find_start(state: State, name: str, key: StateKey, now_ms: int) -> Steps[int | ErrorCode]:
    """Return where a group begins that has read nothing of a partition, by its `share.auto.offset.reset`."""
    log = state.log(name, key.partition)
    if log is None:
        return 0
    reset = state.runtime.group_limits(key.group_id).share_auto_offset_reset
    if reset == EARLIEST:
        return log.start_offset
    if reset.startswith(BY_DURATION):
        begin_ms = now_ms - (parse_duration_ms(reset.removeprefix(BY_DURATION)) or 0)
        try:
            found = yield from log.offset_for_time(begin_ms, Meter())
        except ProtocolError:  # in what another broker has written
            return ErrorCode.CORRUPT_MESSAGE
        except StorageError as failure:
            return state.close_failed_partition(name, key.partition, failure)
        if found is not None:
            return found[0]
    return log.end_offset


def _try_again(state: State, key: StateKey) -> Callable[[int], None]:
    def call(now_ms: int) -> None:
        state.share.awaited.discard(key)
        state.runtime.do_in_steps(_open_and_wake(state, key, now_ms))

    return call


def _open_and_wake(state: State, key: StateKey, now_ms: int) -> Steps[None]:
    yield from open_partitions(state, (key,), now_ms)
    state.polls.wake(key)
