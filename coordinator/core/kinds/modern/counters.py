"""Counters that are kept beside the members of a group, so that no request walks over all of them."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

MANY: Final = 100  # names, which are counted at once


def move_count(counts: Mapping[str, int], old: tuple[str, ...], new: tuple[str, ...]) -> Mapping[str, int]:
    """Return the counts with `new` added and `old` taken off."""
    if old == new:
        return counts
    after = dict(counts)
    if len(new) > MANY:
        counter = Counter(after)
        counter.update(new)
        after = dict(counter)
    else:
        for name in new:
            after[name] = after.get(name, 0) + 1
    for name in old:
        after[name] -= 1
        if not after[name]:
            del after[name]
    return after
