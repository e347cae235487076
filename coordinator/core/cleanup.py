"""Remove expired offsets, groups that have nothing left, and whatever a request deletes."""

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from coordinator.core.env import Env
from coordinator.core.events import Cause
from coordinator.core.groups import DEAD, Group, group_event, group_tombstones, is_subscribed
from coordinator.core.kinds.consumer.group import ConsumerGroup
from coordinator.core.offsets import expiry
from coordinator.core.offsets.store import OffsetStore
from coordinator.core.records import Record
from coordinator.core.result import RemoveGroup, Result
from coordinator.core.topics import Topics
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsResponseDeletableGroupResult


def delete_group(group: Group | None, group_id: str, env: Env) -> Result[Any]:
    """DeleteGroups, for one group: it ends with all of its offsets, committed and pending, in one batch."""
    if group is None:
        return Result(response=DeleteGroupsResponseDeletableGroupResult(group_id, ErrorCode.GROUP_ID_NOT_FOUND))
    if not group.is_empty:
        return Result(response=DeleteGroupsResponseDeletableGroupResult(group_id, ErrorCode.NON_EMPTY_GROUP))
    result = remove_group(group, list(env.offsets.keys(group_id)), env, Cause.GROUP_DELETED, "DeleteGroups")
    return result.answering(DeleteGroupsResponseDeletableGroupResult(group_id))


def expire_offsets(group: Group, env: Env) -> Result[Any]:
    """Remove the offsets that have expired, and the group with them if it is empty and none is left."""
    offsets, now_ms, retention_ms = env.offsets, env.call.now_ms, env.limits.offsets_retention_ms
    group_id = group.group_id
    if isinstance(group, ConsumerGroup):
        in_use = partial(is_subscribed, group)
        keys = list(expiry.find_expired_offsets(group_id, offsets, expiry.commit_time, in_use, now_ms, retention_ms))
    else:
        keys = expiry.find_expired_of_classic(group, offsets, now_ms, retention_ms)
    committed = sum(map(len, offsets.of_group(group_id).values()))
    if group.is_empty and committed == len(keys) and not offsets.pending_of(group_id):
        return remove_group(group, keys, env, Cause.GROUP_EXPIRED, "timer expiry")
    return Result(records=_tombstones(keys))


def remove_orphans(group_id: str, offsets: OffsetStore, gone: Collection[str]) -> Result[Any]:
    """Remove the group's offsets of topics that do not exist any more. The group stays until it expires."""
    return Result(records=_tombstones(expiry.find_orphaned_offsets(group_id, offsets, gone)))


def remove_forgotten(
    group_id: str, offsets: OffsetStore, topics: Topics, gone: Mapping[str, Collection[bytes]]
) -> Result[Any]:
    """Remove the offsets that a start finds of topics that are gone, as the server stopped before it wrote it."""
    return Result(records=_tombstones(expiry.find_forgotten_offsets(group_id, offsets, topics, gone)))


def remove_group(group: Group, keys: Collection[Any], env: Env, cause: Cause, by: str) -> Result[Any]:
    """End a group with these offsets."""
    event = group_event(group, env, cause, by, after=DEAD)
    records = (*_tombstones(keys), *group_tombstones(group))
    return Result(records=records, effects=(RemoveGroup(group.group_id),), events=(event,))


def _tombstones(keys: Collection[Any]) -> tuple[Record, ...]:
    return tuple([Record(key, None) for key in keys])
