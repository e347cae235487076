"""Remove expired offsets, groups that have nothing left, and whatever a request deletes.

Shown by tests/core/scripts/offsets/{delete_*group,topic_deleted}.txt and tests/conformance/stories/admin_groups.py.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any, Final

from coordinator.core.env import Env
from coordinator.core.events import Cause
from coordinator.core.groups import group_event
from coordinator.core.kinds.kind import DEAD, Group
from coordinator.core.kinds.registry import kind_of
from coordinator.core.offsets import expiry
from coordinator.core.offsets.store import OffsetStore
from coordinator.core.records import OffsetCommitKey, Record
from coordinator.core.result import RemoveGroup, Result
from coordinator.core.topics import Topics
from coordinator.core.verbs import BY, Forget, VerbResponse
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsResponseDeletableGroupResult

TOMBSTONES_A_STEP: Final = 500  # of offsets whose topic is gone: two milliseconds


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
    kind, offsets, group_id = kind_of(group), env.offsets, group.group_id
    if kind.expires_since is None:
        return Result()
    since = kind.expires_since(group)
    keys = [] if since is None else list(expiry.find_expired_offsets(
        group_id, offsets, since, _topics_in_use(group), env.call.now_ms, env.limits.offsets_retention_ms
    ))  # fmt: skip
    committed = sum(map(len, offsets.of_group(group_id).values()))
    if group.is_empty and committed == len(keys) and not offsets.pending_of(group_id):
        return remove_group(group, keys, env, Cause.GROUP_EXPIRED, "timer expiry")
    return Result(records=_tombstones(keys))


def _topics_in_use(group: Group) -> Callable[[str], bool]:
    return _nothing if group.is_empty else partial(kind_of(group).is_subscribed, group)


def _nothing(topic: str) -> bool:
    return False


def cut_forgotten(
    group_id: str, offsets: OffsetStore, topics: Callable[[], Topics], gone: Mapping[str, Collection[bytes]]
) -> Iterator[list[OffsetCommitKey]]:
    """Yield the group's offsets of topics that are gone, so many at a time. The group stays until it expires.

    What was committed anew between two steps is left out: `topics` returns those of the moment.
    """
    keys = expiry.find_forgotten_offsets(group_id, offsets, topics(), gone)
    for at in range(0, len(keys), TOMBSTONES_A_STEP):
        some = keys[at : at + TOMBSTONES_A_STEP]
        yield [key for key in some if expiry.is_forgotten(key, offsets, topics(), gone)] if at else some


def remove_offsets(keys: Collection[OffsetCommitKey], _group_id: str) -> Result[Any]:
    """Remove these offsets of a group."""
    return Result(records=_tombstones(keys))


def remove_forgotten(
    group_id: str, offsets: OffsetStore, topics: Topics, gone: Mapping[str, Collection[bytes]]
) -> Result[Any]:
    """Remove, at a start, the offsets of topics that were deleted before their tombstones were written."""
    return Result(records=_tombstones(expiry.find_forgotten_offsets(group_id, offsets, topics, gone)))


def remove_group(group: Group, keys: Collection[Any], env: Env, cause: Cause, by: str) -> Result[Any]:
    """End a group with these offsets."""
    event = group_event(group, env, cause, by, after=DEAD)
    records = (*_tombstones(keys), *kind_of(group).tombstones(group))
    return Result(records=records, effects=(RemoveGroup(group.group_id),), events=(event,))


def forget_group(group: Group, verb: Forget, env: Env) -> Result[Any]:
    """Remove a group with its members and offsets, as an operator asks."""
    keys = list(env.offsets.keys(group.group_id))
    return remove_group(group, keys, env, Cause.GROUP_FORGOTTEN, BY).answering(VerbResponse())


def _tombstones(keys: Collection[Any]) -> tuple[Record, ...]:
    return tuple([Record(key, None) for key in keys])
