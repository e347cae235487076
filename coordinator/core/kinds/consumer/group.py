"""A consumer group (KIP-848) and its members, as frozen values.

All durable state is made by applying records one after the other (`replay.apply_record`): a handler that changes a
group writes a record and applies it, so that start-up and normal work run the same code. Counters and indices are kept
beside it, so that no request walks over all members; the fields at the end are lost when the server stops.
"""

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from coordinator.core.acls.authorizer import Rights
from coordinator.core.assignors.spec import NOTHING, Assignment
from coordinator.core.kinds.consumer.owners import Owned, Owners, move_ownership
from coordinator.core.kinds.consumer.states import GroupState, MemberState
from coordinator.core.kinds.modern.counters import move_count
from coordinator.core.records import (
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMemberMetadataValueClassicMemberMetadata,
)
from coordinator.core.result import LongTarget
from coordinator.core.table import Table

NOBODY: Final[Table[str, Any]] = Table()

Metadata = ConsumerGroupMemberMetadataValue
ClassicMetadata = ConsumerGroupMemberMetadataValueClassicMemberMetadata


class Member(Struct, frozen=True, gc=False):
    """One member: its metadata (record 5), and its current assignment (record 8)."""

    member_id: str
    metadata: Metadata = Metadata(subscribed_topic_regex="")
    epoch: int = 0
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Owned = {}  # what it may own now
    pending: Owned = {}  # what it may still own, and has to give up

    @property
    def instance_id(self) -> str | None:
        return self.metadata.instance_id

    @property
    def client_id(self) -> str:
        return self.metadata.client_id

    @property
    def names(self) -> tuple[str, ...]:
        """The topics that it subscribes to by name."""
        return self.metadata.subscribed_topic_names

    @property
    def pattern(self) -> str:
        """The regular expression that it subscribes to, "" for none."""
        return self.metadata.subscribed_topic_regex or ""

    @property
    def classic(self) -> ClassicMetadata | None:
        """The JoinGroup data of a member of the classic protocol; None for a member of the consumer protocol."""
        return self.metadata.classic_member_metadata

    def is_at(self, epoch: int) -> bool:
        """Return whether the member owns its whole target assignment of that epoch, and nothing else."""
        return self.epoch == epoch and self.state is MemberState.STABLE


class ResolvedRegex(Struct, frozen=True, gc=False):
    """The topics that a regular expression matched, and when."""

    topics: frozenset[str]
    version: int  # of the topics that it was matched against
    at_ms: int


class Resolving(Struct, frozen=True):
    """Patterns that are being matched against the topics of one moment, some names at a time."""

    version: int  # of the topics
    names: tuple[str, ...]
    left: tuple[str, ...]  # patterns; the first one is being matched. None: they were given up, and wait
    at: int = 0  # index of the first name that the first pattern was not matched against
    matched: tuple[str, ...] = ()  # by the first pattern so far
    done: Mapping[str, frozenset[str]] = {}
    rights: Rights | None = None  # of the client whose heartbeat started this; None: it may see every topic


class ConsumerGroup(Struct, frozen=True):
    """One group. `epoch` counts changes of its inputs; its target was computed for `assignment_epoch`."""

    group_id: str
    epoch: int = 1
    assignment_epoch: int = 1
    assignment_at_ms: int = 0  # when the target was computed; 0: not known, so the next need not wait
    metadata_hash: int = 0  # of the subscribed topics, as they were at the last change of the epoch
    has_topics_record: bool = False  # a record 4 of Kafka 4.0 is in the log, to be deleted
    members: Table[str, Member] = NOBODY
    targets: Table[str, Assignment] = NOBODY
    resolved: Mapping[str, ResolvedRegex] = {}  # by regular expression
    # what follows from the members
    instances: Table[str, str] = NOBODY  # instance id -> member id
    owners: Owners = {}
    settled: int = 0  # members that have all of the target
    names: Mapping[str, int] = {}  # topic -> how many members subscribe to it by name
    patterns: Mapping[str, int] = {}  # regular expression -> how many members subscribe to it
    votes: Mapping[str, int] = {}  # assignor -> how many members ask for it
    classics: int = 0  # members that speak the classic protocol
    protocols: Mapping[str, int] = {}  # protocol name -> how many classic members offer it
    # soft: gone when the server stops
    departed: tuple[str, ...] = ()  # members that this step has removed or replaced: their timers go with them
    topics_seen: int | None = None  # the version of the topics as of the last check for changes of the subscribed ones
    resolving: Resolving | None = None
    long_target: LongTarget | None = None  # the target that is being computed in steps

    @property
    def state(self) -> GroupState:
        if not self.members:
            return GroupState.EMPTY
        if self.epoch > self.assignment_epoch:
            return GroupState.ASSIGNING
        return GroupState.STABLE if self.settled == len(self.members) else GroupState.RECONCILING

    @property
    def is_empty(self) -> bool:
        return not self.members

    def target(self, member_id: str) -> Assignment:
        """Return the target assignment of a member."""
        target: Assignment = self.targets.get(member_id, NOTHING)
        return target

    def by_instance(self, instance_id: str) -> Member | None:
        """Return the static member of that instance id."""
        member_id = self.instances.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def topics_matching(self, pattern: str) -> frozenset[str]:
        """Return the topics that match a regular expression; none until it is resolved."""
        resolved = self.resolved.get(pattern)
        return frozenset() if resolved is None else resolved.topics

    def with_member(self, member: Member) -> "ConsumerGroup":
        """Return the group with the member added, or replaced."""
        old = self.members.get(member.member_id)
        group = replace(
            self,
            members=self.members.with_item(member.member_id, member),
            settled=self.settled + member.is_at(self.assignment_epoch) - _is_at(old, self.assignment_epoch),
            owners=_move_owner(self.owners, old, member),
        )
        if old is None or old.metadata is not member.metadata:
            return group._recount(old, member)
        return group

    def without_member(self, member: Member) -> "ConsumerGroup":
        """Return the group without the member."""
        return replace(
            self,
            members=self.members.without_key(member.member_id),
            settled=self.settled - member.is_at(self.assignment_epoch),
            owners=_move_owner(self.owners, member, None),
            departed=(*self.departed, member.member_id),
        )._recount(member, None)

    def has_member(self, member_id: str) -> bool:
        """Return whether a member has this id, and so may have timers."""
        return member_id in self.members

    def with_assignment_epoch(self, assignment_epoch: int, at_ms: int) -> "ConsumerGroup":
        """Return the group with a target that was computed for another epoch, at `at_ms`."""
        settled = sum(member.is_at(assignment_epoch) for member in self.members.values())
        return replace(self, assignment_epoch=assignment_epoch, assignment_at_ms=at_ms, settled=settled)

    def _recount(self, old: Member | None, new: Member | None) -> "ConsumerGroup":
        """Return the group with the counters and indices that follow when `old` becomes `new`."""
        instances = self.instances
        if old is not None and old.instance_id is not None and instances.get(old.instance_id) == old.member_id:
            instances = instances.without_key(old.instance_id)
        if new is not None and new.instance_id is not None:
            instances = instances.with_item(new.instance_id, new.member_id)
        return replace(
            self,
            instances=instances,
            names=move_count(self.names, _names(old), _names(new)),
            patterns=move_count(self.patterns, _pattern(old), _pattern(new)),
            votes=move_count(self.votes, _vote(old), _vote(new)),
            classics=self.classics + _speaks_classic(new) - _speaks_classic(old),
            protocols=move_count(self.protocols, _protocols(old), _protocols(new)),
        )


def _is_at(member: Member | None, epoch: int) -> bool:
    return member is not None and member.is_at(epoch)


def _move_owner(owners: Owners, old: Member | None, new: Member | None) -> Owners:
    if old is not None and new is not None and old.epoch == new.epoch:
        if old.assigned is new.assigned and old.pending is new.pending:
            return owners
    return move_ownership(
        owners,
        (old.assigned, old.pending) if old is not None else (),
        old.epoch if old is not None else 0,
        (new.assigned, new.pending) if new is not None else (),
        new.epoch if new is not None else 0,
    )


def _names(member: Member | None) -> tuple[str, ...]:
    return () if member is None else member.names


def _pattern(member: Member | None) -> tuple[str, ...]:
    return (member.pattern,) if member is not None and member.pattern else ()


def _vote(member: Member | None) -> tuple[str, ...]:
    vote = None if member is None else member.metadata.server_assignor
    return () if vote is None else (vote,)


def _speaks_classic(member: Member | None) -> bool:
    return member is not None and member.classic is not None


def _protocols(member: Member | None) -> tuple[str, ...]:
    classic = None if member is None else member.classic
    return () if classic is None else tuple(dict.fromkeys(protocol.name for protocol in classic.supported_protocols))
