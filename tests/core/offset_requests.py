"""Requests that commit offsets, from what they commit: `{"orders": {0: 5}}` is offset 5 of partition 0."""

from collections.abc import Mapping
from typing import Any

from protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

Offsets = Mapping[str, Mapping[int, int]]


def commit(group: str, offsets: Offsets, generation: int = -1, **fields: Any) -> OffsetCommitRequest:
    """An OffsetCommit; without a generation it is that of a tool, which is no member."""
    topics = tuple(
        OffsetCommitRequestTopic(name, partitions=tuple(OffsetCommitRequestPartition(*each) for each in parts.items()))
        for name, parts in offsets.items()
    )
    return OffsetCommitRequest(group, generation, topics=topics, **fields)


def commit_in_transaction(
    transactional_id: str, group: str, producer: tuple[int, int], offsets: Offsets
) -> TxnOffsetCommitRequest:
    """A TxnOffsetCommit of a producer id and its epoch."""
    topics = tuple(
        TxnOffsetCommitRequestTopic(name, tuple(TxnOffsetCommitRequestPartition(*each) for each in parts.items()))
        for name, parts in offsets.items()
    )
    return TxnOffsetCommitRequest(transactional_id, group, *producer, topics=topics)
