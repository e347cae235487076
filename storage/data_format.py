"""The format of a data directory: one number in `muster.format`, which is read before anything else.

A version of Muster that writes what an older one cannot read raises the number: the older one then says so, instead of
taking it for damage. Directories without the file are of format 1.
"""

from __future__ import annotations

from typing import Final

from storage.files import Files, StorageError

NAME: Final = "muster.format"
FORMAT: Final = 1
_BYTES_MAX: Final = 64


class UnknownFormat(Exception):  # noqa: N818 - reads as the fact that it is
    """The data directory is of a format that this version does not read."""


def check(files: Files, data_dir: str) -> None:
    """Compare the format of a data directory with ours, and note ours in one that has none.

    Raises UnknownFormat, StorageError.
    """
    path = f"{data_dir}/{NAME}"
    if not files.exists(path):
        _note(files, data_dir)
        return
    file = files.open(path, readonly=True)
    try:
        text = file.pread(0, _BYTES_MAX).decode("ascii", "replace").strip()
    finally:
        file.close()
    if not text.isdigit():
        raise UnknownFormat(f"invalid {path}: expected a number, found {text!r}")
    if int(text) > FORMAT:
        raise UnknownFormat(
            f"{data_dir} was written by a newer version of Muster: its format is {text}, this one reads up to {FORMAT}"
        )


def _note(files: Files, data_dir: str) -> None:
    """Write the file as a whole, unless the disk is full: a directory without it is of format 1."""
    path = f"{data_dir}/{NAME}"
    try:
        file = files.open(f"{path}.tmp", create=True)
        try:
            file.truncate(0)
            file.append(b"%d\n" % FORMAT)
            file.sync()
        finally:
            file.close()
        files.rename(f"{path}.tmp", path)
        files.sync_directory(data_dir)
    except StorageError as failure:
        if not failure.is_full:
            raise
