"""What a frame may claim and what reading it may cost: the numbers that keep hostile bytes harmless.

The values read from a frame may take so many times its bytes of memory: elements of arrays, and what is inside them,
are charged to a budget by the prices below, before they are made. What a schema names once is not charged; it costs
little more than its bytes.
"""

from __future__ import annotations

BUDGET_FLOOR = 4 << 20  # bytes of memory that any frame may cost, however short it is
BUDGET_CEILING = 24 << 20  # and that no frame may, however long it is
BUDGET_RATIO = 15  # between them: so many times the frame's bytes; with the frame's own bytes copied, at most 16
"""Only requests of `Trait.LARGE`, in which a group may name a hundred thousand partitions, get more than the floor.
All others get the floor, however long they are: that is more than ten thousand topics, groups or resources, and each
element costs time later on."""

SCALAR_HEAP = 32  # an int or a float
UUID_HEAP = 64  # 16 bytes as an object
TEXT_HEAP = 64  # a str, beside its bytes
WIDE_HEAP, WIDE_HEAP_PER_BYTE = 16, 3  # more, if not all is ASCII: one wide character makes all of them take four bytes
BLOB_HEAP = 48  # bytes, beside their content, which is the frame's own size at most
ARRAY_HEAP, SLOT_HEAP = 48, 16  # a tuple; an entry in it, and in the list that it is made of
NESTED_HEAP = 48
"""An element's own array, even an empty one, beside what is in it. It takes less memory, but as much time to read as an
element of that price."""

STEP_BYTES = 4 << 10
"""Of a long frame that are decoded before others may have their turn: one or two milliseconds where they are the
smallest elements. An array of numbers is read at once: the budget lets through half a million, in some 10 ms."""

TEXT_BYTES_MAX = 0x7FFF  # Kafka's own limit, of compact strings as well
TAGS_MAX = 1024  # in one section; Kafka's messages define fewer than ten
UVARINT_MAX = 0xFFFFFFFF


RESPONSE_RATIO = 40
"""Of a response, which a client has asked for: there is no ceiling, and large topics and groups cost more than what any
frame may."""


class OverBudget(ValueError):  # noqa: N818 - reads as the fact that it is
    """The values read from a frame would cost more memory than it may."""


def budget_of(frame_bytes: int) -> int:
    """Return how many bytes of memory the values read from so long a frame may cost."""
    return min(max(BUDGET_FLOOR, BUDGET_RATIO * frame_bytes), BUDGET_CEILING)


def response_budget_of(frame_bytes: int) -> int:
    """Return the same for a response."""
    return max(BUDGET_FLOOR, RESPONSE_RATIO * frame_bytes)
