"""Which requests are decided as they arrive, and which give way to them.

A member that is late loses its partitions, so what members send goes first: two hundred clients that ask for all topics
at once must not keep it waiting for the sum of their work. Such a request is cheap, unless it is long: then it gives
way like all others. These are not late for that while the loop has time: it decides them in the same turn.
"""

from typing import Final

from protocol.apis import API_VERSIONS

_URGENT: Final = dict.fromkeys((8, 11, 12, 13, 14, 68, 17, API_VERSIONS, 36), 16 * 1_024)
"""OffsetCommit, JoinGroup, Heartbeat, LeaveGroup, SyncGroup, ConsumerGroupHeartbeat, and the first requests of a
client, SaslHandshake, ApiVersions and SaslAuthenticate, up to so many bytes."""
_FETCH: Final = {9: 512}
"""OffsetFetch, which a member sends before it consumes: each four bytes ask for an offset with metadata of up to 4 KiB.
So the longest one takes about as long as the longest commit, some half a millisecond."""
URGENT_BYTES_MAX: Final = tuple([({**_URGENT, **_FETCH}).get(api_key, 0) for api_key in range(256)])
"""By API key, up to how many bytes a request is urgent. An API key has two bytes, and all that exist are below 256."""


def is_urgent(frame: bytes) -> bool:
    """Return whether a request is decided as it arrives."""
    return 1 < len(frame) <= URGENT_BYTES_MAX[frame[1]]
