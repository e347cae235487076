"""What values weigh in memory, by the short way and by the long one."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.kinds.classic.group import Member, weigh_member
from coordinator.core.weights import ENTRY_BYTES, OBJECT_BYTES, SLOT_BYTES, weigh


@pytest.mark.parametrize("partitions", [{"a": (1,)}, {"ab": (1, 2), "c": ()}, {b"x" * 16: (1, 2, 3), b"y" * 16: (7,)}])
def test_partitions_by_name_weigh_what_their_parts_do(partitions: dict[str | bytes, tuple[int, ...]]) -> None:
    parts = [4 * SLOT_BYTES + weigh(name) + weigh(numbers) for name, numbers in partitions.items()]
    assert weigh(partitions) == OBJECT_BYTES + sum(parts)


@pytest.mark.parametrize("text", ["plain", "größe", "世界"])
def test_a_text_weighs_the_same_once_it_was_encoded(text: str) -> None:
    """What a member was counted with when it came is what it is counted with when it goes."""
    name = text[:-1] + text[-1]  # not an object that was encoded before
    before = weigh((name,))
    msgspec.json.encode(name)
    assert weigh((name,)) == before


TEXTS = st.sampled_from(("", "a-1", "größe " * 50, "x" * 900))
BYTES = st.integers(0, 3_000).map(bytes)
PROTOCOLS = st.lists(st.tuples(TEXTS, BYTES), max_size=4).map(tuple)
MEMBERS = st.builds(Member, TEXTS, TEXTS, TEXTS, st.just(6_000), st.just(60_000), PROTOCOLS, st.none() | TEXTS, BYTES)


@given(MEMBERS)
def test_a_classic_member_weighs_by_the_short_way_what_its_fields_do(member: Member) -> None:
    """It is counted as with numbers and tickets everywhere, so somewhat more."""
    assert 0 <= weigh_member(member) - ENTRY_BYTES - weigh(member) <= 200
