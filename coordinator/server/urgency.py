"""Which requests are decided as they arrive, and which give way to them.

A member that is late loses its partitions, so what members send goes first: two hundred clients that ask for all topics
at once must not keep it waiting for the sum of their work. Such a request is cheap, unless it is long: then it gives
way like all others. These are not late for that while the loop has time: it decides them in the same turn.
"""

from typing import Final

from protocol.apis import APIS
from protocol.traits import Trait

URGENT_BYTES: Final = 16 * 1_024
BRIEF_BYTES: Final = 512
"""Of an OffsetFetch: each four bytes ask for an offset with metadata of up to 4 KiB. So the longest one takes about as
long as the longest commit, some half a millisecond."""


def _urgent_bytes_max(api_key: int) -> int:
    traits = APIS[api_key].traits if api_key in APIS else Trait(0)
    if Trait.URGENT in traits:
        return URGENT_BYTES
    return BRIEF_BYTES if Trait.URGENT_IF_BRIEF in traits else 0


URGENT_BYTES_MAX: Final = tuple([_urgent_bytes_max(api_key) for api_key in range(256)])
"""By API key, up to how many bytes a request is urgent. An API key has two bytes, and all that exist are below 256."""


def is_urgent(frame: bytes) -> bool:
    """Return whether a request is decided as it arrives."""
    return 1 < len(frame) <= URGENT_BYTES_MAX[frame[1]]
