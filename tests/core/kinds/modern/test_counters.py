"""Counters beside the members of a group, against a count over all of them."""

from collections import Counter
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.kinds.modern.counters import MANY, move_count

NAMES = [f"t{number}" for number in range(2 * MANY)]
SUBSCRIPTIONS = st.sampled_from([(), ("t0",), ("t0", "t1"), *(tuple(NAMES[:size]) for size in (MANY, MANY + 1, 150))])


@given(st.lists(st.tuples(st.integers(0, 2), SUBSCRIPTIONS), max_size=12))
def test_names_are_counted_once_for_each_member(changes: list[tuple[int, tuple[str, ...]]]) -> None:
    """Many names are counted another way than few."""
    counts: Mapping[str, int] = {}
    members: dict[int, tuple[str, ...]] = {}
    for member, names in changes:
        before = dict(counts)
        after = move_count(counts, members.get(member, ()), names)
        assert counts == before, "the old counts stay as they are"
        members[member], counts = names, after
        assert counts == Counter(name for each in members.values() for name in each)
