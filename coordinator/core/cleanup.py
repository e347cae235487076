"""What goes: offsets whose time is over, groups that have nothing left, what is deleted on purpose."""

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from coordinator.core.classic import durable
from coordinator.core.consumer import api as consumer
from coordinator.core.consumer.group import ConsumerGroup
from coordinator.core.dispatch import Group
from coordinator.core.events import Cause, Event
from coordinator.core.offsets.expiry import committed_at, expired_of, orphaned
from coordinator.core.offsets.expiry import expired as expired_offsets
from coordinator.core.offsets.expiry import forgotten as forgotten_offsets
from coordinator.core.offsets.store import OffsetStore
from coordinator.core.records import Record
from coordinator.core.result import Result
from coordinator.core.topics import Topics
from protocol.errors import ErrorCode


def delete_refusal(group: Group | None) -> ErrorCode:
    """Why a group cannot be deleted, NONE if it can."""
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.NONE if group.is_empty else ErrorCode.NON_EMPTY_GROUP


def deleted(group: Group, offsets: OffsetStore, now_ms: int) -> Result[Any]:
    """The end of a group and of all its offsets, committed and pending, in one batch."""
    records = (*_tombstones(offsets.keys(group.group_id)), *ends(group))
    return Result(records=records, events=(_event(group, now_ms, Cause.GROUP_DELETED, "DeleteGroups"),))


def expired(group: Group, offsets: OffsetStore, now_ms: int, retention_ms: int) -> tuple[Result[Any], bool]:
    """What has run out in a group; and whether that is all of it, so that it ends in the same batch."""
    group_id = group.group_id
    if isinstance(group, ConsumerGroup):
        in_use = partial(consumer.is_subscribed, group)
        keys = list(expired_offsets(group_id, offsets, committed_at, in_use, now_ms, retention_ms))
    else:
        keys = expired_of(group, offsets, now_ms, retention_ms)
    held = sum(map(len, offsets.of_group(group_id).values()))
    ends_too = group.is_empty and held == len(keys) and not offsets.pending_of(group_id)
    if not ends_too:
        return Result(records=_tombstones(keys)), False
    told = _event(group, now_ms, Cause.GROUP_EXPIRED, "timer expiry")
    return Result(records=(*_tombstones(keys), *ends(group)), events=(told,)), True


def orphans(group_id: str, offsets: OffsetStore, gone: Collection[str]) -> Result[Any]:
    """The end of the group's offsets of topics that do not exist any more. The group stays until it expires."""
    return Result(records=_tombstones(orphaned(group_id, offsets, gone)))


def forgotten(
    group_id: str, offsets: OffsetStore, topics: Topics, gone: Mapping[str, Collection[bytes]]
) -> Result[Any]:
    """The end of the offsets that a start finds of topics that are gone, as the server stopped before it wrote it."""
    return Result(records=_tombstones(forgotten_offsets(group_id, offsets, topics, gone)))


def ends(group: Group) -> tuple[Record, ...]:
    """The end of the group itself."""
    if isinstance(group, ConsumerGroup):
        return consumer.tombstones(group)
    return (durable.tombstone(group.group_id),)


def _tombstones(keys: Any) -> tuple[Record, ...]:
    return tuple([Record(key, None) for key in keys])


def _event(group: Group, now_ms: int, cause: Cause, by: str) -> Event:
    """A group has ended. Kafka's name for that state is one that nobody ever sees it in."""
    return Event(
        at_ms=now_ms,
        group=group.group_id,
        cause=cause,
        before=group.state.value,
        after="Dead",
        generation=group.epoch if isinstance(group, ConsumerGroup) else group.generation,
        type="consumer" if isinstance(group, ConsumerGroup) else "classic",
        by=by,
    )
