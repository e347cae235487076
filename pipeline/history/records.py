"""The input and output of a history: a group's records, the commits between two of them, and the rows it yields.

A *step* begins with a record that states the whole group: a generation of a classic group (GroupMetadata), an epoch of
a group of another kind (ConsumerGroupMetadata), or the tombstone of either.
"""

import re
from enum import StrEnum
from typing import Any

import msgspec

from coordinator.core.record_schemas import KINDS

GROUP_METADATA = 2  # the version of the key
TASK = "task "  # how the topic of a move begins that is one of a task: no topic's name has a blank


class Role(StrEnum):
    """What a record says of a group with epochs: the end of its name, which the kinds of such groups have in common."""

    EPOCH = "Metadata"
    TOPICS = "PartitionMetadata"
    MEMBER = "MemberMetadata"
    TARGET = "TargetAssignmentMetadata"
    CURRENT = "CurrentMemberAssignment"
    PATTERN = "RegularExpression"
    TOPOLOGY = "Topology"
    STATES = "StatePartitionMetadata"


def _parts(name: str) -> tuple[str, Role] | None:
    """Return the kind of groups, and what the record says, by the name of its key; None if it says nothing else."""
    found = re.fullmatch(f"([A-Z][a-z]+)Group({'|'.join(Role)})Key", name)
    return None if found is None else (found[1].lower(), Role(found[2]))


OF_EPOCHS = {kind.type: parts for kind in KINDS if (parts := _parts(kind.key.cls.__name__)) is not None}
"""By the version of the key: the kind of groups, and what the record says."""
STEPS = (GROUP_METADATA, *(version for version, (_, role) in OF_EPOCHS.items() if role is Role.EPOCH))


class Record(msgspec.Struct, frozen=True):
    """A row of `group_records`. `epoch` is the generation or the epoch that the record states."""

    log_offset: int
    record_ts: int
    key_version: int
    member_id: str | None
    epoch: int | None
    is_tombstone: bool
    payload: str

    def value(self) -> dict[str, Any]:
        """Return the payload, decoded."""
        decoded: dict[str, Any] = msgspec.json.decode(self.payload)
        return decoded


class ClassicMember(msgspec.Struct, frozen=True):
    """A member of a generation. `subscription` is a digest of what it wants, without what it owns at the moment."""

    member_id: str
    group_instance_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout: int = -1
    session_timeout: int = -1
    subscription: str = ""
    assignment: dict[str, tuple[int, ...]] = {}

    @property
    def owner(self) -> str:
        """The name under which it owns partitions: a static member keeps them under a new member id."""
        return self.group_instance_id or self.member_id


class Generation(msgspec.Struct, frozen=True):
    """The value of a GroupMetadata record."""

    generation: int = 0
    protocol: str | None = None
    current_state_timestamp: int = -1
    members: tuple[ClassicMember, ...] = ()


_generations = msgspec.json.Decoder(Generation)


def read_generation(record: Record) -> Generation:
    """Return the generation that a record states; an empty one for a tombstone."""
    return Generation() if record.is_tombstone else _generations.decode(record.payload)


class Activity(msgspec.Struct, frozen=True):
    """Commits of some partitions within a step. `last_plain_ts` leaves transactional ones out. `back_ms` is by how much
    a commit of a partition was earlier, at most, than one before it in the log: the broker's clock went back."""

    first_ts: int
    last_ts: int
    last_plain_ts: int | None = None
    commits: int = 1
    back_ms: int = 0


class Rebalance(msgspec.Struct):
    """A row of `rebalances`."""

    group: str
    type: str
    generation: int | None
    at_ms: int
    log_offset: int
    causes: list[str]
    cause_detail: str
    members_before: int
    members_after: int
    joined: list[str]
    left: list[str]
    sync_ms: int | None = None
    commit_gap_ms: int | None = None
    commit_gap_partitions: str | None = None
    commit_interval_ms: int | None = None
    epoch_settle_ms: int | None = None
    partitions_moved: int | None = None
    cause_source: str = "inferred"


class Move(msgspec.Struct, frozen=True):
    """A row of `partition_moves`."""

    group: str
    generation: int | None
    topic: str
    partition: int
    from_owner: str | None
    to_owner: str | None
    kind: str
    log_offset: int
    record_ts: int


class Session(msgspec.Struct):
    """A row of `member_sessions`."""

    group: str
    type: str
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    from_ts: int
    to_ts: int | None = None
    end_reason: str | None = None
    generations: int | None = None
    partitions_owned: int | None = None


Row = Rebalance | Move | Session
