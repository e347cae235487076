"""The groups whose partition is remembered."""

from tests.server.in_memory import InMemory


def test_the_memory_of_group_ids_whose_partition_is_known_is_bounded() -> None:
    partitions = InMemory(group_owners_max_bytes=100_000).node.world.partitions
    for number in range(1_000):
        partitions.owner(f"{number:x>1000}")
        assert partitions.owners_bytes <= 100_000
    assert 0 < len(partitions._owners) < 100
