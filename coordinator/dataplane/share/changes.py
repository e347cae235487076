"""Change a share partition: write what lasts, keep the value, and wake the fetches that may go on.

    decide on the value ──► write to the share coordinator ──► NONE: keep the value ──► wake who waits for it
                                                          └──► an error: nothing has changed

The end of a lock, and records that are released for a member, must not be lost: while the state is being loaded they
wait for it.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Final

from coordinator.core.decision import Steps
from coordinator.core.pace import Pace, do_to_the_end
from coordinator.core.share_partitions.acquire import next_fetch_offset
from coordinator.core.share_partitions.locks import expire_locks, release_all, release_member
from coordinator.core.share_partitions.sessions import ShareSession
from coordinator.core.share_partitions.tally import LOCK
from coordinator.core.share_partitions.values import Change, Limits, SharePartition
from coordinator.core.share_state.values import StateKey
from coordinator.dataplane.share.deliveries import tell
from coordinator.dataplane.state import State
from protocol.errors import ErrorCode

TOLD: Final = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.GROUP_ID_NOT_FOUND: ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.FENCED_STATE_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER,
}
"""What clients are told of the share coordinator's errors; UNKNOWN_SERVER_ERROR of others. Kafka:
`fetchPersisterError`."""

NOT_SERVED: Final = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE})
OUTDATED: Final = frozenset({
    ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
})  # fmt: skip
"""The errors after which a share partition is read again. Kafka: `fencedSharePartitionHandler`."""

CLOSED: Final = "session closed"

RUNS_A_TURN: Final = 10_000  # of share partitions whose locks end in one turn: some twenty milliseconds
RUNS_A_UNIT: Final = 20  # as much work as a small entry

Decide = Callable[[SharePartition, Limits], Change]


def limits_of(state: State, group_id: str) -> Limits:
    """Return the settings of a group that its share partitions go by."""
    limits = state.runtime.group_limits(group_id)
    return Limits(
        limits.group_share_delivery_count_limit,
        limits.group_share_partition_max_record_locks,
        limits.group_share_record_lock_duration_ms,
    )


def told(error: ErrorCode) -> ErrorCode:
    """Return what a client is told of an error of the share coordinator."""
    return TOLD.get(error, ErrorCode.UNKNOWN_SERVER_ERROR)


def apply(state: State, key: StateKey, change: Change, by: str, now_ms: int) -> ErrorCode:
    """Write a change of a share partition that is served, and keep it. Returns what a client is told.

    `by` is the request, the timer or the verb that leads to it.
    """
    share, before = state.share, state.share.find(key)
    assert before is not None, "what is changed is served"
    if change.update is not None:
        code = state.runtime.share_states.write(key, change.update, now_ms)
        if code:
            if told(code) in OUTDATED:
                drop(state, key)
            return told(code)
    share.put(key, change.partition)
    if change.update is not None:
        tell(state, key, before, change.update, by, now_ms)
    _wake(state, key, before, change.partition)
    return ErrorCode.NONE


def drop(state: State, key: StateKey) -> None:
    """Forget a share partition, and let the fetches that wait for it look again."""
    state.share.drop(key)
    state.polls.wake(key)


def drop_topics(state: State, topic_ids: Collection[bytes]) -> Steps[None]:
    """Forget the share partitions of topics that are gone."""
    pace = Pace()
    for key in state.share.keys_of_topics(topic_ids):
        if pace.is_due():
            yield
        state.share.drop(key)
        state.polls.wake(key)


def _wake(state: State, key: StateKey, before: SharePartition, after: SharePartition) -> None:
    """Wake the fetches of a share partition if there is more to acquire than before."""
    if next_fetch_offset(before) != next_fetch_offset(after) or after.in_flight < before.in_flight:
        state.polls.wake(key)


def expire(state: State, key: StateKey, now_ms: int) -> None:
    """Free the records of a share partition whose lock has ended."""
    _free(state, key, lambda partition, limits: expire_locks(partition, limits, now_ms), LOCK, now_ms)


def expire_due(state: State, now_ms: int, most: int) -> None:
    """Free the records of share partitions of which a lock has ended: of so many in one turn, and of as many as a turn
    has time for. The others stay due."""
    looked_at = 0
    for _ in range(most):
        key = state.share.pop_due(now_ms) if looked_at < RUNS_A_TURN else None
        if key is None:
            return
        partition = state.share.find(key)
        looked_at += 0 if partition is None else len(partition.runs)
        state.runtime.edge.attempt("timer lock", expire, state, key, now_ms)


def release(state: State, session: ShareSession, pace: Pace, now_ms: int) -> Steps[None]:
    """Free all records that the member of a closed session has acquired in it or before it, in steps."""
    group_id, member_id, _ = session.key

    def decide(partition: SharePartition, limits: Limits) -> Change:
        return release_member(partition, member_id, limits, session.number)

    for topic_id, index in tuple(session.partitions):
        key = StateKey(group_id, topic_id, index)
        if pace.is_due(_units(state.share.find(key))):
            yield
        _free(state, key, decide, CLOSED, now_ms)


def _units(partition: SharePartition | None) -> int:
    """Return what it takes to look at all runs of a share partition."""
    return 1 if partition is None else 1 + len(partition.runs) // RUNS_A_UNIT


def _free(state: State, key: StateKey, decide: Decide, by: str, now_ms: int) -> None:
    """Make records available again, or archive them, as soon as that can be written."""
    partition = state.share.find(key)
    if partition is None:
        return
    if key in state.share.changing:
        state.runtime.do_in_steps(_free_later(state, key, decide, by, now_ms))
        return
    change = decide(partition, limits_of(state, key.group_id))
    if change.partition is partition:
        state.share.wait_for_lock(key)
        return
    error = apply(state, key, change, by, now_ms)
    if error == ErrorCode.COORDINATOR_NOT_AVAILABLE:
        state.runtime.share_states.call_when_served(key, lambda at_ms: _free(state, key, decide, by, at_ms))
    elif error and key in state.share.served:  # the state is gone; its members go on with what they have
        state.share.put(key, change.partition)
        state.polls.wake(key)


def _free_later(state: State, key: StateKey, decide: Decide, by: str, now_ms: int) -> Steps[None]:
    while key in state.share.changing:
        yield
    _free(state, key, decide, by, now_ms)


def close_connection(state: State, connection: int, now_ms: int) -> None:
    """Release what the members have acquired whose sessions a lost connection has opened."""
    sessions, empty_groups = state.share.close_connection(connection)
    if sessions or empty_groups:
        state.runtime.do_in_steps(_close_in_steps(state, sessions, empty_groups, now_ms))


def _close_in_steps(
    state: State, sessions: Iterable[ShareSession], empty_groups: Iterable[str], now_ms: int
) -> Steps[None]:
    pace = Pace()  # of all: each may have fewer partitions than there are units between two checkpoints
    for session in sessions:
        yield from release(state, session, pace, now_ms)
    for group_id in empty_groups:
        for key in tuple(state.share.of_group(group_id)):
            if pace.is_due(_units(state.share.find(key))):
                yield
            while key in state.share.changing:
                yield
            _drop_unused(state, key, now_ms)


def _drop_unused(state: State, key: StateKey, now_ms: int) -> None:
    """Forget a share partition whose group has no session, once the release of its records is written.

    Sessions that are closed have released the partitions that they named last. A member may have acquired records of
    others before, which nobody can acknowledge any more.
    """
    partition = state.share.find(key)
    if partition is None or key in state.share.changing or state.share.sessions.has_group(key.group_id):
        return
    error = apply(state, key, release_all(partition, limits_of(state, key.group_id)), CLOSED, now_ms)
    if error == ErrorCode.COORDINATOR_NOT_AVAILABLE:
        state.runtime.share_states.call_when_served(key, lambda at_ms: _drop_unused(state, key, at_ms))
    else:
        drop(state, key)


def close_session(state: State, session: ShareSession, now_ms: int) -> Steps[None]:
    """Close a session unless its member has another one with the broker by now, and release what it has acquired."""
    closed = state.share.close_session(session)
    if closed is not None:
        yield from do_to_the_end(state.runtime.do_in_steps, release(state, closed, Pace(), now_ms))
