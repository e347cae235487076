"""Remove expired offsets, groups that have nothing left, and whatever a request deletes.

Shown by tests/core/scripts/offsets/{delete_*group,topic_deleted}.txt and tests/conformance/stories/admin_groups.py.
"""

from collections.abc import Callable, Collection
from functools import partial
from itertools import islice
from typing import Any, Final

from coordinator.core.env import Env
from coordinator.core.events import Cause
from coordinator.core.groups import group_event
from coordinator.core.kinds.kind import DEAD, Group
from coordinator.core.kinds.registry import kind_of
from coordinator.core.offsets import expiry
from coordinator.core.records import OffsetCommitKey, Record
from coordinator.core.result import RemoveGroup, RemoveOffsets, Result
from coordinator.core.verbs import BY, Forget, VerbResponse
from protocol.errors import ErrorCode
from protocol.messages.delete_groups import DeleteGroupsResponseDeletableGroupResult

TOMBSTONES_A_STEP: Final = 500  # of offsets: two milliseconds


def delete_group(group: Group | None, group_id: str, env: Env) -> Result[Any]:
    """DeleteGroups, for one group: it ends with all of its offsets, committed and pending."""
    if group is None:
        return Result(response=DeleteGroupsResponseDeletableGroupResult(group_id, ErrorCode.GROUP_ID_NOT_FOUND))
    if not group.is_empty:
        return Result(response=DeleteGroupsResponseDeletableGroupResult(group_id, ErrorCode.NON_EMPTY_GROUP))
    result = remove_group(group, env, Cause.GROUP_DELETED, "DeleteGroups")
    return result.with_response(DeleteGroupsResponseDeletableGroupResult(group_id))


def expire_offsets(group: Group, part: expiry.Part, is_last: bool, env: Env) -> Result[Any]:
    """Remove those of some offsets that have expired, and with the last ones the group, if it is empty by then.

    Kafka: `GroupCoordinatorShard.cleanupGroupMetadata`, whose records need not be in one batch either.
    """
    kind, offsets, group_id = kind_of(group), env.offsets, group.group_id
    if kind.expires_since is None:
        return Result()
    since = kind.expires_since(group)
    keys = [] if since is None else list(expiry.find_expired_offsets(
        group_id, part, offsets, since, _topics_in_use(group), env.call.now_ms, env.limits.offsets_retention_ms
    ))  # fmt: skip
    if is_last and group.is_empty and len(list(islice(offsets.keys(group_id), len(keys) + 1))) == len(keys):
        return remove_group(group, env, Cause.GROUP_EXPIRED, "timer expiry")
    return Result(records=_tombstones(keys))


def _topics_in_use(group: Group) -> Callable[[str], bool]:
    return _nothing if group.is_empty else partial(kind_of(group).is_subscribed, group)


def _nothing(topic: str) -> bool:
    return False


def remove_offsets(keys: Collection[OffsetCommitKey], _group_id: str) -> Result[Any]:
    """Remove these offsets of a group."""
    return Result(records=_tombstones(keys))


def remove_group(group: Group, env: Env, cause: Cause, by: str) -> Result[Any]:
    """End a group with all of its offsets.

    One batch has the end of the group and the tombstones of its offsets. If they are many, it has the first ones: what
    is left is hidden at once, and its tombstones follow in steps (`Shard.remove_offsets`). Until then there can be no
    group of this id. A server that stops before they are written finds offsets without a group, and writes them at its
    next start.
    """
    group_id = group.group_id
    keys = list(islice(env.offsets.keys(group_id), TOMBSTONES_A_STEP + 1))
    event = group_event(group, env, cause, by, after=DEAD)
    records = (*_tombstones(keys[:TOMBSTONES_A_STEP]), *kind_of(group).tombstones(group))
    rest = (RemoveOffsets(group_id, env.call.now_ms),) if len(keys) > TOMBSTONES_A_STEP else ()
    return Result(records=records, effects=(RemoveGroup(group_id), *rest), events=(event,))


def forget_group(group: Group, verb: Forget, env: Env) -> Result[Any]:
    """Remove a group with its members and offsets, as an operator asks."""
    return remove_group(group, env, Cause.GROUP_FORGOTTEN, BY).with_response(VerbResponse())


def _tombstones(keys: Collection[Any]) -> tuple[Record, ...]:
    return tuple([Record(key, None) for key in keys])
