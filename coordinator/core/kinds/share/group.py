"""A share group and its members, as frozen values.

All durable state is made by applying records one after the other (`replay.apply_record`), at a start and right after
they were written.

    subscribed ──► initializing ──► initialized ──► may be assigned        of each partition, by record 15
                   the share coordinator begins its state
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from coordinator.core.assignors.spec import NOTHING, Assignment
from coordinator.core.kinds.modern.counters import move_count
from coordinator.core.kinds.share.states import GroupState
from coordinator.core.record_types import ShareGroupMemberMetadataValue as Metadata
from coordinator.core.result import LongTarget
from coordinator.core.table import Table

NOBODY: Final[Table[str, Any]] = Table()
STABLE: Final = 0  # the one state of members: they have nothing to give up before they go on


class StatePartitions(Struct, frozen=True, gc=False):
    """Partitions of one topic, as record 15 has them."""

    name: str
    partitions: tuple[int, ...]  # ascending
    at_ms: int = 0  # when it was asked to initialize them; 0: before the start of this server


StateTopics = Mapping[bytes, StatePartitions]  # by topic id


class Member(Struct, frozen=True, gc=False):
    """One member: its metadata (record 10), and its current assignment (record 14)."""

    member_id: str
    metadata: Metadata = Metadata()
    epoch: int = 0
    previous_epoch: int = -1
    assigned: Assignment = NOTHING

    @property
    def instance_id(self) -> None:
        """There are no static members in share groups."""
        return None

    @property
    def client_id(self) -> str:
        return self.metadata.client_id

    @property
    def names(self) -> tuple[str, ...]:
        """The topics that it subscribes to."""
        return self.metadata.subscribed_topic_names


class ShareGroup(Struct, frozen=True):
    """One group. `epoch` counts changes of its inputs; its target was computed for `assignment_epoch`."""

    group_id: str
    epoch: int = 1
    assignment_epoch: int = 1
    assignment_at_ms: int = 0  # when the target was computed; 0: not known, so the next need not wait
    metadata_hash: int = 0  # of the subscribed topics, as they were at the last change of the epoch
    members: Table[str, Member] = NOBODY
    targets: Table[str, Assignment] = NOBODY
    initializing: StateTopics = {}
    initialized: StateTopics = {}
    deleting: Mapping[bytes, str] = {}  # topic id -> name, of topics whose states are being deleted
    # what follows from the members
    names: Mapping[str, int] = {}  # topic -> how many members subscribe to it
    # soft: gone when the server stops
    departed: tuple[str, ...] = ()  # members that this step has removed: their timers go with them
    topics_seen: int | None = None  # the version of the topics as of the last check for changes of the subscribed ones
    long_target: LongTarget | None = None  # the target that is being computed in steps
    forced_epoch: int = 0  # of the latest target that an operator has forced

    @property
    def state(self) -> GroupState:
        return GroupState.STABLE if self.members else GroupState.EMPTY

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def resolved(self) -> Mapping[str, Any]:
        """No member of a share group subscribes to a pattern."""
        return {}

    def has_member(self, member_id: str) -> bool:
        """Return whether a member has this id, and so may have timers."""
        return member_id in self.members

    def target(self, member_id: str) -> Assignment:
        """Return the target assignment of a member."""
        target: Assignment = self.targets.get(member_id, NOTHING)
        return target

    def with_assignment_epoch(self, assignment_epoch: int, at_ms: int) -> "ShareGroup":
        """Return the group with a target that was computed for another epoch, at `at_ms`."""
        return replace(self, assignment_epoch=assignment_epoch, assignment_at_ms=at_ms)

    def with_member(self, member: Member) -> "ShareGroup":
        """Return the group with the member added, or replaced."""
        old = self.members.get(member.member_id)
        members = self.members.with_item(member.member_id, member)
        names = move_count(self.names, () if old is None else old.names, member.names)
        return replace(self, members=members, names=names)

    def without_member(self, member: Member) -> "ShareGroup":
        """Return the group without the member."""
        return replace(
            self,
            members=self.members.without_key(member.member_id),
            names=move_count(self.names, member.names, ()),
            departed=(*self.departed, member.member_id),
        )
