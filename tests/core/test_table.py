"""A table against a dict, and that the old one stays true."""

import weakref
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.core.table import Table

Change = tuple[str, int, int]
CHANGES = st.lists(
    st.tuples(st.sampled_from(["having", "without"]), st.integers(0, 150), st.integers(1, 9)), max_size=120
)


def changed(table: Table[int, int], model: dict[int, int], change: Change) -> tuple[Table[int, int], dict[int, int]]:
    what, key, value = change
    if what == "having":
        return table.with_item(key, value), model | {key: value}
    return table.without_key(key), {at: each for at, each in model.items() if at != key}


@given(st.integers(0, 140), CHANGES)
def test_a_table_is_a_dict(size: int, changes: list[Change]) -> None:
    model = {number: number + 1 for number in range(size)}
    table: Table[int, int] = Table(model)
    before: list[tuple[Any, Any]] = []
    for change in changes:
        before.append((table, model))
        table, model = changed(table, model, change)
        key = change[1]
        assert table.get(key) == model.get(key)
        assert (key in table) == (key in model)
        assert len(table) == len(model)
        first = table.first()
        assert (first in model) if model else (first is None)
    assert dict(table.items()) == model
    assert list(table) == [key for key, _ in table.items()]
    for old, as_it_was in before[:: max(1, len(before) // 5)]:
        assert dict(old.items()) == as_it_was


@given(st.integers(0, 140), CHANGES, CHANGES)
def test_differences_are_those_of_dicts(size: int, some: list[Change], more: list[Change]) -> None:
    """However the two tables are kept: with a dict in common, with changes beside it, or each with its own."""
    numbers = {number: object() for number in range(200)}
    table: Table[int, object] = Table({number: numbers[number] for number in range(size)})
    tables = [table]
    for what, key, value in (*some, *more):
        table = table.with_item(key, numbers[key + value]) if what == "having" else table.without_key(key)
        tables.append(table)
    for before in (Table(), tables[0], *tables[: len(some)][-2:], *tables[-4:]):
        expected = {
            key: (before.get(key), table.get(key))
            for key in {**dict(before.items()), **dict(table.items())}
            if before.get(key) is not table.get(key)
        }
        found = list(table.differences(before))
        assert sorted(map(repr, found)) == sorted(map(repr, expected.values()))


@given(st.integers(0, 140))
def test_looking_up_what_is_not_there(size: int) -> None:
    table: Table[int, int] = Table(dict.fromkeys(range(size), 1)).without_key(0)
    for missing in (0, -1):
        assert table.get(missing, "nothing") == "nothing"
        with pytest.raises(KeyError):
            table[missing]


def test_order_is_that_of_insertion() -> None:
    table: Table[int, int] = Table()
    for number in range(200):
        table = table.with_item(number, 1)
    table = table.without_key(7).with_item(3, 2).with_item(500, 1)
    assert list(table) == [number for number in range(200) if number != 7] + [500]
    assert table.first() == 0
    assert repr(Table({1: 2})) == "Table({1: 2})"
    assert table.without_key(4711) is table


def test_the_first_of_a_large_table_may_be_new() -> None:
    table: Table[int, int] = Table(dict.fromkeys(range(70), 1))
    for number in range(60):
        table = table.without_key(number)
    assert table.first() == 60
    for number in range(60, 70):
        table = table.without_key(number)
    assert (table.first(), len(table)) == (None, 0)
    assert table.with_item(99, 1).first() == 99


def test_a_key_that_was_removed_is_held_no_longer() -> None:
    class Key(str):
        """A name that says when it is freed."""

    key = Key("a")
    freed = weakref.ref(key)
    table = Table[str, int]().with_item("b", 1).with_item(key, 1).without_key(key)
    del key
    assert freed() is None
    assert list(table) == ["b"]
