"""`muster.checkpoint`: what a log must remember that its segments do not say. Replaced as a whole, never written over.

```
#   1                          the format of this file
#   start_offset 0             records before it are deleted, though a segment may still hold them
#   recovery_point 4711        everything before it is on the disk: what does not fit there is damage, never a torn tail
#   contiguous_from 0          from here on the log is of our own writing: every batch begins where the one before ends
#   leader_epoch 0             ... and bears this epoch
#   cleaned_to 0               compaction has seen everything before it
#   segment_base 0             the segment that is appended to, which so cannot go missing; -1 before there is one
#   crc32c 1a2b3c4d            of the lines above
```
A directory without this file is a copy of another broker's, or new.
"""

from __future__ import annotations

import msgspec

from protocol.checksum import crc32c
from storage.files import Files

NAME = "muster.checkpoint"
NO_SEGMENT = -1
_VERSION = "1"


class Checkpoint(msgspec.Struct, frozen=True):
    """Offsets, all of one log; see the drawing above."""

    start_offset: int = 0
    recovery_point: int = 0
    contiguous_from: int = 0
    leader_epoch: int = 0
    cleaned_to: int = 0
    segment_base: int = NO_SEGMENT


class UnreadableCheckpoint(ValueError):  # noqa: N818 - reads as the fact that it is
    """The bytes are those of no checkpoint that this version can read."""


def encode(checkpoint: Checkpoint) -> bytes:
    lines = [_VERSION, *(f"{name} {value}" for name, value in msgspec.structs.asdict(checkpoint).items())]
    body = "".join(f"{line}\n" for line in lines).encode()
    return body + f"crc32c {crc32c(body):08x}\n".encode()


def decode(data: bytes) -> Checkpoint:
    """Return the checkpoint. Raises `UnreadableCheckpoint`, which says why."""
    body, separator, crc = data.rpartition(b"crc32c ")
    if not separator or crc != f"{crc32c(body):08x}\n".encode():
        raise UnreadableCheckpoint("the checkpoint's own checksum does not fit")
    version, *lines = body.decode("latin-1").splitlines() or [""]
    if version != _VERSION:
        raise UnreadableCheckpoint(f"the checkpoint's format is {version!r}: expected {_VERSION}")
    pairs = [_number(line) for line in lines]
    values = dict(pairs)
    if len(values) < len(pairs) or not _REQUIRED <= values.keys() <= set(Checkpoint.__struct_fields__):
        raise UnreadableCheckpoint(f"the checkpoint's lines are {' '.join(name for name, _ in pairs)!r}")
    return Checkpoint(**values)


_REQUIRED = set(Checkpoint.__struct_fields__) - {"segment_base"}  # which 0.1.0 did not write


def _number(line: str) -> tuple[str, int]:
    name, _, text = line.partition(" ")
    is_number = text.isascii() and (text.isdigit() or (name == "segment_base" and text == str(NO_SEGMENT)))
    if not is_number or int(text) >= 2**63:
        raise UnreadableCheckpoint(f"invalid line {line!r} of the checkpoint: expected an offset")
    return name, int(text)


def write(files: Files, directory: str, checkpoint: Checkpoint) -> None:
    """Replace the file; after a crash it is the old one or the new one."""
    path = f"{directory}/{NAME}"
    file = files.open(f"{path}.tmp", create=True)
    try:
        file.truncate(0)
        file.append(encode(checkpoint))
        file.sync()
    finally:
        file.close()
    files.rename(f"{path}.tmp", path)
    files.sync_directory(directory)


def read(files: Files, directory: str) -> bytes | None:
    """Return the file's bytes, or None when there is none."""
    path = f"{directory}/{NAME}"
    if not files.exists(path):
        return None
    file = files.open(path, readonly=True)
    try:
        return file.pread(0, 4096)
    finally:
        file.close()
