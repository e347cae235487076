"""What share groups have of topics, a record at a time: the model that a server's responses are compared with.

Every record is a batch of its own and members ask for so many exactly, so the first records that are available are
those that a member gets. A record is delivered twice at most, so none is delivered alone because it fails often.
"""

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from coordinator.core.share_state.values import StateKey

LOCK_MS = 30_000
DELIVERIES_MAX = 2
Member = tuple[str, str, int]  # group, member id, the broker that it fetches from
Partition = tuple[bytes, int]  # topic id, partition
Verdicts = tuple[int, tuple[int, ...]]  # the first offset, and what becomes of each record from there on
GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)
ACKNOWLEDGED, ARCHIVED, AVAILABLE, ACQUIRED = "acknowledged", "archived", "available", "acquired"
SETTLED = {GAP: ARCHIVED, ACCEPT: ACKNOWLEDGED, REJECT: ARCHIVED}


class Item(Struct):
    """A record, as one group has it."""

    state: str = AVAILABLE
    count: int = 0  # of its deliveries
    written: int = 0  # the count that a start finds
    member: str = ""
    session: int = 0
    until_ms: int = 0

    def free(self, state: str) -> None:
        self.state, self.member, self.session, self.until_ms = state, "", 0, 0
        self.written = self.count

    def give_back(self) -> str:
        """It is available again, or archived after its last delivery."""
        self.free(ARCHIVED if self.count >= DELIVERIES_MAX else AVAILABLE)
        return self.state


class Session(Struct):
    number: int
    connection: int
    partitions: dict[Partition, bool]  # whether the next response names the partition in any case
    epoch: int = 1


class Waits(Struct):
    """A ShareFetch that waits."""

    member: Member
    keys: list[StateKey]
    most: int
    session: Session
    epoch: int  # of the session, once the request has come
    tells_all: bool
    refused: dict[StateKey, int]
    errors: dict[StateKey, int | None]  # of what the request has acknowledged, None for one of several


class ShareModel:
    """All groups, members and sessions."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.items: dict[StateKey, list[Item]] = {}
        self.sessions: dict[Member, Session] = {}
        self.opened = 0
        self.groups: dict[int, set[str]] = {}  # of which a connection has opened a session
        self.tally: Counter[str] = Counter()

    def open(self, member: Member, connection: int, partitions: Iterable[Partition]) -> Session:
        self.opened += 1
        self.groups.setdefault(connection, set()).add(member[0])
        session = self.sessions[member] = Session(self.opened, connection, dict.fromkeys(partitions, False))
        return session

    def go_on(self, member: Member, named: Iterable[Partition], forgotten: Iterable[Partition]) -> Session:
        session = self.sessions[member]
        session.epoch += 1
        session.partitions = {**session.partitions, **{one: True for one in named if one not in session.partitions}}
        for one in forgotten:
            session.partitions.pop(one, None)
        return session

    def is_current(self, poll: Waits) -> bool:
        session = self.sessions.get(poll.member)
        return session is not None and (session.number, session.epoch) == (poll.session.number, poll.epoch)

    def is_locked(self, key: StateKey) -> bool:
        return any(item.state == ACQUIRED for item in self.items.get(key, ()))

    def can_take(self, keys: Iterable[StateKey]) -> bool:
        return any(item.state == AVAILABLE for key in keys for item in self.items.get(key, ()))

    def take(self, poll: Waits, able: Iterable[StateKey]) -> dict[StateKey, list[tuple[int, int]]]:
        """Acquire the first records that are available: offsets and deliveries by partition, of all that can be read."""
        left, taken = poll.most, dict[StateKey, list[tuple[int, int]]]()
        for key in able:
            taken[key] = []
            for offset, item in enumerate(self.items[key]):
                if item.state == AVAILABLE and left:
                    left -= 1
                    item.state, item.count, item.member = ACQUIRED, item.count + 1, poll.member[1]
                    item.session, item.until_ms = poll.session.number, self.now_ms + LOCK_MS
                    taken[key].append((offset, item.count))
                    self.tally.update(["acquired", *["redelivered"] * (item.count > 1)])
        return taken

    def tell(self, poll: Waits, taken: dict[StateKey, list[tuple[int, int]]]) -> set[StateKey]:
        """Return the partitions that a response names, and note it in the session."""
        if poll.tells_all:
            return {*poll.refused, *taken}
        told, owed = set(), poll.session.partitions
        for key in (*poll.refused, *taken):
            one, has_error, has_records = (key.topic_id, key.partition), key in poll.refused, bool(taken.get(key))
            if has_error or has_records or owed.get(one):
                told.add(key)
            if one in owed:
                if has_records:
                    del owed[one]
                owed[one] = has_error
        return told

    def acknowledge(self, member: Member, key: StateKey, verdicts: Verdicts, session: int, is_away: bool) -> bool:
        """Settle all of these records, or none. Return whether that was so."""
        first, types = verdicts
        items = self.items.get(key, [])[first : first + len(types)]
        if len(items) < len(types) or any(item.state != ACQUIRED or item.member != member[1] or
                                          item.until_ms <= self.now_ms for item in items):  # fmt: skip
            return False
        if is_away and set(types) != {RENEW}:
            return False
        for item, kind in zip(items, types, strict=True):
            if kind == RENEW:
                item.until_ms, item.session = self.now_ms + LOCK_MS, session
            elif kind == RELEASE:
                self.tally["released" if item.give_back() == AVAILABLE else "archived"] += 1
            else:
                item.free(SETTLED[kind])
                self.tally["accepted" if kind == ACCEPT else "archived"] += 1
        return True

    def release(self, member: Member, session: Session, keys: Iterable[StateKey]) -> None:
        """Give back what the member has acquired of these partitions in the session or before it."""
        for key in keys:
            for item in self.items.get(key, ()):
                if item.state == ACQUIRED and item.member == member[1] and item.session <= session.number:
                    self.tally["released" if item.give_back() == AVAILABLE else "archived"] += 1

    def release_all(self, keys: Iterable[StateKey]) -> None:
        """Give back what any member has acquired of these partitions."""
        for key in keys:
            for item in self.items.get(key, ()):
                if item.state == ACQUIRED:
                    self.tally["released" if item.give_back() == AVAILABLE else "archived"] += 1

    def expire(self, keys: Iterable[StateKey]) -> None:
        """End the locks that are over."""
        for key in keys:
            for item in self.items[key]:
                if item.state == ACQUIRED and item.until_ms <= self.now_ms:
                    self.tally["expired"] += 1
                    self.tally["archived"] += item.give_back() == ARCHIVED

    def restart(self) -> None:
        """What nobody has settled was never delivered, but for what was given back."""
        self.sessions.clear()
        self.groups.clear()
        self.opened = 0
        self.tally.clear()
        for items in self.items.values():
            for item in items:
                if item.state in (ACQUIRED, AVAILABLE):
                    item.count = item.written
                    item.free(AVAILABLE)
