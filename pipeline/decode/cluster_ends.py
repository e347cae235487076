"""Where the topics of a cluster end, and ended before: asked by ListOffsets, so that lag has a history."""

from typing import Final

from coordinator.client.cluster import Cluster
from coordinator.client.offsets import EARLIEST, LATEST, list_offsets
from pipeline.decode.cluster import TIMEOUT_S, address_of
from pipeline.decode.ends import End
from pipeline.errors import UsageError

STEP_MS: Final = 1_800_000
STEPS: Final = 48  # back from when the groups' logs were read: a day


def check(uri: str) -> None:
    """Raise ClientError where the cluster cannot be asked, UsageError where it has no topic that the user may
    describe."""
    addresses, security = address_of(uri)
    with Cluster(addresses, TIMEOUT_S, security) as cluster:
        if not _partitions(cluster):
            raise UsageError(
                f"kafka://{','.join(addresses)} tells no log end: it has no topic that this user may describe"
            )


def _partitions(cluster: Cluster) -> list[tuple[str, int]]:
    return [
        (str(topic.name), one.partition_index)
        for topic in cluster.metadata(None).topics
        if not topic.is_internal and not topic.error_code
        for one in topic.partitions
    ]


def list_ends(uri: str, read_ms: int) -> list[End]:
    """Return the ends of every topic that the user may describe: now, and as far as records show it before.

    What was written after the groups' logs were read (`read_ms`) is left out: it would look like lag. At a time before,
    a partition ended at the first record of that time or a later one. Raises ClientError.
    """
    addresses, security = address_of(uri)
    with Cluster(addresses, TIMEOUT_S, security) as cluster:
        partitions = _partitions(cluster)
        begins, ends = (list_offsets(cluster, partitions, at) for at in (EARLIEST, LATEST))
        found = []
        for ts in range(read_ms - STEPS * STEP_MS, read_ms + 1, STEP_MS):
            for (topic, partition), offset in list_offsets(cluster, partitions, ts).items():
                leo = ends.get((topic, partition), -1) if offset < 0 else offset
                # At the beginning of a log whose first records are gone, its end of that time is not known.
                if leo > begins.get((topic, partition), leo) or leo == 0:
                    found.append(End(topic, partition, ts, leo, "list_offsets"))
    return found
