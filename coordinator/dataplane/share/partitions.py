"""The share partitions that are served, the share sessions, and when the next lock ends: the one place of this state.

A share partition is read from the share coordinator with the first ShareFetch of it, and then kept here, as a frozen
value. It is forgotten when its topic goes, when a write of it is fenced, and when the last session of its group has
gone with its connection: the next ShareFetch reads it again, so that offsets that were altered meanwhile count then.
"""

from collections.abc import Collection, Iterator, Mapping

from coordinator.core.share_partitions.locks import next_lock_ms
from coordinator.core.share_partitions.sessions import SessionKey, ShareSession, ShareSessions
from coordinator.core.share_partitions.tally import DeliveryTally
from coordinator.core.share_partitions.values import SharePartition
from coordinator.core.share_state.values import StateKey
from coordinator.core.timers import TimerKey, Timers, lock
from protocol.errors import ErrorCode


class SharePartitions:
    """All share partitions that are served, by group, topic id and partition."""

    def __init__(self, sessions_max: int) -> None:
        self.sessions = ShareSessions(sessions_max)
        self.locks = Timers()  # one for each share partition of which records are acquired
        self.changing: dict[StateKey, bool] = {}
        """Those of which acknowledgements are being decided in steps, and whether a fetch has passed over them."""
        self.awaited: set[StateKey] = set()
        """Those that are opened once their state is served: however often they are fetched until then, once."""
        self.tally = DeliveryTally()
        self._served: dict[StateKey, SharePartition] = {}
        self._by_group: dict[str, dict[StateKey, None]] = {}
        self._groups_of_connection: dict[int, dict[str, None]] = {}
        """By connection the groups of sessions that it has opened, as long as they have a session, or are served."""
        self._connections_of_group: dict[str, dict[int, None]] = {}  # the same the other way round

    @property
    def served(self) -> Mapping[StateKey, SharePartition]:
        """Each share partition as it is now."""
        return self._served

    def find(self, key: StateKey) -> SharePartition | None:
        """Return a share partition, None if it is not served."""
        return self._served.get(key)

    def of_group(self, group_id: str) -> Collection[StateKey]:
        """Return the share partitions of a group that are served."""
        return self._by_group.get(group_id, {}).keys()

    def put(self, key: StateKey, partition: SharePartition) -> None:
        """Keep what a share partition has become, and wait for the end of its next lock."""
        if key not in self._served:
            self._by_group.setdefault(key.group_id, {})[key] = None
        self._served[key] = partition
        self.wait_for_lock(key)

    def wait_for_lock(self, key: StateKey) -> None:
        """Set the timer of a share partition to the end of its next lock."""
        partition = self._served.get(key)
        at_ms = None if partition is None else next_lock_ms(partition)
        if at_ms is None:
            self.locks.cancel(_timer_key(key))
        else:
            self.locks.set(_timer_key(key), at_ms)

    def drop(self, key: StateKey) -> None:
        """Forget a share partition. What members have acquired of it is acquired no more."""
        if self._served.pop(key, None) is None:
            return
        self.locks.cancel(_timer_key(key))
        keys = self._by_group[key.group_id]
        del keys[key]
        if not keys:
            del self._by_group[key.group_id]
            self._forget_if_unused(key.group_id)

    def keys_of_topics(self, topic_ids: Collection[bytes]) -> list[StateKey]:
        """Return the share partitions of topics that are served."""
        return [key for key in self._served if key.topic_id in topic_ids]

    # -- sessions ------------------------------------------------------------------------------------------------------

    def open_session(
        self, key: SessionKey, connection: int, partitions: Collection[tuple[bytes, int]], has_acknowledgements: bool
    ) -> ShareSession | ErrorCode:
        """Open a session, and remember the connection that is to be watched."""
        opened = self.sessions.open(key, connection, partitions, has_acknowledgements)
        if isinstance(opened, ShareSession):
            self._groups_of_connection.setdefault(connection, {})[key.group_id] = None
            self._connections_of_group.setdefault(key.group_id, {})[connection] = None
        return opened

    def close_session(self, session: ShareSession) -> ShareSession | None:
        """Close a session and return it as it is; None if there is another one by now, or none."""
        closed = self.sessions.close(session)
        if closed is not None:
            self._forget_if_unused(session.key.group_id)
        return closed

    def is_watched(self, connection: int) -> bool:
        """Return whether a connection has opened a session of a group that is in use still."""
        return connection in self._groups_of_connection

    def close_connection(self, connection: int) -> tuple[list[ShareSession], list[str]]:
        """Close the sessions of a connection that is lost. Returns them, and the groups that have no session now."""
        closed = self.sessions.close_connection(connection)
        groups = self._groups_of_connection.pop(connection, {})
        for group_id in groups:
            del self._connections_of_group[group_id][connection]
            self._forget_if_unused(group_id)
        return closed, [group_id for group_id in groups if not self.sessions.has_group(group_id)]

    def _forget_if_unused(self, group_id: str) -> None:
        """Forget which connections have opened sessions of a group that has none, and of which nothing is served: the
        ids of such groups have no bound."""
        if self.sessions.has_group(group_id) or group_id in self._by_group:
            return
        for connection in self._connections_of_group.pop(group_id, ()):
            groups = self._groups_of_connection[connection]
            del groups[group_id]
            if not groups:
                del self._groups_of_connection[connection]

    # -- locks ---------------------------------------------------------------------------------------------------------

    def pop_due(self, now_ms: int) -> StateKey | None:
        """Return a share partition of which a lock has ended; None if there is none. Its timer is set no more."""
        due = self.locks.pop_due(now_ms)
        return None if due is None else _state_key(due.key)

    def deadlines_of(self, group_id: str) -> Iterator[tuple[StateKey, int]]:
        """Yield the share partitions of a group with the end of their next lock, the earliest first."""
        for key, at_ms in self.locks.of_group(group_id):
            yield _state_key(key), at_ms


def _timer_key(key: StateKey) -> TimerKey:
    return lock(key.group_id, key.topic_id, key.partition)


def _state_key(key: TimerKey) -> StateKey:
    timed = key[2]
    assert isinstance(timed, tuple), "a lock is of a partition"
    return StateKey(key[1], *timed)
