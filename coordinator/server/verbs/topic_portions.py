"""Cut topics that are to be deleted into portions: each is decided in one step, and clients are served between two."""

from collections.abc import Iterator, Mapping

from coordinator.core.result import STEP_ENTRIES


def cut_topics(partitions: Mapping[str, int]) -> Iterator[tuple[str, ...]]:
    """Yield the names of topics that are to be deleted, given their partitions."""
    names: list[str] = []
    size = 0
    for name, count in partitions.items():
        if names and size + count >= STEP_ENTRIES:
            yield tuple(names)
            names, size = [], 0
        names.append(name)
        size += count
    if names:
        yield tuple(names)
