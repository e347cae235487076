"""OffsetCommit: how far a group has got, partition by partition.

The order of things is Kafka's: what does not exist is taken out first, and if nothing is left, group validation is
skipped; then the group decides about all that is left at once; then each partition's metadata is measured.

Shown by tests/core/scripts/offsets/commit_*.txt and tests/conformance/stories/offset_commit.py.
"""

from functools import lru_cache
from typing import Any, Final

from msgspec import Struct

from coordinator.core.env import Env
from coordinator.core.kinds.kind import Group
from coordinator.core.kinds.registry import BY_CLASS, kind_of
from coordinator.core.limits import Limits
from coordinator.core.offsets.metadata_length import is_too_long
from coordinator.core.offsets.outcomes import list_outcomes
from coordinator.core.offsets.validation import (
    exists,
    resolve_topic,
    validate_commit,
    validate_first_commit,
)
from coordinator.core.record_types import OffsetCommitKey, OffsetCommits, OffsetCommitValue, Record
from coordinator.core.result import Call, Effect, Result
from coordinator.core.topics import Topic, Topics
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from protocol.rows import Rows

FEW_PARTITIONS: Final = 128  # of a response that is kept: some ten KiB
COLUMNS: Final = "partition_index", "committed_offset", "committed_leader_epoch"
PLAIN_FIELDS: Final = COLUMNS, COLUMNS[:2]  # of partitions that bring no more than their offset, by version
TIMESTAMPS_IN: Final = 1  # the version of the request that has a timestamp for each partition
TIMESTAMP_MAX: Final = 2**63 - 1  # that a record can hold; a retention beyond it means for ever


def offset_commit(
    group: Group | None,
    request: OffsetCommitRequest,
    env: Env,
) -> Result[Group]:
    """Take what may be committed; each partition has an outcome of its own."""
    taken = _take_together(request, env.call, env.topics)
    if taken is None:
        return _take_one_by_one(group, request, env)
    kind = BY_CLASS.get(type(group))  # None without a group
    if validate_first_commit(request, env) if kind is None else kind.validate_commit(group, request, env):
        return _take_one_by_one(group, request, env)
    records, response = taken
    if kind is None or not (member_id := request.member_id):
        return Result(response=response, records=records)
    renewed = kind.renew_by_commit(group, member_id, env.call.now_ms)
    return Result(response=response, records=records, effects=renewed)


def _take_together(
    request: OffsetCommitRequest, call: Call, topics: Topics
) -> tuple[tuple[OffsetCommits, ...], OffsetCommitResponse] | None:
    """Take the partitions of each topic in columns, as nearly every commit can be; answer that all is committed.

    None if there is no partition, if one of them does not exist, or if one brings more than its offset and epoch: they
    were not read as columns then.
    """
    if request.retention_time_ms != -1 or call.version == TIMESTAMPS_IN:
        return None
    taken: list[OffsetCommits] = []
    responses: list[OffsetCommitResponse] = []
    for topic in request.topics:
        meant, rows = resolve_topic(topic, call.version, topics), topic.partitions
        if not isinstance(meant, Topic) or type(rows) is not Rows or rows.shape.fields not in PLAIN_FIELDS:
            return None
        columns: Any = rows.columns
        if len(columns) < len(COLUMNS):
            columns = (*columns, (-1,) * len(rows))
        accept = _accept_few if len(columns[0]) <= FEW_PARTITIONS else _accept_many
        accepted = accept(topic.name, topic.topic_id, columns[0])
        if accepted.lowest < 0 or accepted.highest >= meant.partitions:
            return None
        taken.append(OffsetCommits(request.group_id, meant.name, meant.id, call.now_ms, *columns))
        responses.append(accepted.response)
    if len(taken) == 1:
        return tuple(taken), responses[0]
    topics_taken = tuple(response.topics[0] for response in responses)
    return (tuple(taken), OffsetCommitResponse(topics=topics_taken)) if taken else None


class Acceptance(Struct, frozen=True, gc=False):
    """The response to a commit of some partitions of a topic, if it has all of them."""

    lowest: int  # of the partitions
    highest: int
    response: OffsetCommitResponse


def _accept_many(name: str, topic_id: bytes, partitions: tuple[int, ...]) -> Acceptance:
    """Answer that all of a topic's partitions are committed.

    Clients commit the same partitions again and again. They get the same object then (`_accept_few`), which is encoded
    once.
    """
    outcomes = tuple(map(OffsetCommitResponsePartition, partitions))
    response = OffsetCommitResponse(topics=(OffsetCommitResponseTopic(name, topic_id, outcomes),))
    return Acceptance(min(partitions), max(partitions), response)


_accept_few = lru_cache(maxsize=256)(_accept_many)


def _take_one_by_one(group: Group | None, request: OffsetCommitRequest, env: Env) -> Result[Group]:
    """Take what may be committed; whatever the request says, and wherever it comes from."""
    call, limits, topics = env.call, env.limits, env.topics
    named = [(topic, resolve_topic(topic, call.version, topics)) for topic in request.topics]
    if not any(_has_any(topic, meant) for topic, meant in named):
        return Result(response=_answer(named, [_refuse(topic, meant, ErrorCode.NONE) for topic, meant in named]))
    if error := validate_commit(group, request, env):
        return Result(response=_answer(named, [_refuse(topic, meant, error) for topic, meant in named]))
    records: list[Record] = []
    outcomes = [_take(topic, meant, request, call, limits, records) for topic, meant in named]
    response = _answer(named, outcomes)
    return Result(response=response, records=tuple(records), effects=_renew(group, request, call.now_ms))


def _answer(
    named: list[tuple[OffsetCommitRequestTopic, Topic | ErrorCode]], outcomes: list[OffsetCommitResponseTopic]
) -> OffsetCommitResponse:
    return OffsetCommitResponse(topics=list_outcomes(named, outcomes))


def _has_any(topic: OffsetCommitRequestTopic, meant: Topic | ErrorCode) -> bool:
    return isinstance(meant, Topic) and any(exists(each.partition_index, meant) for each in topic.partitions)


def _take(
    topic: OffsetCommitRequestTopic,
    meant: Topic | ErrorCode,
    request: OffsetCommitRequest,
    call: Call,
    limits: Limits,
    records: list[Record],
) -> OffsetCommitResponseTopic:
    """Add a record for each partition that may be committed; say what became of each."""
    if not isinstance(meant, Topic):
        return _refuse(topic, meant, ErrorCode.NONE)
    outcomes = []
    group_id, name, count = request.group_id, meant.name, meant.partitions
    expire_ms = -1 if request.retention_time_ms == -1 else min(call.now_ms + request.retention_time_ms, TIMESTAMP_MAX)
    for each in topic.partitions:
        error, partition = ErrorCode.NONE, each.partition_index
        if not 0 <= partition < count:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif each.committed_metadata and is_too_long(each.committed_metadata, limits.offset_metadata_max_bytes):
            error = ErrorCode.OFFSET_METADATA_TOO_LARGE
        else:
            value = _value(each, meant, call.now_ms, expire_ms)
            records.append(Record(OffsetCommitKey(group_id, name, partition), value))
        outcomes.append(OffsetCommitResponsePartition(partition, error))
    return OffsetCommitResponseTopic(topic.name, topic.topic_id, tuple(outcomes))


def _value(each: OffsetCommitRequestPartition, topic: Topic, now_ms: int, expire_ms: int) -> OffsetCommitValue:
    """Build the value of a committed offset. Only version 1 of the request brings a timestamp of its own.

    With an expiry of its own it is written in the record's version 1, which has no place for an epoch and a topic id.
    """
    at_ms = now_ms if each.commit_timestamp == -1 else each.commit_timestamp
    metadata = each.committed_metadata or ""
    if expire_ms != -1:
        return OffsetCommitValue(each.committed_offset, -1, metadata, at_ms, expire_ms)
    return OffsetCommitValue(each.committed_offset, each.committed_leader_epoch, metadata, at_ms, -1, topic.id)


def _renew(group: Group | None, request: OffsetCommitRequest, now_ms: int) -> tuple[Effect, ...]:
    """Return what a commit means for the session of its member."""
    return () if group is None else kind_of(group).renew_by_commit(group, request.member_id, now_ms)


def _refuse(topic: OffsetCommitRequestTopic, meant: Topic | ErrorCode, error: ErrorCode) -> OffsetCommitResponseTopic:
    """Answer with `error` for each partition that exists, and for the others with the reason why they do not."""
    outcomes = []
    for each in topic.partitions:
        if not isinstance(meant, Topic):
            outcome = meant
        elif exists(each.partition_index, meant):
            outcome = error
        else:
            outcome = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        outcomes.append(OffsetCommitResponsePartition(each.partition_index, outcome))
    return OffsetCommitResponseTopic(topic.name, topic.topic_id, tuple(outcomes))
