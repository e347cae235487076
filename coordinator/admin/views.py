"""Read from the node the values that operators see. Nothing here changes anything."""

from collections import Counter
from collections.abc import Generator, Iterator, Mapping
from itertools import islice
from time import monotonic
from typing import Final

from coordinator import __version__
from coordinator.admin.app import Readiness
from coordinator.core.kinds.registry import KINDS, kind_of
from coordinator.core.offsets.tally import Tally
from coordinator.core.prices import BOUNDED
from coordinator.metrics import GROUPS_MAX, OTHER, GroupOffset, Snapshot
from coordinator.runtime.node import Node
from coordinator.server.memory import memory_limit

STEP_GROUPS: Final = 500  # or offsets, that one step counts: about a millisecond
MEASURE_SECONDS: Final = 0.005  # of a scrape, to measure logs that nobody has opened since the start


def readiness(node: Node, is_ready: bool) -> Readiness:
    """Return whether all is loaded."""
    closed = {f"{topic}-{index}": reason for (topic, index), reason in node.world.dataplane.closed_partitions.items()}
    return Readiness(is_ready, node.world.partitions.loading, len(node.world.partitions), closed)


def count_in_steps(
    node: Node,
    connections: Mapping[str, int],
    recovery_seconds: float,
    started_ms: int,
    held_bytes: Mapping[str, int] | None = None,
    log_lines_dropped: int = 0,
) -> Generator[None, None, Snapshot]:
    """Count all that a scrape shows. Walks over the groups, and over as many offsets as have series of their own.

    Groups may change between two steps, so the counts are of no single moment.
    """
    groups: Counter[tuple[str, str]] = Counter()  # a series begins at zero, and stays
    members: Counter[str] = Counter()
    for kind in KINDS.values():
        groups.update(dict.fromkeys([(kind.name, state) for state in kind.seen_states], 0))
        members[kind.name] = 0
    over_s = monotonic() + MEASURE_SECONDS
    node.world.dataplane.measure(lambda: monotonic() < over_s)
    group_members: Counter[str] = Counter()
    group_generation: dict[str, int] = {}
    counted = 0
    for partition in node.world.partitions:
        for group_id, group in list(partition.shard.groups.items()):
            counted += 1
            if counted % STEP_GROUPS == 0:
                yield
            kind = kind_of(group)
            groups[kind.name, str(group.state)] += 1
            members[kind.name] += len(group.members)
            label = group_id if group_id in group_members or len(group_members) < GROUPS_MAX else OTHER
            group_members[label] += len(group.members)
            if label != OTHER:
                group_generation[label] = kind.count(group)
    group_offsets: list[GroupOffset] = []
    wanted = islice(_group_offsets(node), node.world.config["metrics.offsets.max"])
    while some := list(islice(wanted, STEP_GROUPS)):
        group_offsets += some
        yield
    loading, tally = node.world.partitions.loading, Tally()
    for partition in node.world.partitions:
        tally = tally.plus(partition.shard.tally)
    return Snapshot(
        groups=groups,
        members=members,
        group_members=group_members,
        group_generation=group_generation,
        offsets=sum([partition.shard.offsets.count for partition in node.world.partitions]),
        offset_commits=tally.commits,
        offset_expirations=tally.expirations,
        offset_deletions=tally.deletions,
        deliveries=node.world.dataplane.share.tally,
        records_in_flight=sum([partition.in_flight for partition in node.world.dataplane.share.served.values()]),
        partitions={"loading": loading, "active": len(node.world.partitions) - loading},
        group_offsets=group_offsets,
        traffic=node.world.dataplane.traffic,
        syncs=node.engine.group_commit.latency,
        disk=node.world.dataplane.space(),
        memory_limit=memory_limit(),
        partitions_closed=node.world.dataplane.closed_partitions.keys(),
        log_bytes=node.log_bytes(),
        connections=connections,
        held_bytes={
            **(held_bytes or {}),
            "groups": node.engine.memory.groups_bytes,
            "producer ids": node.world.dataplane.producers_bytes,
            "group members": node.engine.memory.members_bytes,
            "share states": node.engine.memory.states_bytes,
            "offsets": node.engine.memory.offsets_bytes,
            "group owners": node.world.partitions.owners_bytes,
            **{str(kind): node.world.ledger.catalog.held.bytes[kind] for kind in BOUNDED},
        },
        log_lines_dropped=log_lines_dropped,
        recovery_seconds=recovery_seconds,
        internal_errors=node.world.edge.failures,
        started_seconds=started_ms / 1000,
        version=__version__,
    )


def _group_offsets(node: Node) -> Iterator[GroupOffset]:
    """Yield the committed offsets with their lag, always in the same order: a series that has begun goes on."""
    end_offset = node.world.dataplane.end_offset
    for partition in node.world.partitions:
        offsets = partition.shard.offsets
        for group_id in list(offsets.groups()):
            for topic, committed in list(offsets.of_group(group_id).items()):
                for index, one in list(committed.items()):
                    end = end_offset(topic, index)
                    lag = None if end is None else end - one.offset
                    yield GroupOffset(group_id, topic, index, one.offset, lag)
