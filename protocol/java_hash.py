"""Java's `String.hashCode`: where Kafka keeps a group, and the order of its hash maps, follow from it."""

from functools import cache
from struct import Struct
from typing import Final

SHORT_UNITS: Final = 256  # most texts are shorter; the masks of longer ones, 256 KiB, are made with the first of them
UNITS_MAX: Final = 33_024
"""Of a text that is hashed: a string of the protocol has at most 32,767 bytes, and the name of a share partition is
that of its group with 35 characters more."""

_POWERS: Final = [pow(31, exponent, 1 << 32) for exponent in range(17)]
_LANE: Final = Struct(">28xI")  # the low 32 bits of a lane of sixteen units


@cache
def _folds(units: int) -> list[tuple[int, int, int]]:
    """Return the folds of a text of up to so many units: bits of a lane, the power of 31, and a mask of right lanes."""
    return [(bits, _POWERS[bits // 16], _right_lanes(bits, units)) for bits in (16, 32, 64, 128)]


def _right_lanes(bits: int, units: int) -> int:
    """Return a mask of every second lane of `bits` bits, beginning with the lowest."""
    pair = bytes(bits // 8) + b"\xff" * (bits // 8)
    return int.from_bytes(pair * (units * 2 // len(pair)), "big")


def java_hash(text: str) -> int:
    """Return Java's `String.hashCode()`: the polynomial in 31 over UTF-16 units, in signed 32 bits.

    The text is one integer whose lanes of 16 bits are its units. A fold makes one lane of two neighbours:
    left * 31**n + right, where n is the number of units in the right one. After four folds a lane holds sixteen units,
    which takes an eighth of the time of a loop over the units of a long text.
    """
    assert len(text) <= UNITS_MAX, "a string of the protocol has at most 32,767 bytes, and a name hardly more"
    units = text.encode("utf-16-be", "surrogatepass")
    lanes = int.from_bytes(units, "big")
    for bits, power, mask in _folds(SHORT_UNITS if len(units) <= 2 * SHORT_UNITS else UNITS_MAX):
        lanes = ((lanes >> bits) & mask) * power + (lanes & mask)
    number = 0
    for (lane,) in _LANE.iter_unpack(lanes.to_bytes(-(-lanes.bit_length() // 256) * 32, "big")):
        number = (number * _POWERS[16] + lane) & 0xFFFFFFFF
    return number - (1 << 32) if number >> 31 else number


def partition_of(group_id: str, partitions: int) -> int:
    """Find the partition of a group as Kafka does: |hash| modulo their number, where |-2**31| is 0 (G-030)."""
    number = java_hash(group_id)
    return (0 if number == -(1 << 31) else abs(number)) % partitions
