"""What happened to a group, and why: the pure vocabulary, carried by every `Result` that moves a group.

`coordinator/events.py` keeps the latest ones in memory and writes them to disk.
"""

from enum import StrEnum

from msgspec import Struct


class Cause(StrEnum):
    """Why something happened. A closed list: dashboards and the pipeline group by it."""

    # any group
    GROUP_CREATED = "group created"
    GROUP_DELETED = "group deleted"
    GROUP_EXPIRED = "group expired"
    PROTOCOL_UPGRADED = "protocol upgraded"  # classic -> consumer
    PROTOCOL_DOWNGRADED = "protocol downgraded"  # consumer -> classic
    # members
    MEMBER_JOINED = "member joined"
    MEMBER_REJOINED = "member rejoined"  # as the rebalance asked it to
    MEMBER_LEFT = "member left"
    MEMBER_FENCED = "member fenced"
    MEMBER_REFUSED = "member refused"  # the group is full, and the member was in it
    METADATA_CHANGED = "metadata changed"
    LEADER_REJOINED = "leader rejoined"
    SESSION_EXPIRED = "session expired"
    PENDING_MEMBER_LEFT = "pending member left"
    PENDING_MEMBER_EXPIRED = "pending member expired"
    PENDING_SYNC_EXPIRED = "pending sync expired"
    STATIC_MEMBER_REPLACED = "static member replaced"
    STATIC_MEMBER_AWAY = "static member away"  # it left for a while (epoch -2) and keeps its partitions
    STATIC_MEMBER_RETURNED = "static member returned"
    # the phases of a classic rebalance
    ALL_MEMBERS_JOINED = "all members joined"
    INITIAL_DELAY_PASSED = "initial delay passed"
    NO_MEMBER_LEFT = "no member left"
    REBALANCE_TIMED_OUT = "rebalance timed out"
    LEADER_SYNCED = "leader synced"
    GROUP_OVERSIZED = "group oversized"  # found at load, with more members than group.max.size
    # consumer groups
    SUBSCRIPTION_CHANGED = "subscription changed"
    PATTERN_RESOLVED = "pattern resolved"
    TOPICS_CHANGED = "topics changed"
    ASSIGNMENT_COMPUTED = "assignment computed"
    REVOCATION_AWAITED = "revocation awaited"  # a member was told to give up partitions
    PARTITIONS_REVOKED = "partitions revoked"  # a member gave up what it had to
    MEMBER_RECONCILED = "member reconciled"  # a member has all of its target


class Event(Struct, frozen=True, gc=False, omit_defaults=True):
    """One thing that happened to one group. `before` and `after` are states by Kafka's names, equal if it stayed."""

    at_ms: int
    group: str
    cause: Cause
    before: str
    after: str
    generation: int  # or the group epoch
    member: str = ""
    instance: str | None = None
    client_id: str = ""
    protocol: str = ""  # the assignor or the protocol that was chosen
    type: str = "classic"
    members: int = 0  # how many there are after it
    by: str = ""  # the request or the timer that led to it: `JoinGroup`, `timer session`
    reason: str = ""  # the client's own words (KIP-800), when it gave any
    last_beat_ms: int = -1  # of a session that expired: when it was last renewed, and when it ended
    deadline_ms: int = -1

    @property
    def moved(self) -> bool:
        """Whether the group changed its state."""
        return self.before != self.after
