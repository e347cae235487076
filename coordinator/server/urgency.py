"""Which requests are decided as they arrive, and which give way to them.

A member that is late loses its partitions, so what members send goes first: two hundred clients that ask for all topics
at once must not keep it waiting for the sum of their work. Such a request is cheap, unless it is long: then it gives
way like all others. These are not late for that while the loop has time: it decides them in the same turn.
"""

from typing import Final

from protocol.apis import API_VERSIONS

URGENT: Final = frozenset({8, 11, 12, 13, 14, 68, API_VERSIONS})
"""OffsetCommit, JoinGroup, Heartbeat, LeaveGroup, SyncGroup, ConsumerGroupHeartbeat, and a client's first request."""
URGENT_KEYS: Final = frozenset(api_key.to_bytes(2, "big") for api_key in URGENT)  # the first bytes of their frames
URGENT_BYTES_MAX: Final = 16 * 1_024


def is_urgent(frame: bytes) -> bool:
    """Return whether a request is decided as it arrives."""
    return frame[:2] in URGENT_KEYS and len(frame) <= URGENT_BYTES_MAX
