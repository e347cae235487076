"""A streams group (KIP-1071) and its members, as frozen values.

All durable state is made by applying records one after the other (`replay.apply_record`). Counters and indices are kept
beside it, so that no request walks over all members; the fields at the end are lost when the server stops.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from coordinator.core.assignors.task_spec import TaskAssignment
from coordinator.core.kinds.streams.configuration import ConfiguredTopology
from coordinator.core.kinds.streams.owners import TaskOwners
from coordinator.core.kinds.streams.states import GroupState, MemberState
from coordinator.core.kinds.streams.tasks import NO_HELD_TASKS, HeldTasks
from coordinator.core.kinds.streams.topology import Topology
from coordinator.core.result import LongTarget
from coordinator.core.streams_record_types import StreamsGroupMemberMetadataValue
from coordinator.core.table import Table

NOBODY: Final[Table[str, Any]] = Table()
NO_TARGET: Final = TaskAssignment()
FIRST_EPOCH: Final = 1  # of a group and of its target, before its first member has joined

Metadata = StreamsGroupMemberMetadataValue
UNSAID: Final = Metadata(topology_epoch=-1)  # the metadata of a member before it has said anything


class Member(Struct, frozen=True, gc=False):
    """One member: its metadata (record 19), and its current assignment (record 22)."""

    member_id: str
    metadata: Metadata = UNSAID
    epoch: int = 0
    previous_epoch: int = 0
    state: MemberState = MemberState.STABLE
    assigned: HeldTasks = NO_HELD_TASKS  # what it may own now
    pending: HeldTasks = NO_HELD_TASKS  # what it may still own, and has to give up

    @property
    def process_id(self) -> str:
        return self.metadata.process_id

    @property
    def client_id(self) -> str:
        return self.metadata.client_id

    @property
    def instance_id(self) -> str | None:
        return self.metadata.instance_id

    def is_at(self, epoch: int) -> bool:
        """Return whether the member owns its whole target assignment of that epoch, and nothing else."""
        return self.epoch == epoch and self.state is MemberState.STABLE


class StreamsGroup(Struct, frozen=True):
    """One group. `epoch` counts changes of its inputs; its target was computed for `assignment_epoch`."""

    group_id: str
    epoch: int = FIRST_EPOCH
    metadata_hash: int = 0  # of the required topics, as they were at the last change of the epoch
    validated_epoch: int = 0  # of the topology for which every topic is there and fits; -1: there is none
    settings: Mapping[str, str] = {}  # of the assignment, as of the last change of the epoch
    topology: Topology | None = None
    assignment_epoch: int = FIRST_EPOCH
    assignment_at_ms: int = 0  # when the target was computed; 0: not known, so the next need not wait
    members: Table[str, Member] = NOBODY
    targets: Table[str, TaskAssignment] = NOBODY
    # what follows from the members
    owners: TaskOwners = TaskOwners()
    settled: int = 0  # members that have all of the target
    # soft: gone when the server stops
    departed: tuple[str, ...] = ()  # members that this step has removed: their timers go with them
    topics_seen: int | None = None  # the version of the topics as of the last check for changes of the required ones
    configured: ConfiguredTopology | None = None  # the topology held against them
    long_target: LongTarget | None = None  # the target that is being computed in steps
    is_delayed: bool = False  # the initial delay is running: no target is computed
    endpoint_epoch: int = 0  # counts changes of what members with an endpoint are assigned
    creation_errors: Mapping[str, str] = {}  # internal topic -> why it could not be created
    shutdown_by: str | None = None  # the member that asked all of them to stop

    @property
    def state(self) -> GroupState:
        if not self.members:
            return GroupState.EMPTY
        if self.topology is None or self.topology.epoch != self.validated_epoch:
            return GroupState.NOT_READY
        if self.epoch > self.assignment_epoch:
            return GroupState.ASSIGNING
        return GroupState.STABLE if self.settled == len(self.members) else GroupState.RECONCILING

    @property
    def is_empty(self) -> bool:
        return not self.members

    def target(self, member_id: str) -> TaskAssignment:
        """Return the target assignment of a member."""
        target: TaskAssignment = self.targets.get(member_id, NO_TARGET)
        return target

    def has_member(self, member_id: str) -> bool:
        """Return whether a member has this id, and so may have timers."""
        return member_id in self.members

    def with_member(self, member: Member) -> "StreamsGroup":
        """Return the group with the member added, or replaced."""
        old = self.members.get(member.member_id)
        return replace(
            self,
            members=self.members.with_item(member.member_id, member),
            settled=self.settled + member.is_at(self.assignment_epoch) - _is_at(old, self.assignment_epoch),
            owners=_move_owner(self.owners, old, member),
        )

    def without_member(self, member: Member) -> "StreamsGroup":
        """Return the group without the member. One that is empty has nobody left who was asked to stop."""
        members = self.members.without_key(member.member_id)
        return replace(
            self,
            members=members,
            settled=self.settled - member.is_at(self.assignment_epoch),
            owners=_move_owner(self.owners, member, None),
            departed=(*self.departed, member.member_id),
            shutdown_by=self.shutdown_by if members else None,
        )

    def with_assignment_epoch(self, assignment_epoch: int, at_ms: int) -> "StreamsGroup":
        """Return the group with a target that was computed for another epoch, at `at_ms`."""
        settled = sum(member.is_at(assignment_epoch) for member in self.members.values())
        return replace(self, assignment_epoch=assignment_epoch, assignment_at_ms=at_ms, settled=settled)


def is_subscribed(group: StreamsGroup, topic: str) -> bool:
    """Return whether the members read the topic: their offsets of it are in use."""
    return bool(group.members) and group.topology is not None and topic in group.topology.readers


def _is_at(member: Member | None, epoch: int) -> bool:
    return member is not None and member.is_at(epoch)


def _move_owner(owners: TaskOwners, old: Member | None, new: Member | None) -> TaskOwners:
    if old is not None and new is not None and old.process_id == new.process_id:
        if old.assigned is new.assigned and old.pending is new.pending:
            return owners
    return owners.move_tasks(
        old.process_id if old is not None else "",
        (old.assigned, old.pending) if old is not None else (),
        new.process_id if new is not None else "",
        (new.assigned, new.pending) if new is not None else (),
    )
