"""How memory that is freed goes back to the system.

glibc's malloc maps large blocks by themselves, and unmaps them when they are freed. But it raises the size from which
it does so to that of the largest block that was ever freed, up to 32 MiB. Later frames and responses of some MiB then
share the heap with what is small and stays: of a hundred unfinished frames it kept 80 MB after their connections had
ended. A threshold that is set is not raised.
"""

import sys
from typing import Final

MAPPED_BYTES_MIN: Final = 1_048_576  # of a block that is mapped by itself
KEPT_BYTES_MAX: Final = 4 * 1_048_576  # free at the end of the heap, for the next allocations

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # mallopt(3)


def give_back_freed_memory() -> bool:
    """Have malloc give large blocks back when they are freed. Returns whether this system's malloc can be told so."""
    if not sys.platform.startswith("linux"):
        return False
    import ctypes

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # musl has none, and maps large blocks in any case
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES_MIN) and mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES_MAX))
