"""A commit may ask for any retention (OffsetCommit 2 to 4), up to the largest number."""

import pytest

from tests.requests import commit, fetch_offsets
from tests.server.in_memory import InMemory


@pytest.mark.parametrize("retention_ms", [2**63 - 1, 2**63 - 1_700_000_000_000])
def test_the_longest_retention_is_for_ever(retention_ms: int) -> None:
    server = InMemory()
    peer = server.connect()
    answer = peer.ask(commit("g", {"orders": {0: 5}}, retention_time_ms=retention_ms), 2)
    assert answer.topics[0].partitions[0].error_code == 0
    server.advance(365 * 86_400)
    server.advance(1)
    (group,) = peer.ask(fetch_offsets("g", {"orders": (0,)}), 8).groups
    assert group.topics[0].partitions[0].committed_offset == 5
