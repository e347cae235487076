"""Cut what a command asks for into as many requests as it needs: each can hold only so much. Not a subcommand."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

ENTRIES_MAX: Final = 500  # of a request
PARTITIONS_MAX: Final = 10_000  # that a request may create. Kafka: `ReplicationControlManager.MAX_PARTITIONS_PER_BATCH`


def cut(entries: Sequence[T], partitions_of: Callable[[T], int] = lambda _: 0) -> Iterator[tuple[T, ...]]:
    """Yield entries, those of a request at a time; `partitions_of` says how many partitions one of them creates."""
    portion: list[T] = []
    partitions = 0
    for entry in entries:
        more = max(partitions_of(entry), 0)
        if portion and (len(portion) == ENTRIES_MAX or partitions + more > PARTITIONS_MAX):
            yield tuple(portion)
            portion, partitions = [], 0
        portion.append(entry)
        partitions += more
    if portion:
        yield tuple(portion)
