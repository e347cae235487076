"""Room kept for the worst day: a mebibyte of zeros, `muster.reserve`, that is removed when the disk is full.

An append that fails for want of room ends the process, and its log is readable as it is. But the next start may have
to write a checkpoint or compact before there is room again, and this is where that comes from.
"""

from __future__ import annotations

from contextlib import suppress

from storage.files import Files, StorageError

NAME = "muster.reserve"
RESERVE_BYTES = 1024 * 1024


def keep(files: Files, data_dir: str) -> bool:
    """Have the reserve. False when the disk refuses it, which an operator wants to be told and nothing else needs."""
    try:
        file = files.open(f"{data_dir}/{NAME}", create=True)
        try:
            if (missing := RESERVE_BYTES - file.size()) > 0:
                file.append(bytes(missing))
                file.sync()
        finally:
            file.close()
    except StorageError:
        with suppress(StorageError):
            give_way(files, data_dir)
        return False
    return True


def give_way(files: Files, data_dir: str) -> None:
    """Give the reserve back to a full disk."""
    if files.exists(path := f"{data_dir}/{NAME}"):
        files.remove(path)
