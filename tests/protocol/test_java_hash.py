"""Java's hash of strings, and which partition owns a group."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.java_hash import java_hash, partition_of


@pytest.mark.rule("G-030 G-032 Q-035")
@pytest.mark.parametrize(
    ("group_id", "java", "partition"),
    [
        ("", 0, 0),
        ("a", 97, 47),
        ("foo", 101574, 24),
        ("grp", 102629, 29),
        ("test-group", 627841412, 12),
        ("my-group", -1906497762, 12),
        ("console-consumer-12345", 158455506, 6),
        ("consumer-group-1", 147483020, 20),
        ("connect-cluster", 1440343063, 13),
        ("payments", 1382682413, 13),
        ("группа", 1749938458, 8),
        ("😀", 1772899, 49),
        ("polygenelubricants", -(2**31), 0),
    ],
)
def test_a_group_belongs_where_kafka_puts_it(group_id: str, java: int, partition: int) -> None:
    assert java_hash(group_id) == java
    assert partition_of(group_id, 50) == partition


@given(st.text(st.characters(), max_size=40), st.integers(0, 40))
def test_texts_of_any_length_are_hashed_unit_by_unit(text: str, times: int) -> None:
    """Lone surrogates and characters of two units as well."""
    text *= times
    expected = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        expected = (31 * expected + int.from_bytes(units[at : at + 2], "big")) % 2**32
    assert java_hash(text) % 2**32 == expected


def test_the_longest_group_id_is_hashed() -> None:
    """All lanes are as full as they can be."""
    text = "\uffff" * 32_767
    expected = 0
    for _ in text:
        expected = (31 * expected + 0xFFFF) % 2**32
    assert java_hash(text) % 2**32 == expected
