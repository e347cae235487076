"""What values weigh in memory, by the short way and by the long one."""

import pytest

from coordinator.core.weights import OBJECT_BYTES, SLOT_BYTES, weigh


@pytest.mark.parametrize("partitions", [{"a": (1,)}, {"ab": (1, 2), "c": ()}, {b"x" * 16: (1, 2, 3), b"y" * 16: (7,)}])
def test_partitions_by_name_weigh_what_their_parts_do(partitions: dict[str | bytes, tuple[int, ...]]) -> None:
    parts = [4 * SLOT_BYTES + weigh(name) + weigh(numbers) for name, numbers in partitions.items()]
    assert weigh(partitions) == OBJECT_BYTES + sum(parts)
