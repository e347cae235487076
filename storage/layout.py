"""Which files of a directory are the log, when a compaction may have been cut off anywhere in its swap.

A compaction writes `B.log.cleaned` and syncs it. Then:
```
#   1  B.log.cleaned -> B.log.swap         from here on the new file is the truth for all offsets that it spans
#   2  the other sources X.log -> X.log.deleted
#   3  B.log.swap -> B.log                 which replaces the first source
#   4  X.log.deleted, stale indexes removed
```
with the directory synced after 1, 2 and 3. So a `.cleaned` file is rubbish, a `.swap` file is whole, and finishing
the swap is the same four steps from wherever they stopped.
"""

from __future__ import annotations

import logging

import msgspec

from storage.files import Files, StorageError
from storage.segment import OFFSET_MAX, BadBatch, base_offset_of, file_name, walk

log = logging.getLogger("muster.storage")

CLEANED, SWAP, DELETED = ".log.cleaned", ".log.swap", ".log.deleted"
INDEXES = (".index", ".timeindex", ".txnindex")


class DamagedLog(Exception):  # noqa: N818 - reads as the fact that it is
    """What is on the disk cannot be what was written. Nothing is opened, nothing is changed; `muster log repair`
    tells more."""

    def __init__(self, path: str, position: int, reason: str, offset: int | None = None) -> None:
        self.path, self.position, self.reason, self.offset = path, position, reason, offset
        where = "" if offset is None else f" (offset {offset} was expected there)"
        super().__init__(f"{path}:{position}: {reason}{where}")


class Swap(msgspec.Struct, frozen=True):
    """A finished rewrite of the segments `sources` (base offsets, the first is its own) under `.swap`."""

    base_offset: int
    sources: tuple[int, ...]


class Layout(msgspec.Struct, frozen=True):
    """The segments of a log as (base offset, file name), in order, and what a crash has left to be tidied up."""

    segments: tuple[tuple[int, str], ...]
    swaps: tuple[Swap, ...] = ()
    rubbish: tuple[str, ...] = ()
    unreadable: tuple[tuple[str, str], ...] = ()
    """Files under `.swap` that are no rewrite of their segment, each with the reason; told to a repair only."""


def look(files: Files, directory: str, *, is_repair: bool = False) -> Layout:
    """Read the names only, and the headers of files under `.swap`. Changes nothing.

    Raises `DamagedLog` for a file under `.swap` that cannot be read. Where `is_repair`, it is passed over if the
    segment that it was to replace is still there.
    """
    names = files.list(directory)
    _refuse_impossible_names(directory, names)
    bases = _bases(names, ".log")
    segments = {base: file_name(base) for base in bases}
    swaps: list[Swap] = []
    unreadable: list[tuple[str, str]] = []
    for base in _bases(names, SWAP):
        try:
            swaps.append(_swap(files, directory, base, names))
        except DamagedLog as damage:
            if not is_repair or base not in segments:
                raise
            unreadable.append((file_name(base, SWAP), damage.reason))
    if unreadable:  # what step 2 has renamed is still the log
        segments |= {base: file_name(base, DELETED) for base in _bases(names, DELETED) if base not in segments}
    for swap in swaps:
        for source in swap.sources:
            segments.pop(source, None)
        segments[swap.base_offset] = file_name(swap.base_offset, SWAP)
    rubbish = [name for name in names if name.endswith((".cleaned", ".deleted", ".tmp"))]
    rubbish = [name for name in rubbish if name not in segments.values()]
    known = {*bases, *segments}
    rubbish += [name for name in names if name.endswith(tuple([f"{suffix}.swap" for suffix in INDEXES]))]
    for suffix in INDEXES:
        rubbish += [file_name(base, suffix) for base in _bases(names, suffix) if base not in known]
    return Layout(tuple(sorted(segments.items())), tuple(swaps), tuple(rubbish), tuple(unreadable))


def _refuse_impossible_names(directory: str, names: list[str]) -> None:
    for name in names:
        for suffix in (".log", SWAP):
            if (base_offset_of(name, suffix) or 0) > OFFSET_MAX:
                raise DamagedLog(f"{directory}/{name}", 0, "the name tells an offset that is greater than any log's")


def _bases(names: list[str], suffix: str) -> list[int]:
    return [base for name in names if (base := base_offset_of(name, suffix)) is not None]


def _swap(files: Files, directory: str, base: int, names: list[str]) -> Swap:
    """Read a file under `.swap`. It spans the offsets of all that it replaces, so it ends where the last of these ends;
    one that does not is no rewrite of them. Raises `DamagedLog`."""
    path = f"{directory}/{file_name(base, SWAP)}"
    try:
        end = _find_end(files, path, base)
    except BadBatch as bad:
        raise DamagedLog(path, bad.position, bad.reason) from bad
    if end == base:
        raise DamagedLog(path, 0, "the rewritten segment is empty", base)
    there = {b: suffix for suffix in (DELETED, ".log") for b in _bases(names, suffix) if base <= b < end}
    if there:
        last = max(there)
        source = f"{directory}/{file_name(last, there[last])}"
        try:
            replaced = _find_end(files, source, last)
        except BadBatch:
            replaced = end  # damage in what is to be removed
        if replaced not in (end, last):  # an empty one has nothing to lose
            reason = f"the rewritten segment ends before offset {end}, and {source} before {replaced}"
            raise DamagedLog(path, 0, reason, base)
    return Swap(base, tuple(b for b in _bases(names, ".log") if base <= b < end))


def _find_end(files: Files, path: str, base: int) -> int:
    """Return the offset after the last batch of a file. Raises `BadBatch`."""
    file, end = files.open(path, readonly=True), base
    try:
        for found in walk(file, checked=False):
            end = found.header.next_offset
    finally:
        file.close()
    return end


def finish(files: Files, directory: str, swap: Swap) -> None:
    """Steps 2 and 3 of a swap, and the removal of the sources. Safe to be cut off anywhere, and to be begun again."""
    others = [base for base in swap.sources if base != swap.base_offset]
    for base in others:
        files.rename(f"{directory}/{file_name(base)}", f"{directory}/{file_name(base, DELETED)}")
    if others:
        files.sync_directory(directory)
    for base in swap.sources:
        for suffix in INDEXES:
            remove_if_possible(files, f"{directory}/{file_name(base, suffix)}")
    own = f"{directory}/{file_name(swap.base_offset)}"
    files.rename(f"{directory}/{file_name(swap.base_offset, SWAP)}", own)
    files.sync_directory(directory)
    for base in others:
        remove_if_possible(files, f"{directory}/{file_name(base, DELETED)}")


def remove_if_possible(files: Files, path: str) -> None:
    """Remove a file that nothing refers to any more. One that stays only costs room."""
    try:
        if files.exists(path):
            files.remove(path)
    except StorageError as failure:
        log.warning("a file that is not needed any more stays: %s", failure)


def tidy(files: Files, directory: str, layout: Layout) -> None:
    """Finish what a crash has interrupted."""
    for swap in layout.swaps:
        finish(files, directory, swap)
    for name in layout.rubbish:
        remove_if_possible(files, f"{directory}/{name}")
