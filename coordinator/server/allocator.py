"""How memory that is freed goes back to the system.

glibc's malloc maps large blocks by themselves, and unmaps them when they are freed. But it raises the size from which
it does so to that of the largest block that was ever freed, up to 32 MiB. Later frames and responses of some MiB then
share the heap with what is small and stays: of a hundred unfinished frames it kept 80 MB after their connections had
ended. A threshold that is set is not raised.

Blocks that are smaller leave holes between those that stay: of a thousand joins with ids of 32 KB, whose groups took 40
MB, it kept 110. `Trimmer` has whole pages of such holes given back.
"""

import os
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

STATM: Final = Path("/proc/self/statm")
MAPPED_BYTES_MIN: Final = 1_048_576  # of a block that is mapped by itself
KEPT_BYTES_MAX: Final = 4 * 1_048_576  # free at the end of the heap, for the next allocations
CHANGE_BYTES: Final = 16 * 1_048_576

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # mallopt(3)


def give_back_freed_memory() -> bool:
    """Have malloc give large blocks back when they are freed, and keep one heap for all threads, of which one at a time
    runs Python. Returns whether this system's malloc can be told so."""
    mallopt = _function("mallopt")
    return bool(
        mallopt
        and mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES_MIN)
        and mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES_MAX)
        and mallopt(_M_ARENA_MAX, 1)
    )


class Trimmer:
    """Gives the holes in the heap back when the process has grown, or malloc has more free, by `CHANGE_BYTES`."""

    def __init__(self) -> None:
        self._malloc_trim = _function("malloc_trim") if STATM.exists() else None  # a chroot may be without /proc
        self._mallinfo = _mallinfo()
        self._resident = self._free = 0  # when the holes were given back last
        # Opened once: a server that is out of descriptors goes on.
        self._statm = os.open(STATM, os.O_RDONLY) if self._malloc_trim else -1
        if self._malloc_trim:
            weakref.finalize(self, os.close, self._statm)

    def trim(self) -> bool:
        """Call this now and then. Returns whether the holes were given back, which takes some milliseconds."""
        if self._malloc_trim is None:
            return False
        if self._resident_bytes() < self._resident + CHANGE_BYTES and self._free_bytes() < self._free + CHANGE_BYTES:
            return False
        self._malloc_trim(0)
        self._resident, self._free = self._resident_bytes(), self._free_bytes()
        return True

    def _resident_bytes(self) -> int:
        return int(os.pread(self._statm, 100, 0).split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def _free_bytes(self) -> int:
        """Return how much of its heap malloc has in no use, given back or not; 0 where that is unknown."""
        return int(self._mallinfo().fordblks) if self._mallinfo else 0


def _mallinfo() -> Callable[[], Any] | None:
    """Return glibc's `mallinfo2`, which it has since 2.33."""
    function: Any = _function("mallinfo2")
    if function is not None:
        from ctypes import Structure, c_size_t

        names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"

        class MallInfo(Structure):
            """`struct mallinfo2`."""

            _fields_ = tuple((name, c_size_t) for name in names.split())

        function.restype = MallInfo
    return function  # type: ignore[no-any-return]  # a function of ctypes


def _function(name: str) -> Callable[..., int] | None:
    """Return a function of glibc; None for another system, and for musl, which maps large blocks in any case."""
    if not sys.platform.startswith("linux"):
        return None
    import ctypes

    function: Callable[..., int] | None = getattr(ctypes.CDLL(None), name, None)
    return function
