"""A disk with little room, for this process: writes to files of a directory take what fits, and then fail with ENOSPC.

A server gets it by a `sitecustomize` module, see `SITECUSTOMIZE`. Linux only: the name of a descriptor's file is read
from /proc.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

SITECUSTOMIZE = "from tests.storage.small_disk import install; install({directory!r}, {bytes_max})\n"

_write = os.write


def install(directory: str, bytes_max: int) -> None:
    """From now on the files in `directory` have room for `bytes_max` together. `remove` ends it."""

    def write(descriptor: int, data: bytes) -> int:
        if not Path(f"/proc/self/fd/{descriptor}").readlink().is_relative_to(directory):
            return _write(descriptor, data)
        room = bytes_max - sum(file.stat().st_size for file in Path(directory).rglob("*") if file.is_file())
        if room <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return _write(descriptor, data[:room])

    os.write = write


def remove() -> None:
    """The disk has room again."""
    os.write = _write
