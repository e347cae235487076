"""The bytes of memory that values take: fields of records, members of groups. Estimates, the same each time."""

from collections.abc import Collection, Iterable, Mapping
from sys import getsizeof
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import astuple

from coordinator.core.table import Table

NUMBER_BYTES: Final = 32
SLOT_BYTES: Final = 8
TEXT_BYTES: Final = 49
CHARACTER_BYTES: Final = 5  # of a text that is not plain ASCII, with the bytes that Python keeps once it was encoded
OBJECT_BYTES: Final = 56
MANY: Final = 100  # texts, which are weighed at once: topics that a member subscribes to
ENTRY_BYTES: Final = 128  # of a table, with what is beside it: timers, indexes by instance or topic
_OF_ANY: Final[dict[type, int]] = {type(None): 0, bool: 0, int: NUMBER_BYTES}  # what each value of a type weighs
_NOBODY: Final[Table[str, Any]] = Table()


def weigh_text(text: str) -> int:
    """Return the bytes of a text, always the same: by `getsizeof`, it grows when it is encoded."""
    return TEXT_BYTES + len(text) * (1 if text.isascii() else CHARACTER_BYTES)


def weigh_texts(texts: Collection[str]) -> int:
    """Return what several texts weigh together. Plain ASCII, as nearly all of them are, is weighed at once."""
    joined = "".join(texts)
    return TEXT_BYTES * len(texts) + len(joined) if joined.isascii() else sum(map(weigh_text, texts))


def weigh(value: Any) -> int:
    """Return the bytes of memory that a value takes with all that is in it."""
    return _weigh_all([value])


def _weigh_all(values: list[Any]) -> int:
    """Return what several values weigh together, and use up the list: a loop costs a third of a call for each value."""
    total, take, same = 0, values.pop, _OF_ANY.get
    while values:
        value = take()
        kind = type(value)
        if (of_any := same(kind)) is not None:
            total += of_any
        elif kind is str:
            total += TEXT_BYTES + len(value) * (1 if value.isascii() else CHARACTER_BYTES)
        elif kind is bytes:
            total += getsizeof(value)
        elif kind is tuple or kind is frozenset:
            total += OBJECT_BYTES + len(value) * SLOT_BYTES
            first = next(iter(value), None)
            if type(first) is int:
                total += len(value) * NUMBER_BYTES
            elif len(value) > MANY and (characters := _count_plain(value)):
                total += len(value) * TEXT_BYTES + characters
            else:
                values += value
        elif isinstance(value, Struct):
            fields = astuple(value)
            total += OBJECT_BYTES + len(fields) * SLOT_BYTES
            values += fields
        elif kind is dict or isinstance(value, Mapping):  # to ask whether it is one costs more than all else
            total += OBJECT_BYTES + len(value) * 4 * SLOT_BYTES
            if not value:
                continue
            values += value
            if (numbers := _count_numbers(value)) is None:
                values += value.values()
            else:
                total += len(value) * OBJECT_BYTES + numbers * (SLOT_BYTES + NUMBER_BYTES)
        else:
            total += _OF_ANY.setdefault(kind, NUMBER_BYTES)
    return total


def _count_plain(values: Iterable[Any]) -> int:
    """Return how many characters some values have, if all are texts in plain ASCII; else 0."""
    try:
        joined = "".join(values)
    except TypeError:
        return 0
    return len(joined) if joined.isascii() else 0


def _count_numbers(value: Mapping[Any, Any]) -> int | None:
    """Return how many partitions a mapping has by topic or subtopology, None if it is another mapping: if the first of
    its values has numbers, all have."""
    key, first = next(iter(value.items()), (None, None))
    if type(first) is tuple and first and type(first[0]) is int and type(key) in (str, bytes):
        return sum(map(len, value.values()))
    return None


def weigh_change(old: Any, new: Any, names: Iterable[str]) -> int:
    """Return how many bytes more these attributes of a group take after `old` became `new`. Either may be None."""
    change = 0
    for name in names:
        had, has = getattr(old, name, None), getattr(new, name, None)
        if had is has:
            continue
        if type(had) is not Table and type(has) is not Table:
            change += weigh(has) - weigh(had)
            continue
        for was, now in (_NOBODY if has is None else has).differences(_NOBODY if had is None else had):
            if was is None or now is None:
                change += 0 if now is None else ENTRY_BYTES + weigh(now)
                change -= 0 if was is None else ENTRY_BYTES + weigh(was)
            else:
                change += _weigh_replacement(was, now)
    return change


def _weigh_replacement(was: Any, now: Any) -> int:
    """Return how many bytes more one value takes than another, of which most fields are mostly the same objects."""
    if type(was) is not type(now) or not isinstance(was, Struct):
        return weigh(now) - weigh(was)
    gone, come, same = [], [], _OF_ANY.get
    for old, new in zip(astuple(was), astuple(now), strict=True):
        if old is not new and (same(type(old)) is None or same(type(old)) != same(type(new))):
            gone.append(old)
            come.append(new)
    return _weigh_all(come) - _weigh_all(gone) if come else 0
