"""The input and the output of an assignor.

An assignor is one pure function, `assign(spec) -> {member id: assignment}`. It sees who is in the group, what each
subscribes to and what each was meant to own so far, and says what each shall own. It must give the same answer to the
same question: a coordinator that recovers from its log asks again.

A third-party assignor is any such function, registered under the Python entry point group `muster.assignors` and named
in `group.consumer.assignors`. Whatever it leaves out gets nothing; what it raises fails the heartbeat that asked.
"""

from collections.abc import Callable, Mapping

import msgspec

Assignment = Mapping[bytes, tuple[int, ...]]
"""Topic id -> partitions in ascending order; no topic with no partitions."""

NOTHING: Assignment = {}


class AssignorError(Exception):
    """An assignor cannot answer. The heartbeat that needed it fails with UNKNOWN_SERVER_ERROR and changes nothing."""


class MemberSpec(msgspec.Struct, frozen=True, gc=False):
    """One member as an assignor sees it."""

    topics: tuple[bytes, ...]  # subscribed topics that exist; one shared tuple where members subscribe alike
    previous: Assignment = NOTHING  # its last target, not what it holds at the moment
    instance_id: str | None = None
    rack_id: str | None = None


class GroupSpec(msgspec.Struct, frozen=True, gc=False):
    """The whole question. The order of `members` decides ties only where Kafka's own hash order leaves them open."""

    members: Mapping[str, MemberSpec]
    partition_counts: Mapping[bytes, int]  # of every topic that any member subscribes to
    is_homogeneous: bool  # everybody subscribes to the same topics

    def partition_count(self, topic_id: bytes) -> int:
        """Return how many partitions a topic has; a topic that vanished meanwhile fails the assignment, as in Kafka."""
        count = self.partition_counts.get(topic_id)
        if count is None:
            raise AssignorError(f"members are subscribed to topic {topic_id.hex()}, which does not exist")
        return count


Assignor = Callable[[GroupSpec], Mapping[str, Assignment]]
