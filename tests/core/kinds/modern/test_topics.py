"""XXH3 against the hash that Kafka uses (hash4j), in each of its lengths, and a topic hashed as Kafka hashes it."""

import pytest
from xxhash import xxh3_64_intdigest

from coordinator.core.kinds.modern.topics import topic_bytes
from coordinator.core.topics import Topic

# Of the bytes (7 i + n) mod 256 for i below n, as Kafka's library hashes them.
KNOWN = {
    0: 3244421341483603138, 1: 16226181191752404715, 2: 3724619060873665926, 3: 12180141160879835164,
    4: 6297312323375345790, 5: 2565845316291143453, 7: 5729351036430577319, 8: 12752855198315354378,
    9: 10000907846553926702, 12: 13493662757664391912, 16: 3159599325006435930, 17: 7070371635116224842,
    31: 2053882885601730627, 32: 9876767123032657305, 33: 13175479875485247564, 64: 1953419934939160347,
    65: 17294807227940740292, 96: 14966057553054199593, 97: 16231356406767973594, 128: 16813233705924465638,
    129: 13063484349860316345, 160: 9911852214732367298, 200: 7350251351420641343, 239: 3569128420754416473,
    240: 4473034316189165092, 241: 13654115510048419178, 256: 18400051043315964857, 300: 4044510628947536213,
    511: 9551517275806572543, 512: 17797752143322522092, 1023: 578133351087105188, 1024: 15878231082470753371,
    1025: 14435947017053915143, 1088: 1926298949930276695, 2047: 8261891136295986795, 2048: 9551330843961554072,
    3000: 13209346457727591119,
}  # fmt: skip


@pytest.mark.rule("K-103")
@pytest.mark.parametrize("size", KNOWN)
def test_it_hashes_as_kafka_s_library_does(size: int) -> None:
    assert xxh3_64_intdigest(bytes((7 * i + size) & 255 for i in range(size))) == KNOWN[size]


@pytest.mark.rule("K-103")
def test_a_topic_s_bytes_are_kafka_s() -> None:
    """A magic byte, the id's halves, the name in UTF-16 with its length, the partitions one by one."""
    topic = Topic("größe", (1).to_bytes(8, "big") + (-2 % 2**64).to_bytes(8, "big"), 2)
    assert xxh3_64_intdigest(topic_bytes(topic)) == 3435300609145365743
