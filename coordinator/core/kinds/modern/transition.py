"""One operation on a group with epochs while it is worked out.

What is written is applied at once, so that each step sees what the steps before it did. Nothing of it is true before
the shard takes the `Result`: an operation that is refused half-way is thrown away, and has changed nothing.
"""

from typing import Any, Generic, Protocol, TypeVar

from msgspec.structs import replace

from coordinator.core.env import Env
from coordinator.core.events import Cause, Event
from coordinator.core.kinds.kind import Group, Member
from coordinator.core.kinds.registry import kind_of
from coordinator.core.records import Record
from coordinator.core.result import CancelTimer, Effect, Result, SetTimer
from coordinator.core.timers import Due


class EpochGroup(Group, Protocol):
    """A group that counts by its epoch."""

    @property
    def epoch(self) -> int: ...


G = TypeVar("G", bound=EpochGroup)


class GroupTransition(Generic[G]):
    """A group, what is known around it, and what the operation has brought about so far."""

    def __init__(self, group: G, env: Env, by: str, before: str | None = None) -> None:
        """`before` is the state of the group of another kind that it is made of."""
        self.group = group
        self.kind = kind_of(group)
        self.env = env
        self.now_ms = env.call.now_ms
        self.limits = env.limits
        self.topics = env.topics
        self.by = by
        self.records: list[Record] = []
        self.effects: list[Effect] = []
        self.events: list[Event] = []
        self.told: str = group.state if before is None else before  # the state as of the event told last

    def write(self, *records: Record) -> None:
        """State records. The group goes on as the one they make."""
        for record in records:
            group = self.kind.keys[type(record.key)](self.group, record)
            assert group is not None, f"{record.key!r} deletes the group it is about"
            self.group = group
        self.records.extend(records)

    def set_timer(self, name: str, member_id: str, delay_ms: int) -> None:
        """Fire a timer of this group."""
        self.effects.append(SetTimer((name, self.group.group_id, member_id), self.now_ms + delay_ms))

    def cancel_timer(self, name: str, member_id: str) -> None:
        """Never mind a timer of this group."""
        self.effects.append(CancelTimer((name, self.group.group_id, member_id)))

    def tell(
        self,
        cause: Cause,
        member: Member | None = None,
        *,
        protocol: str = "",
        reason: str = "",
        tasks: tuple[str, ...] = (),
    ) -> None:
        """Say what happened; `before` is the group's state as of the event told last."""
        group, before = self.group, self.told
        self.told = group.state
        self.events.append(
            Event(
                at_ms=self.now_ms,
                group=group.group_id,
                cause=cause,
                before=str(before),
                after=str(group.state),
                generation=group.epoch,
                member=member.member_id if member is not None else "",
                instance=member.instance_id if member is not None else None,
                client_id=member.client_id if member is not None else "",
                protocol=protocol,
                type=self.kind.name,
                members=len(group.members),
                by=self.by,
                reason=reason,
                tasks=tasks,
            )
        )

    def result(self, response: Any = None) -> Result[Any]:
        """Return everything that the operation leads to."""
        return Result(self.group, response, tuple(self.records), tuple(self.effects), tuple(self.events))


def with_deadline(result: Result[Any], cause: Cause, timer: Due) -> Result[Any]:
    """Return the result of a timer; its events of that cause say for when the timer was set."""
    events = [replace(one, deadline_ms=timer.deadline_ms) if one.cause is cause else one for one in result.events]
    return replace(result, events=tuple(events))
