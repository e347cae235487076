"""A classic group and its members, as frozen values.

What is durable of a group is what its record holds: the generation, the protocol, the leader and each member as of the
last SyncGroup of a leader. All else is soft and gone when the server stops: which members are parked, pending, or have
yet to sync. Counters beside the members (`joined`, `unsynced`, `supports`, `members_bytes`, `pending_bytes`) answer in
one step what would be a walk."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from coordinator.core.kinds.classic.states import NEXT, State
from coordinator.core.table import Table
from coordinator.core.weights import ENTRY_BYTES, NUMBER_BYTES, OBJECT_BYTES, SLOT_BYTES, weigh, weigh_texts

Protocols = tuple[tuple[str, bytes], ...]  # (name, metadata) in the order that the member prefers

NOBODY: Table[str, Any] = Table()
PENDING_BYTES: Final = ENTRY_BYTES + 3 * OBJECT_BYTES  # of an id that was given out, besides the id
MEMBER_BYTES: Final = (
    ENTRY_BYTES + 3 * OBJECT_BYTES + 15 * SLOT_BYTES + 5 * NUMBER_BYTES
)  # beside its texts and protocols
PROTOCOL_BYTES: Final = 2 * OBJECT_BYTES + 3 * SLOT_BYTES  # beside its name and metadata


class Member(Struct, frozen=True, gc=False):
    """One member. Its client id and host are those of its first join (a static one's of its first incarnation)."""

    member_id: str
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: Protocols
    instance_id: str | None = None
    assignment: bytes = b""
    join_ticket: int | None = None  # who to answer when the join phase completes
    join_version: int = 0
    sync_ticket: int | None = None  # who to answer when the leader has assigned
    unsynced: bool = False  # it has joined this generation and not sent SyncGroup yet
    is_new: bool = False  # it has not been in a completed generation yet

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def is_parked(self) -> bool:
        """A request of it waits for an answer, so it is not its fault that it does not beat."""
        return self.join_ticket is not None or self.sync_ticket is not None

    @property
    def offers(self) -> dict[str, bytes]:
        """Its protocols by name, each once, in its order."""
        return dict(self.protocols)

    def metadata(self, protocol: str | None) -> bytes:
        """Return the member's metadata for that protocol."""
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""


class ClassicGroup(Struct, frozen=True, gc=False):
    """One group. `pending` has ids that were given out (KIP-394) and have not joined; they are not members."""

    group_id: str
    state: State = State.EMPTY
    state_since_ms: int = -1  # -1: not known, from an old record
    generation: int = 0
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str | None = None
    members: Table[str, Member] = NOBODY
    instances: Table[str, str] = NOBODY  # instance id -> member id
    pending: Table[str, bool] = NOBODY
    joined: int = 0  # members with a parked JoinGroup
    unsynced: int = 0  # members that have not sent SyncGroup for this generation
    supports: Mapping[str, int] = {}  # protocol name -> how many members offer it
    members_bytes: int = 0  # of memory that the members take
    pending_bytes: int = 0  # of memory that the pending ids take
    topics: frozenset[str] | None = None  # what the members subscribe to; None: not known, so perhaps anything
    initial: bool = False  # this rebalance began in Empty, and waits for the initial delay
    initial_delay_remaining_ms: int = 0  # how much longer that delay may become
    new_member_added: bool = False  # since the initial delay last ended
    departed: tuple[str, ...] = ()  # ids that this step has removed or replaced: their timers go with them

    @property
    def is_empty(self) -> bool:
        return self.state is State.EMPTY

    def has_member(self, member_id: str) -> bool:
        """Return whether a member or a pending member has this id, and so may have timers."""
        return member_id in self.members or member_id in self.pending

    @property
    def has_all_joined(self) -> bool:
        """Whether every member has joined and no id is pending, so that the join phase is complete."""
        return self.joined == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """The greatest rebalance timeout of the members. It walks over all of them: not for each request."""
        members: Iterable[Member] = self.members.values()
        return max([0, *[member.rebalance_timeout_ms for member in members]])

    def with_state(self, state: State, now_ms: int) -> "ClassicGroup":
        """Return the group in another state. The table of states must allow the change."""
        assert state in NEXT[self.state], f"group {self.group_id}: {self.state} -> {state}"
        return replace(self, state=state, state_since_ms=now_ms)

    def with_member(self, member: Member) -> "ClassicGroup":
        """Return the group with the member added, or replaced. Its id is no longer pending."""
        old = self.members.get(member.member_id)
        instances = self.instances
        if member.instance_id is not None and instances.get(member.instance_id) != member.member_id:
            instances = instances.with_item(member.instance_id, member.member_id)
        if old is not None and old.protocols is member.protocols:  # which most members bring again
            supports, more_bytes = self.supports, len(member.assignment) - len(old.assignment)
        else:
            supports = _supports(self.supports, old, member)
            more_bytes = weigh_member(member) - (0 if old is None else weigh_member(old))
        was_pending = old is None and member.member_id in self.pending
        return replace(
            self,
            members=self.members.with_item(member.member_id, member),
            instances=instances,
            pending=self.pending.without_key(member.member_id) if was_pending else self.pending,
            pending_bytes=self.pending_bytes - (weigh_pending_id(member.member_id) if was_pending else 0),
            leader=member.member_id if self.leader is None else self.leader,
            joined=self.joined + (member.join_ticket is not None) - (old is not None and old.join_ticket is not None),
            unsynced=self.unsynced + member.unsynced - (old is not None and old.unsynced),
            supports=supports,
            members_bytes=self.members_bytes + more_bytes,
        )

    def without_member(self, member: Member) -> "ClassicGroup":
        """Return the group without the member. If it was the leader, the longest-standing member becomes the leader."""
        members = self.members.without_key(member.member_id)
        instances = self.instances
        if member.instance_id is not None and instances.get(member.instance_id) == member.member_id:
            instances = instances.without_key(member.instance_id)
        return replace(
            self,
            members=members,
            instances=instances,
            leader=members.first() if self.leader == member.member_id else self.leader,
            joined=self.joined - (member.join_ticket is not None),
            unsynced=self.unsynced - member.unsynced,
            supports=_supports(self.supports, member, None),
            members_bytes=self.members_bytes - weigh_member(member),
            departed=(*self.departed, member.member_id),
        )

    def with_topics(self, topics: frozenset[str] | None) -> "ClassicGroup":
        """Return the group with `topics` as what its members subscribe to."""
        return replace(self, topics=topics)

    def with_pending_id(self, member_id: str) -> "ClassicGroup":
        """Return the group with one more member id that was given out (KIP-394)."""
        return replace(
            self,
            pending=self.pending.with_item(member_id, True),
            pending_bytes=self.pending_bytes + weigh_pending_id(member_id),
        )

    def without_pending_id(self, member_id: str) -> "ClassicGroup":
        """Return the group without the pending member id."""
        return replace(
            self,
            pending=self.pending.without_key(member_id),
            pending_bytes=self.pending_bytes - weigh_pending_id(member_id),
            departed=(*self.departed, member_id),
        )

    def with_updated_members(self, members: Mapping[str, Member]) -> "ClassicGroup":
        """Return the group with a new value for each of its members, in one pass.

        Neither their ids and instance ids nor the protocols that they offer may differ.
        """
        assert len(members) == len(self.members), "with_updated_members neither adds nor removes"
        less_bytes = sum([len(member.assignment) for member in self.members.values()])
        more_bytes = sum([len(member.assignment) for member in members.values()])
        return replace(
            self,
            members=Table(members),
            joined=sum([member.join_ticket is not None for member in members.values()]),
            unsynced=sum([member.unsynced for member in members.values()]),
            members_bytes=self.members_bytes + more_bytes - less_bytes,
        )

    def with_members(self, members: Mapping[str, Member]) -> "ClassicGroup":
        """Return the group with exactly these members, in one pass."""
        supports: dict[str, int] = {}
        instances = {}
        for member in members.values():
            for name in member.offers:
                supports[name] = supports.get(name, 0) + 1
            if member.instance_id is not None:
                instances[member.instance_id] = member.member_id
        return replace(
            self,
            members=Table(members),
            instances=Table(instances),
            leader=self.leader if self.leader in members else next(iter(members), None),
            joined=sum(member.join_ticket is not None for member in members.values()),
            unsynced=sum(member.unsynced for member in members.values()),
            supports=supports,
            members_bytes=sum([weigh_member(member) for member in members.values()]),
            departed=(*self.departed, *(member_id for member_id in self.members if member_id not in members)),
        )


def weigh_member(member: Member) -> int:
    """Return the bytes of memory that a member takes, with its entry in the table."""
    texts = [member.member_id, member.client_id, member.client_host]
    size = MEMBER_BYTES + len(member.assignment)
    for name, metadata in member.protocols:
        texts.append(name)
        size += PROTOCOL_BYTES + len(metadata)
    if member.instance_id is not None:
        texts.append(member.instance_id)
    return size + weigh_texts(texts)


def weigh_pending_id(member_id: str) -> int:
    """Return the bytes of memory that a pending id takes with its timer; it may be as long as a client's id."""
    return PENDING_BYTES + weigh_texts([member_id])


def weigh_change(old: ClassicGroup | None, new: ClassicGroup | None) -> int:
    """Return how many bytes more the members, the pending ids and the topics take after `old` became `new`."""
    had, has = None if old is None else old.topics, None if new is None else new.topics
    change = 0 if had is has else weigh(has) - weigh(had)
    change -= 0 if old is None else old.members_bytes + old.pending_bytes
    return change + (0 if new is None else new.members_bytes + new.pending_bytes)


def _supports(counts: Mapping[str, int], old: Member | None, new: Member | None) -> Mapping[str, int]:
    """Return how many members offer each protocol, after `old` became `new`."""
    if old is not None and new is not None and old.protocols == new.protocols:
        return counts
    after = dict(counts)
    for name in new.offers if new else ():
        after[name] = after.get(name, 0) + 1
    for name in old.offers if old else ():
        after[name] -= 1
        if not after[name]:
            del after[name]
    return after
