"""Which requests make the members or the offsets of a group take more memory, told before they are decided.

Where there is no room for more, those are refused, and what keeps a group going is not. Which of its requests bring
members, metadata or assignments, each kind of groups says (`Kind.grows`).
"""

from typing import Any, Final

from coordinator.core.offsets.validation import resolve_topic
from coordinator.core.weights import weigh
from protocol.errors import ErrorCode
from protocol.messages.offset_commit import OffsetCommitRequest
from protocol.messages.txn_offset_commit import TxnOffsetCommitRequest


def brings_more(group: Any, member_id: str, brought: Any) -> bool:
    """Return whether a member is new, or brings more than it has."""
    known = None if group is None else group.members.get(member_id)
    return known is None or (brought is not None and weigh(brought) > weigh(known))


class Shortage:
    """What there is no room for any more, in all shards together. Looked at before each request of a group."""

    __slots__ = ("is_any", "of_members", "of_offsets")

    def __init__(self) -> None:
        self.is_any = self.of_members = self.of_offsets = False

    def note(self, *, of_members: bool, of_offsets: bool) -> None:
        """Note what there is a shortage of."""
        self.of_members, self.of_offsets = of_members, of_offsets
        self.is_any = of_members or of_offsets


def names_new_offsets(request: OffsetCommitRequest | TxnOffsetCommitRequest, version: int, shard: Any) -> bool:
    """Return whether a commit has an offset more than its group, or metadata. One in a transaction always has more."""
    if isinstance(request, TxnOffsetCommitRequest):
        return True
    for topic in request.topics:
        meant = resolve_topic(topic, version, shard.topics)
        if isinstance(meant, ErrorCode):
            continue
        known = shard.offsets.of_topic(request.group_id, meant.name)
        for each in topic.partitions:
            if each.partition_index not in known or each.committed_metadata:
                return True
    return False


COMMITS: Final = frozenset({OffsetCommitRequest, TxnOffsetCommitRequest})
"""The requests that can bring more offsets."""
