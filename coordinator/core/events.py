"""Events of groups and their causes. Every `Result` that changes a group's state carries one.

`coordinator/events.py` keeps the latest ones in memory and writes them to disk.
"""

from enum import StrEnum

from msgspec import Struct


class Cause(StrEnum):
    """Why something happened. A closed list of identifiers: metrics, dashboards and tests name them."""

    # any group
    GROUP_CREATED = "group_created"
    GROUP_DELETED = "group_deleted"
    GROUP_EXPIRED = "group_expired"
    GROUP_FORGOTTEN = "group_forgotten"  # by an operator, whatever its state
    COORDINATOR_MOVED = "coordinator_moved"  # to another broker, which loads the group
    COMMITS_LOST = "commits_lost"  # in such a move, by an operator
    MEMBERS_LOST = "members_lost"  # in such a move, by an operator
    REBALANCE_REQUESTED = "rebalance_requested"  # by an operator
    PROTOCOL_UPGRADED = "protocol_upgraded"  # classic -> consumer
    PROTOCOL_DOWNGRADED = "protocol_downgraded"  # consumer -> classic
    # members
    MEMBER_JOINED = "member_joined"
    MEMBER_REJOINED = "member_rejoined"  # as the rebalance asked it to
    MEMBER_LEFT = "member_left"
    MEMBER_FENCED = "member_fenced"
    MEMBER_KICKED = "member_kicked"  # by an operator
    MEMBER_REFUSED = "member_refused"  # the group is full, and the member was in it
    METADATA_CHANGED = "metadata_changed"
    LEADER_REJOINED = "leader_rejoined"
    SESSION_EXPIRED = "session_expired"
    PENDING_MEMBER_LEFT = "pending_member_left"
    PENDING_MEMBER_EXPIRED = "pending_member_expired"
    PENDING_SYNC_EXPIRED = "pending_sync_expired"
    STATIC_MEMBER_REPLACED = "static_member_replaced"
    STATIC_MEMBER_AWAY = "static_member_away"  # it left for a while (epoch -2) and keeps its partitions
    STATIC_MEMBER_RETURNED = "static_member_returned"
    # the phases of a classic rebalance
    ALL_MEMBERS_JOINED = "all_members_joined"
    INITIAL_DELAY_PASSED = "initial_delay_passed"
    NO_MEMBER_LEFT = "no_member_left"
    REBALANCE_TIMED_OUT = "rebalance_timed_out"
    LEADER_SYNCED = "leader_synced"
    ASSIGNMENT_TOO_LARGE = "assignment_too_large"  # for the log, so that nobody gets it
    GROUP_OVERSIZED = "group_oversized"  # found at load, with more members than group.max.size
    # consumer and streams groups
    SUBSCRIPTION_CHANGED = "subscription_changed"
    PATTERN_RESOLVED = "pattern_resolved"
    TOPICS_CHANGED = "topics_changed"
    ASSIGNMENT_COMPUTED = "assignment_computed"
    ASSIGNMENT_FORCED = "assignment_forced"  # by an operator
    REVOCATION_AWAITED = "revocation_awaited"  # a member was told to give up partitions
    PARTITIONS_REVOKED = "partitions_revoked"  # a member gave up what it had to
    MEMBER_RECONCILED = "member_reconciled"  # a member has all of its target
    PARTITIONS_INITIALIZED = "partitions_initialized"  # of a share group, which may assign them from now on
    # streams groups
    SETTINGS_CHANGED = "settings_changed"  # the number of standbys
    SHUTDOWN_REQUESTED = "shutdown_requested"  # by a member, of all of them
    TASKS_ASSIGNED = "tasks_assigned"  # a member was given tasks that it did not have
    # records of share groups
    LOCK_EXPIRED = "lock_expired"  # of records that are available again
    RECORDS_RELEASED = "records_released"  # by their member, or with its session
    RECORDS_ARCHIVED = "records_archived"  # rejected, or delivered as often as they may be

    @property
    def words(self) -> str:
        """The identifier as words, for people."""
        return self.value.replace("_", " ")


class Event(Struct, frozen=True, gc=False, omit_defaults=True):
    """One thing that happened to one group. `before` and `after` are states by Kafka's names, equal if it stayed."""

    at_ms: int
    group: str
    cause: Cause
    before: str
    after: str
    generation: int  # or the group epoch: `registry.counts_by` says which
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
    tasks: tuple[str, ...] = ()  # of a streams group: those that the member was given, as `0_1` or `0_1 standby`
    records: str = ""  # of a share group: which they are, and how often they were delivered
