"""Share sessions (KIP-932): the partitions that a member of a share group fetches, known by what each request changes.

A session belongs to a group, a member and the broker that it fetches from: clients have one with each leader of their
partitions. The connection that opened it carries it: when that connection is lost, the session is closed and what the
member has acquired is released. Other connections may send requests of it.

    epoch 0 opens it, or opens it anew ──► 1, 2, 3 ... ──► -1 closes it

Kafka: `ShareSessionCache`, `SharePartitionManager.newContext`.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from protocol.errors import ErrorCode

SessionPartition: TypeAlias = tuple[bytes, int]  # topic id, partition

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
SESSION_PARTITIONS_MAX: Final = 10_000  # a fetch looks at all of them in one step
SESSIONS_PARTITIONS_MAX: Final = 500_000  # of all sessions together: some 100 MiB
EPOCH_MAX: Final = 2**31 - 1


class SessionKey(NamedTuple):
    """Whose session it is, and with which broker."""

    group_id: str
    member_id: str
    node_id: int


class ShareSession(Struct, frozen=True, gc=False):
    """A session. `epoch` is that of the request that is expected next, `number` is higher than that of any before."""

    key: SessionKey
    connection: int
    epoch: int
    partitions: dict[SessionPartition, bool]
    """In the order in which they are read, and whether the next response names the partition though it has no news."""
    number: int = 0

    def note_answer(self, partition: SessionPartition, *, has_records: bool, has_error: bool) -> bool:
        """Return whether the response names a partition. One with records is read last next time; one with an error is
        named once more when the error is gone. Kafka: `CachedSharePartition.maybeUpdateResponseData`."""
        is_owed = self.partitions.get(partition)
        if is_owed is None:  # forgotten meanwhile
            return has_records or has_error
        if has_records:
            del self.partitions[partition]
        self.partitions[partition] = has_error
        return has_records or has_error or is_owed


class ShareSessions:
    """The share sessions of all brokers of a server. A request that is refused has changed nothing."""

    def __init__(self, sessions_max: int) -> None:
        self._sessions_max = sessions_max  # with each broker
        self._sessions: dict[SessionKey, ShareSession] = {}
        self._by_connection: dict[int, dict[SessionKey, None]] = {}
        self._by_group: dict[str, int] = {}  # how many sessions a group has
        self._by_broker: dict[int, int] = {}
        self._partitions = 0  # of all sessions
        self._opened = 0  # sessions since the start

    def __len__(self) -> int:
        return len(self._sessions)

    def has_group(self, group_id: str) -> bool:
        """Return whether a member of the group has a session."""
        return group_id in self._by_group

    def find(self, key: SessionKey) -> ShareSession | None:
        """Return the session of a member with a broker, None if it has none."""
        return self._sessions.get(key)

    def open(
        self, key: SessionKey, connection: int, partitions: Iterable[SessionPartition], has_acknowledgements: bool
    ) -> ShareSession | ErrorCode:
        """Open a session, in place of the one with this broker of before: what that has acquired stays acquired."""
        if has_acknowledgements:
            return ErrorCode.INVALID_REQUEST
        if key not in self._sessions and self._by_broker.get(key.node_id, 0) >= self._sessions_max:
            return ErrorCode.SHARE_SESSION_LIMIT_REACHED
        named = dict.fromkeys(partitions, False)
        if not self._has_room(len(named), self._sessions.get(key)):
            return ErrorCode.SHARE_SESSION_LIMIT_REACHED
        self._remove(key)
        self._opened += 1
        session = ShareSession(key, connection, _next(INITIAL_EPOCH), named, self._opened)
        self._partitions += len(named)
        self._sessions[key] = session
        self._by_connection.setdefault(connection, {})[key] = None
        self._by_group[key.group_id] = self._by_group.get(key.group_id, 0) + 1
        self._by_broker[key.node_id] = self._by_broker.get(key.node_id, 0) + 1
        return session

    def continue_fetching(
        self,
        key: SessionKey,
        epoch: int,
        named: Sequence[SessionPartition] = (),
        forgotten: Sequence[SessionPartition] = (),
    ) -> ShareSession | ErrorCode:
        """Take the next ShareFetch of a session, which adds partitions to it and forgets others. FINAL_EPOCH is not
        one: the caller reads what the session knows, and closes it."""
        session = self._expect(key, epoch)
        if isinstance(session, ErrorCode):
            return session
        partitions = session.partitions
        if forgotten or not all(partition in partitions for partition in named):
            partitions = dict(partitions)
            for partition in named:
                partitions.setdefault(partition, True)
            for partition in forgotten:
                partitions.pop(partition, None)
        if not self._has_room(len(partitions), session):
            return ErrorCode.SHARE_SESSION_LIMIT_REACHED
        self._partitions += len(partitions) - len(session.partitions)
        return self._replace(replace(session, epoch=_next(epoch), partitions=partitions))

    def continue_acknowledging(self, key: SessionKey, epoch: int) -> ShareSession | ErrorCode:
        """Take a ShareAcknowledge of a session, which cannot open one. FINAL_EPOCH is followed by `close`."""
        if epoch == INITIAL_EPOCH:
            return ErrorCode.INVALID_SHARE_SESSION_EPOCH
        if epoch == FINAL_EPOCH:
            return self._sessions.get(key) or ErrorCode.SHARE_SESSION_NOT_FOUND
        session = self._expect(key, epoch)
        if isinstance(session, ErrorCode):
            return session
        return self._replace(replace(session, epoch=_next(epoch)))

    def close(self, session: ShareSession) -> ShareSession | None:
        """Close a session and return it as it is; None if there is another one by now, or none. The caller releases
        what the member has acquired in it."""
        current = self._sessions.get(session.key)
        return self._remove(session.key) if current is not None and current.number == session.number else None

    def close_connection(self, connection: int) -> list[ShareSession]:
        """Close the sessions of a connection that is lost, and return them."""
        keys = tuple(self._by_connection.get(connection, ()))
        return [session for key in keys if (session := self._remove(key)) is not None]

    def _has_room(self, partitions: int, before: ShareSession | None) -> bool:
        """Return whether a session may have so many partitions. They need not exist, so a client could name any
        number."""
        more = partitions - (0 if before is None else len(before.partitions))
        return partitions <= SESSION_PARTITIONS_MAX and (
            more <= 0 or self._partitions + more <= SESSIONS_PARTITIONS_MAX
        )

    def _expect(self, key: SessionKey, epoch: int) -> ShareSession | ErrorCode:
        session = self._sessions.get(key)
        if session is None:
            return ErrorCode.SHARE_SESSION_NOT_FOUND
        return session if epoch == session.epoch else ErrorCode.INVALID_SHARE_SESSION_EPOCH

    def _replace(self, session: ShareSession) -> ShareSession:
        self._sessions[session.key] = session
        return session

    def _remove(self, key: SessionKey) -> ShareSession | None:
        session = self._sessions.pop(key, None)
        if session is not None:
            self._partitions -= len(session.partitions)
            keys = self._by_connection[session.connection]
            del keys[key]
            if not keys:
                del self._by_connection[session.connection]
            left = self._by_group.pop(key.group_id) - 1
            if left:
                self._by_group[key.group_id] = left
            self._by_broker[key.node_id] -= 1
        return session


def _next(epoch: int) -> int:
    return 1 if epoch == EPOCH_MAX else epoch + 1
