"""TxnOffsetCommit: offsets that belong to a transaction. They are pending until its marker, and invisible till then.

Whether the transaction is open, and whose it is, has been seen to before (by the transaction coordinator's rules).

Shown by tests/core/scripts/offsets/txn_*.txt and tests/conformance/stories/txn_offsets.py.
"""

from coordinator.core.env import Env
from coordinator.core.kinds.kind import Group
from coordinator.core.limits import Limits
from coordinator.core.offsets.metadata_length import is_too_long
from coordinator.core.offsets.outcomes import list_outcomes
from coordinator.core.offsets.validation import exists, validate_txn_commit
from coordinator.core.records import OffsetCommitKey, OffsetCommitValue, Record
from coordinator.core.result import Call, Producer, Result
from coordinator.core.topics import Topic, Topics
from protocol.errors import ErrorCode
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)


def txn_offset_commit(group: Group | None, request: TxnOffsetCommitRequest, env: Env) -> Result[Group]:
    """Take what may be committed, pending."""
    call, limits, topics = env.call, env.limits, env.topics
    named = [(topic, topics.get(topic.name)) for topic in request.topics]
    if error := validate_txn_commit(group, request, env):
        return Result(response=refuse_txn_commit(request, topics, error))
    records: list[Record] = []
    outcomes = [_take(topic, meant, request, call, limits, records) for topic, meant in named]
    return Result(
        response=TxnOffsetCommitResponse(topics=list_outcomes(named, outcomes)),
        records=tuple(records),
        producer=Producer(request.producer_id, request.producer_epoch) if records else None,
    )


def refuse_txn_commit(request: TxnOffsetCommitRequest, topics: Topics, error: ErrorCode) -> TxnOffsetCommitResponse:
    """Answer with `error` for each partition that exists. The others do not exist, whatever else is wrong."""
    named = [(topic, topics.get(topic.name)) for topic in request.topics]
    outcomes = []
    for topic, meant in named:
        refused = [
            error if meant is not None and exists(each.partition_index, meant) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            for each in topic.partitions
        ]
        numbers = [each.partition_index for each in topic.partitions]
        partitions = tuple(map(TxnOffsetCommitResponsePartition, numbers, refused))
        outcomes.append(TxnOffsetCommitResponseTopic(topic.name, partitions))
    return TxnOffsetCommitResponse(topics=list_outcomes(named, outcomes))


def _take(
    topic: TxnOffsetCommitRequestTopic,
    meant: Topic | None,
    request: TxnOffsetCommitRequest,
    call: Call,
    limits: Limits,
    records: list[Record],
) -> TxnOffsetCommitResponseTopic:
    """Add a record for each partition that may be committed; say what became of each."""
    outcomes = []
    for each in topic.partitions:
        error = ErrorCode.NONE
        if meant is None or not exists(each.partition_index, meant):
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif is_too_long(each.committed_metadata, limits.offset_metadata_max_bytes):
            error = ErrorCode.OFFSET_METADATA_TOO_LARGE
        else:
            value = OffsetCommitValue(
                offset=each.committed_offset,
                leader_epoch=each.committed_leader_epoch,
                metadata=each.committed_metadata or "",
                commit_timestamp=call.now_ms,
                topic_id=meant.id,
            )
            records.append(Record(OffsetCommitKey(request.group_id, meant.name, each.partition_index), value))
        outcomes.append(TxnOffsetCommitResponsePartition(each.partition_index, error))
    return TxnOffsetCommitResponseTopic(topic.name, tuple(outcomes))
