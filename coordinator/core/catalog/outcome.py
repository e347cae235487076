"""What a request to the catalog or about a transaction leads to: an answer, facts for the log, markers to write."""

from typing import Any, Final

from msgspec import Struct

from coordinator.core.catalog.records import CatalogRecord

COORDINATOR_EPOCH: Final = 0  # what each marker says of who wrote it: there is one coordinator, and it never moves


class Markers(Struct, frozen=True):
    """Write the end of a transaction into each of its partitions; then the transaction is complete.

    The fact that it ends so is among the records that come with this, and must be in the log before any marker is:
    what a crash leaves half done is then done again at start.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool
    partitions: tuple[tuple[str, int], ...]  # topic and partition; those of `__consumer_offsets` end offsets


class Outcome(Struct, frozen=True):
    """The answer, the facts in their order, and the markers that follow them."""

    response: Any = None
    records: tuple[CatalogRecord, ...] = ()
    markers: tuple[Markers, ...] = ()
