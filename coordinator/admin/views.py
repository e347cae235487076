"""What operators see: values read off the node at the moment of asking. Changes nothing."""

from collections import Counter
from collections.abc import Mapping

from coordinator import __version__
from coordinator.admin.app import Readiness
from coordinator.core.classic.group import ClassicGroup
from coordinator.core.offsets.tally import Tally
from coordinator.metrics import GROUPS_MAX, OTHER, Snapshot
from coordinator.runtime.node import Node


def readiness(node: Node, is_ready: bool) -> Readiness:
    """Whether all is loaded."""
    closed = {f"{topic}-{index}": reason for (topic, index), reason in node.dataplane.closed.items()}
    return Readiness(is_ready, node.loading, len(node.partitions), closed)


def snapshot(
    node: Node,
    connections: Mapping[str, int],
    recovery_seconds: float,
    started_ms: int,
    held_bytes: Mapping[str, int] | None = None,
    log_lines_dropped: int = 0,
) -> Snapshot:
    """Count all that a scrape shows. Walks over the groups, and not over their offsets."""
    groups: Counter[tuple[str, str]] = Counter()
    members: Counter[str] = Counter()
    group_members: Counter[str] = Counter()
    group_generation: dict[str, int] = {}
    offsets = 0
    tally = Tally()
    for partition in node.partitions:
        offsets += partition.shard.offsets.count
        tally = tally.plus(partition.shard.tally)
        for group_id, group in partition.shard.groups.items():
            if isinstance(group, ClassicGroup):
                protocol, generation = "classic", group.generation
            else:
                protocol, generation = "consumer", group.epoch
            groups[protocol, str(group.state)] += 1
            members[protocol] += len(group.members)
            label = group_id if group_id in group_members or len(group_members) < GROUPS_MAX else OTHER
            group_members[label] += len(group.members)
            if label != OTHER:
                group_generation[label] = generation
    loading = node.loading
    return Snapshot(
        groups=groups,
        members=members,
        group_members=group_members,
        group_generation=group_generation,
        offsets=offsets,
        offset_commits=tally.commits,
        offset_expirations=tally.expirations,
        offset_deletions=tally.deletions,
        partitions={"loading": loading, "active": len(node.partitions) - loading},
        partitions_closed=len(node.dataplane.closed),
        log_bytes=node.log_bytes(),
        connections=connections,
        held_bytes={**(held_bytes or {}), "groups": node.groups_bytes, "group owners": node.partitions.owners_bytes},
        log_lines_dropped=log_lines_dropped,
        recovery_seconds=recovery_seconds,
        internal_errors=node.edge.failures,
        started_seconds=started_ms / 1000,
        version=__version__,
    )
