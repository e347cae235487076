"""Linux's io_uring, as far as syncs need it: many of them begin with one call, and no thread waits for them.

A thread that waits for a sync costs more than the sync on a fast disk, because it needs the interpreter's lock before
and after: each call of the loop to the system that gives the lock away for a moment wakes it in vain.

    tail ─► submission queue: an entry a sync ─► io_uring_enter ─► the kernel syncs ─► completion queue ─► head
                                                                        └─► eventfd, which the poller watches

Both queues are in memory that the kernel shares with the process (io_uring_setup(2), struct io_uring_params).
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import struct
import sys
import weakref
from collections.abc import Callable
from functools import cache
from typing import Any, Final

ENTRIES: Final = 1024  # of the submission queue
SYNCS_MAX: Final = ENTRIES // 4  # at once

_SETUP, _ENTER = 425, 426  # system calls, of the same number on all architectures
_GETEVENTS: Final = 1
_SQES_AT: Final = 0x10000000  # where the entries are mapped
_FEATURES: Final = 1 << 0 | 1 << 1 | 1 << 11
"""SINGLE_MMAP: one mapping for both queues; NODROP: no completion is lost; CQE_SKIP: of some, nobody need be told."""
_PARAMS: Final = struct.Struct("<7I12x10I10I")
_ENTRY: Final = struct.Struct("<BBHiQQIIQ24x")  # opcode, flags, priority, fd, offset, address, length, flags, user data
_COMPLETION: Final = struct.Struct("<Qi4x")  # user data, result

_OP_FSYNC, _OP_SYNC_FILE_RANGE, _OP_WRITE = 3, 8, 23
_FSYNC_DATASYNC: Final = 1
_SYNC_FILE_RANGE_WRITE: Final = 2
NEXT_AFTERWARDS: Final = 1 << 3  # IOSQE_IO_HARDLINK: the next entry begins when this one has ended, well or not
SILENT: Final = 1 << 6  # IOSQE_CQE_SKIP_SUCCESS: nobody is told that it has ended, nor of some kinds that they failed
NOBODY: Final = (1 << 64) - 1  # the user data of an entry whose failure, if the kernel tells of it, interests nobody
_ONE = ctypes.c_uint64(1)  # what is written to an eventfd


class Ring:
    """One io_uring. For one thread."""

    def __init__(self) -> None:
        """Raise OSError where there is none: another system, an old one, or a container that may not use it."""
        params = ctypes.create_string_buffer(_PARAMS.size)
        self._fd = _call(_SETUP, ENTRIES, params)
        weakref.finalize(self, os.close, self._fd)
        (
            entries, completions, _, _, _, features, _,
            _, sq_tail, sq_mask, _, _, _, array, _, _, _,
            cq_head, cq_tail, cq_mask, _, _, self._completions_at, _, _, _, _,
        ) = _PARAMS.unpack(params.raw)  # fmt: skip
        if features & _FEATURES != _FEATURES:
            raise OSError(errno.ENOSYS, "io_uring is too old")
        size = max(array + 4 * entries, self._completions_at + _COMPLETION.size * completions)
        self._queues = mmap.mmap(self._fd, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
        self._entries = mmap.mmap(
            self._fd, entries * _ENTRY.size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE, offset=_SQES_AT
        )
        self._words = memoryview(self._queues).cast("I")
        self._sq_tail, self._sq_mask = sq_tail // 4, self._words[sq_mask // 4]
        self._cq_head, self._cq_tail, self._cq_mask = cq_head // 4, cq_tail // 4, self._words[cq_mask // 4]
        for number in range(entries):
            self._words[array // 4 + number] = number
        self._pushed = 0

    def sync(self, fd: int, user_data: int, flags: int = 0) -> None:
        """Add the sync of a file to those that `submit` begins."""
        self.push(_OP_FSYNC, fd, user_data, flags=flags, op_flags=_FSYNC_DATASYNC)

    def start_writing(self, fd: int) -> None:
        """Add that the system is to begin writing a file out, but not to wait for that; what is next follows it."""
        flags = NEXT_AFTERWARDS | SILENT
        self.push(_OP_SYNC_FILE_RANGE, fd, NOBODY, flags=flags, op_flags=_SYNC_FILE_RANGE_WRITE)

    def notify(self, eventfd: int) -> None:
        """Add that an eventfd is written to, behind what was added with `NEXT_AFTERWARDS`."""
        self.push(_OP_WRITE, eventfd, NOBODY, flags=SILENT, address=ctypes.addressof(_ONE), length=8)

    def push(
        self, op: int, fd: int, user_data: int, *, flags: int = 0, op_flags: int = 0, address: int = 0, length: int = 0
    ) -> None:
        """Add an entry to those that `submit` hands over."""
        assert self._pushed < ENTRIES, "the queue is full"
        tail = self._words[self._sq_tail]
        at = (tail & self._sq_mask) * _ENTRY.size
        _ENTRY.pack_into(self._entries, at, op, flags, 0, fd, 0, address, length, op_flags, user_data)
        self._words[self._sq_tail] = (tail + 1) & 0xFFFFFFFF
        self._pushed += 1

    def submit(self) -> None:
        """Begin what was added."""
        while self._pushed:
            self._pushed -= _call(_ENTER, self._fd, self._pushed, 0, 0, None, 0)

    def reap(self, take: Callable[[int, int], None]) -> None:
        """Give `take` user data and result of each sync that has ended; a result below 0 is an error's number."""
        words = self._words
        head, tail = words[self._cq_head], words[self._cq_tail]
        while head != tail:
            at = self._completions_at + (head & self._cq_mask) * _COMPLETION.size
            user_data, result = _COMPLETION.unpack_from(self._queues, at)
            if user_data != NOBODY:
                take(user_data, result)
            head = (head + 1) & 0xFFFFFFFF
        words[self._cq_head] = head

    def wait(self) -> None:
        """Return when at least one has ended that was not reaped."""
        _call(_ENTER, self._fd, 0, 1, _GETEVENTS, None, 0)


def _call(number: int, *arguments: Any) -> int:
    """Make a system call. Raises OSError."""
    libc = _libc()
    words = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    while True:
        result: int = libc.syscall(number, *words)
        if result >= 0:
            return result
        if (error := ctypes.get_errno()) != errno.EINTR:
            raise OSError(error, os.strerror(error))


@cache
def _libc() -> Any:
    if not sys.platform.startswith("linux"):
        raise OSError(errno.ENOSYS, "io_uring is Linux's")
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return libc
