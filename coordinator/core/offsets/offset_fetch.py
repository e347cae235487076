"""OffsetFetch: what a group has committed. From version 8 for several groups at once, which may live in several shards.

Up to version 7 a request names one group. `split_groups` and `merge_groups` convert from and to the form of version 8,
which names many, so all other code knows one form.

Shown by tests/core/scripts/offsets/fetch_by_version.txt and tests/conformance/stories/offset_fetch.py.
"""

from typing import Final

from msgspec.structs import replace

from coordinator.core.offsets.store import OffsetStore
from coordinator.core.offsets.validation import TOPIC_IDS_SINCE, resolve_topic
from coordinator.core.record_types import OffsetCommits, OffsetCommitValue
from coordinator.core.topics import NO_ID, Topic, Topics
from protocol.errors import ErrorCode
from protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from protocol.rows import Rows, Shape

GROUPS_SINCE: Final = 8
GROUP_ERROR_SINCE: Final = 2  # before, the group's error is that of each partition
_COLUMNS: Final = "partition_index", "committed_offset", "committed_leader_epoch"
_CONSTANTS: Final = {"metadata": "", "error_code": ErrorCode.NONE.value}
_ROW: Final = Shape(OffsetFetchResponsePartitions, _COLUMNS, _CONSTANTS)
_ROW_BEFORE: Final = Shape(OffsetFetchResponsePartition, _COLUMNS, _CONSTANTS)  # of versions 0-7


def split_groups(request: OffsetFetchRequest, version: int) -> tuple[OffsetFetchRequestGroup, ...]:
    """Split a request of any version into one for each group."""
    if version >= GROUPS_SINCE:
        return request.groups
    topics = request.topics
    if topics is not None:
        topics_asked = tuple(OffsetFetchRequestTopics(each.name, NO_ID, each.partition_indexes) for each in topics)
        return (OffsetFetchRequestGroup(request.group_id, topics=topics_asked),)
    return (OffsetFetchRequestGroup(request.group_id, topics=None),)


def merge_groups(
    groups: tuple[OffsetFetchResponseGroup, ...], request: OffsetFetchRequest, version: int
) -> OffsetFetchResponse:
    """Merge the responses of all groups into one of that version."""
    if version >= GROUPS_SINCE:
        return OffsetFetchResponse(groups=groups)
    (group,) = groups
    if group.error_code and version < GROUP_ERROR_SINCE:
        return OffsetFetchResponse(topics=_repeat_error(request, group.error_code))
    topics = tuple(_as_before(topic) for topic in group.topics)
    return OffsetFetchResponse(topics=topics, error_code=group.error_code)


def name_topics(
    wanted: OffsetFetchRequestGroup, version: int, offsets: OffsetStore, topics: Topics
) -> OffsetFetchRequestGroup:
    """Name all that is committed, if all is wanted. By id, topics that are gone cannot be named and are left out."""
    if wanted.topics is not None:
        return wanted
    by_id = version >= TOPIC_IDS_SINCE
    named = []
    for name, partitions in offsets.of_group(wanted.group_id).items():
        topic_id = topics.id_of(name) if by_id else NO_ID
        if not by_id or topic_id != NO_ID:
            named.append(OffsetFetchRequestTopics(name, topic_id, tuple(partitions)))
    return replace(wanted, topics=tuple(named))


def fetch_offsets(
    wanted: OffsetFetchRequestGroup, version: int, offsets: OffsetStore, topics: Topics, *, require_stable: bool
) -> OffsetFetchResponseGroup:
    """Return one group's offsets: those asked for, or all. What was never committed is -1, and that is no error."""
    named = name_topics(wanted, version, offsets, topics).topics or ()
    found = [_topic(wanted.group_id, each, version, offsets, topics, require_stable) for each in named]
    return OffsetFetchResponseGroup(wanted.group_id, tuple(found))


def refuse_group(group_id: str, error: ErrorCode) -> OffsetFetchResponseGroup:
    """Answer for a group with an error and no offsets."""
    return OffsetFetchResponseGroup(group_id, (), error)


def _topic(
    group_id: str,
    wanted: OffsetFetchRequestTopics,
    version: int,
    offsets: OffsetStore,
    topics: Topics,
    require_stable: bool,
) -> OffsetFetchResponseTopics:
    """Return the partitions asked for. By name a topic need not exist; by id it must, and be the one that was
    committed to."""
    name, topic_id = wanted.name, wanted.topic_id
    if version >= TOPIC_IDS_SINCE:
        meant = resolve_topic(wanted, version, topics)
        if not isinstance(meant, Topic):
            nothing = tuple(_nothing(partition, meant) for partition in wanted.partition_indexes)
            return OffsetFetchResponseTopics(name, topic_id, nothing)
        name = meant.name
    is_by_id = topic_id != NO_ID
    if not (require_stable and offsets.has_any_pending(group_id)):
        together = offsets.find_joint_commits(group_id, name, wanted.partition_indexes)
        if together is not None and not (is_by_id and _is_of_another_topic(together, topic_id)):
            columns = together.partitions, together.offsets, together.leader_epochs
            return OffsetFetchResponseTopics(name, topic_id, Rows(_ROW, columns))
    committed = offsets.of_topic(group_id, name)
    found = []
    for partition in wanted.partition_indexes:
        value = committed.get(partition)
        if require_stable and offsets.has_pending(group_id, name, partition):
            found.append(_nothing(partition, ErrorCode.UNSTABLE_OFFSET_COMMIT))
        elif value is None or (is_by_id and _is_of_another_topic(value, topic_id)):
            found.append(_nothing(partition))
        else:
            found.append(OffsetFetchResponsePartitions(partition, value.offset, value.leader_epoch, value.metadata))
    return OffsetFetchResponseTopics(name, topic_id, tuple(found))


def _is_of_another_topic(value: OffsetCommitValue | OffsetCommits, topic_id: bytes) -> bool:
    """Return whether the topic was deleted and created again since. Only who asks by id can tell, and only if an id
    was kept."""
    return value.topic_id not in (NO_ID, topic_id)


def _nothing(partition: int, error: ErrorCode = ErrorCode.NONE) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(partition, -1, -1, "", error)


def _as_before(topic: OffsetFetchResponseTopics) -> OffsetFetchResponseTopic:
    """Return the topic in the form of versions 0-7."""
    if type(topic.partitions) is Rows:
        return OffsetFetchResponseTopic(topic.name, Rows(_ROW_BEFORE, topic.partitions.columns))
    partitions = tuple(
        OffsetFetchResponsePartition(
            each.partition_index, each.committed_offset, each.committed_leader_epoch, each.metadata, each.error_code
        )
        for each in topic.partitions
    )
    return OffsetFetchResponseTopic(topic.name, partitions)


def _repeat_error(request: OffsetFetchRequest, error: int) -> tuple[OffsetFetchResponseTopic, ...]:
    """Repeat the group's error in each requested partition, since versions 0 and 1 have no other field for it."""
    return tuple(
        OffsetFetchResponseTopic(
            topic.name,
            tuple(OffsetFetchResponsePartition(at, -1, -1, "", error) for at in topic.partition_indexes),
        )
        for topic in request.topics or ()
    )
