"""How the response to a commit lists its topics: as Kafka's broker puts together what it and its coordinator say."""

from collections.abc import Sequence
from typing import TypeVar

from msgspec.structs import replace

from coordinator.core.offsets.validation import exists
from coordinator.core.topics import Topic
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import OffsetCommitRequestTopic, OffsetCommitResponseTopic
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequestTopic, TxnOffsetCommitResponseTopic

Asked = OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic
Outcome = TypeVar("Outcome", OffsetCommitResponseTopic, TxnOffsetCommitResponseTopic)


def list_outcomes(
    named: Sequence[tuple[Asked, Topic | ErrorCode | None]], outcomes: Sequence[Outcome]
) -> tuple[Outcome, ...]:
    """List the outcomes of the topics of a request.

    A topic of which it names no partition is left out. One that it names twice has one entry if the broker has refused
    some partition because it does not exist, and two else: the coordinator does not join them.
    Kafka: `OffsetCommitResponse.Builder.merge`.
    """
    shown = [
        one
        for (asked, meant), one in zip(named, outcomes, strict=True)
        if asked.partitions or not isinstance(meant, Topic)
    ]
    if all(_has_all(asked, meant) for asked, meant in named):
        return tuple(shown)
    joined: dict[str | bytes, Outcome] = {}
    for one in shown:
        key = one.name or (one.topic_id if isinstance(one, OffsetCommitResponseTopic) else b"")
        seen = joined.get(key)
        joined[key] = one if seen is None else replace(seen, partitions=seen.partitions + one.partitions)
    return tuple(joined.values())


def _has_all(asked: Asked, meant: Topic | ErrorCode | None) -> bool:
    return isinstance(meant, Topic) and all(exists(each.partition_index, meant) for each in asked.partitions)
