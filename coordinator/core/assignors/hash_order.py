"""The order in which Kafka's assignors walk their hash maps.

Kafka's uniform assignor walks members, topics and partitions in the order of a Java HashMap, and that order decides who
gets an odd partition and which surplus ones move. It is written down nowhere, yet it is a function of the keys and of
the table's size, so we walk in the same order and a partition falls to the member that Kafka would have given it to.

A HashMap has 2^k buckets; a key sits in bucket `(h ^ h >>> 16) & (2^k - 1)`, and keys of one bucket stay in the order
of their insertion, which is the order in which they are handed in here. Two things are out of reach: a running Kafka
inserts members in the order of yet another table, which its history decides, so two members of one bucket may change
places; and buckets of nine keys and more become trees with an order of their own (one bucket in ten million).
Table sizes are those of Java 17; from Java 19 on, copies of exactly 12, 24, 48 ... keys take a table half as big.
"""

from collections.abc import Iterable
from functools import lru_cache

from coordinator.core.decision import Steps
from coordinator.core.pace import Pace
from protocol.java_hash import java_hash

_MASK = 0xFFFFFFFF


@lru_cache(maxsize=1 << 16)
def string_hash(text: str) -> int:
    """Return `String.hashCode` as an unsigned number, spread as HashMap spreads it."""
    code = java_hash(text) & _MASK
    return code ^ code >> 16


def uuid_hash(topic_id: bytes) -> int:
    """Return the hash code of Kafka's Uuid as an unsigned number, spread as HashMap spreads it."""
    whole = int.from_bytes(topic_id, "big")
    half = whole >> 64 ^ whole & 0xFFFFFFFFFFFFFFFF
    total = half >> 32 ^ half & _MASK
    return total ^ total >> 16


def buckets_after_inserts(count: int) -> int:
    """Buckets of a HashMap into which `count` keys were put one by one."""
    size = 16
    while count * 4 > size * 3:
        size *= 2
    return size


def buckets_after_copy(count: int) -> int:
    """Buckets of a HashSet made from a collection of `count` keys."""
    wanted = max(count * 4 // 3 + 1, 16)
    return 1 << (wanted - 1).bit_length()


def buckets_with_capacity(capacity: int, count: int) -> int:
    """Buckets of a HashMap that was made for `capacity` keys and into which `count` were put."""
    size = 1 << (max(capacity, 1) - 1).bit_length()
    while count * 4 > size * 3:
        size *= 2
    return size


def members_in_order(member_ids: Iterable[str]) -> list[str]:
    """Member ids as a HashMap filled in the given order yields them."""
    ids = list(member_ids)
    return names_in_order(ids, buckets_after_inserts(len(ids)))


def order_members(member_ids: Iterable[str]) -> Steps[list[str]]:
    """Return the same, in steps: each id is hashed before, and its hash is remembered."""
    ids, pace = list(member_ids), Pace()
    for member_id in ids:
        if pace.is_due():
            yield
        string_hash(member_id)
    return members_in_order(ids)


def names_in_order(ids: list[str], bucket_count: int) -> list[str]:
    """Strings as a HashMap of so many buckets yields them."""
    mask = bucket_count - 1
    buckets = [hashed & mask for hashed in map(string_hash, ids)]
    return list(map(ids.__getitem__, sorted(range(len(ids)), key=buckets.__getitem__)))


def topics_in_order(topic_ids: Iterable[bytes], *, copied: bool) -> list[bytes]:
    """Topic ids as a HashSet copied at once (`copied`), or a HashMap filled one by one, yields them."""
    ids = list(topic_ids)
    if len(ids) < 2:
        return ids
    mask = (buckets_after_copy if copied else buckets_after_inserts)(len(ids)) - 1
    return sorted(ids, key=lambda topic_id: uuid_hash(topic_id) & mask)


def partitions_in_order(partitions: tuple[int, ...]) -> tuple[int, ...]:
    """Ascending partitions as a HashSet of them yields them: ascending too unless their numbers exceed its size."""
    mask = buckets_after_copy(len(partitions)) - 1
    if not partitions or partitions[-1] <= mask:
        return partitions
    return tuple(sorted(partitions, key=lambda partition: (partition ^ partition >> 16) & mask))
