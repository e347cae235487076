"""Fetch sessions (KIP-227): a consumer names its partitions once, then only changes, and is told only of changes.

Sessions are not durable: a session that was evicted, or lost in a restart, is answered FETCH_SESSION_ID_NOT_FOUND, and
the client begins a new one. When there are as many as the setting allows, a new session evicts one that was not used
for two minutes; else the smallest one that is older than two minutes, if that is smaller than the new session. If there
is neither, the client gets no session, and names all of its partitions in each fetch (Kafka:
`FetchSessionCacheShard.tryEvict`).
"""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from coordinator.core.catalog.names import NAME_MAX
from protocol.errors import ErrorCode
from protocol.messages.fetch import FetchRequest, FetchResponse, FetchResponsePartitionData

NO_SESSION: Final = 0
FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0
SESSION_PARTITIONS_MAX: Final = 20_000  # more than one request can name; a fetch looks at all of them in one step
SESSIONS_PARTITIONS_MAX: Final = 1_000_000  # of all sessions together
EVICTION_MS: Final = 120_000  # Kafka: `MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS`

Key = tuple[str | bytes, int]  # by topic id from version 13 on, by name before


class FetchPartition(Struct, gc=False):
    """A partition that is fetched, and what the session has last reported about it."""

    name: str | None  # None: no topic has the id
    topic_id: bytes
    partition: int
    offset: int
    max_bytes: int
    leader_epoch: int
    fetched_epoch: int
    high_watermark: int = -1
    log_start_offset: int = -1

    def take_news(self, data: FetchResponsePartitionData) -> bool:
        """Note that the client is told of `data`. Returns whether it has to be: something of it is new."""
        news = bool(data.records) or data.error_code != 0 or data.diverging_epoch.epoch >= 0
        news = news or data.high_watermark != self.high_watermark or data.log_start_offset != self.log_start_offset
        self.high_watermark = data.high_watermark
        self.log_start_offset = data.log_start_offset
        if data.error_code:
            self.forget_news()
        return news

    def forget_news(self) -> None:
        """Let the next response tell of the partition in any case: after an error, or one that was not sent."""
        self.high_watermark = -1


class FetchSession(Struct):
    """The fetch session of one consumer (KIP-227), with its partitions in the order in which they are read."""

    id: int
    by_ids: bool
    epoch: int
    partitions: dict[Key, FetchPartition]
    created_ms: int
    used_ms: int
    evictable_as: int | None = None  # the size by which larger sessions find it; None while it is young


class FetchSessions:
    """All sessions, the one that was used longest ago first."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._sessions: dict[int, FetchSession] = {}
        self._evictable: dict[int, dict[int, FetchSession]] = {}  # by size: those that larger ones may evict
        self._last_id = 0
        self._partitions = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def create(self, by_ids: bool, partitions: dict[Key, FetchPartition], now_ms: int) -> int:
        """Create a session, and return its id; NO_SESSION if there is no room for it."""
        size = len(partitions)
        if not self._slots or size > SESSION_PARTITIONS_MAX or _has_overlong_name(partitions):
            return NO_SESSION
        while len(self._sessions) >= self._slots or self._partitions + size > SESSIONS_PARTITIONS_MAX:
            if not self._evict_for(size, now_ms):
                return NO_SESSION
        self._last_id = self._last_id % (2**31 - 1) + 1
        while self._last_id in self._sessions:
            self._last_id = self._last_id % (2**31 - 1) + 1
        session = FetchSession(self._last_id, by_ids, INITIAL_EPOCH + 1, partitions, now_ms, now_ms)
        self._sessions[session.id] = session
        self._partitions += size
        return session.id

    def close(self, session_id: int) -> None:
        """Close a session, if it exists."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions -= len(session.partitions)
            self._set_evictable(session, None)

    def withdraw(self, response: FetchResponse) -> int:
        """Note that a client is not told of a response. Returns the session that is left, or NO_SESSION: one that has
        just begun is closed. Another one tells of these partitions again."""
        session = self._sessions.get(response.session_id)
        if session is None:
            return NO_SESSION
        if session.epoch == INITIAL_EPOCH + 1:
            self.close(session.id)
            return NO_SESSION
        for topic in response.responses:
            for one in topic.partitions:
                key = (topic.topic_id if session.by_ids else topic.topic, one.partition_index)
                if (known := session.partitions.get(key)) is not None:
                    known.forget_news()
        return session.id

    def resume(
        self,
        request: FetchRequest,
        by_ids: bool,
        changed: dict[Key, FetchPartition],
        forgotten: Iterable[Key],
        now_ms: int,
    ) -> FetchSession | ErrorCode:
        """Return the session of the request, with its changes applied; or the error.

        Partitions need not exist, so a session could grow without end. Like a new session, a growing one evicts others.
        One for which there is no room is closed.
        """
        session = self._sessions.get(request.session_id)
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != request.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        if session.by_ids != by_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
        self._partitions -= len(session.partitions)
        for key, asked in changed.items():
            _update(session, key, asked)
        for key in forgotten:
            session.partitions.pop(key, None)
        size = len(session.partitions)
        self._partitions += size
        if not size:
            self.close(session.id)
            return session
        session.epoch = session.epoch % (2**31 - 1) + 1
        session.used_ms = now_ms
        self._sessions[session.id] = self._sessions.pop(session.id)
        if now_ms - session.created_ms > EVICTION_MS and session.evictable_as != size:
            self._set_evictable(session, size)
        if size > SESSION_PARTITIONS_MAX or _has_overlong_name(changed):
            self.close(session.id)
        while self._partitions > SESSIONS_PARTITIONS_MAX and session.id in self._sessions:
            if not self._evict_for(size, now_ms):
                self.close(session.id)
        return session if session.id in self._sessions else ErrorCode.FETCH_SESSION_ID_NOT_FOUND

    def _evict_for(self, size: int, now_ms: int) -> bool:
        """Evict a session for one of `size` partitions. Return whether there was one that may be evicted."""
        oldest = next(iter(self._sessions.values()), None)
        if oldest is not None and now_ms - oldest.used_ms > EVICTION_MS:
            self.close(oldest.id)
            return True
        smallest = min(self._evictable, default=size)
        if smallest >= size:
            return False
        self.close(next(iter(self._evictable[smallest])))
        return True

    def _set_evictable(self, session: FetchSession, size: int | None) -> None:
        """Note by which size larger sessions find this one; None: not at all."""
        if session.evictable_as is not None:
            alike = self._evictable[session.evictable_as]
            del alike[session.id]
            if not alike:
                del self._evictable[session.evictable_as]
        session.evictable_as = size
        if size is not None:
            self._evictable.setdefault(size, {})[session.id] = session


def _has_overlong_name(keys: Iterable[Key]) -> bool:
    """Return whether a name is longer than that of any topic. The bound on partitions would not bound their memory."""
    return any(len(topic) > NAME_MAX for topic, _ in keys)


def _update(session: FetchSession, key: Key, asked: FetchPartition) -> None:
    known = session.partitions.get(key)
    if known is None:
        session.partitions[key] = asked
    else:
        known.offset, known.max_bytes = asked.offset, asked.max_bytes
        known.leader_epoch, known.fetched_epoch = asked.leader_epoch, asked.fetched_epoch
