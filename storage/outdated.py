"""Whether a log that is not open holds anything to be deleted, told from names, sizes and the oldest batches' headers.

To open a log is to read and check all of it, which is too much to do for each log of a data directory only to see how
old it is. `Log.retain`, which decides, has work only where this says so.
"""

from __future__ import annotations

from collections.abc import Generator

from storage.files import File, Files
from storage.segment import BadBatch, base_offset_of, file_name, walk

STEP_BYTES = 128 * 1024
"""Between two yields; a millisecond or two if all batches are small."""


class OutdatedRecords:
    """Asked again and again. What it had to read it remembers, for nobody appends to a log that is not open."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._latest: dict[str, dict[str, int]] = {}  # as `Segment.latest_ms`, by directory and path

    def look(self, directory: str, now_ms: int, retention_ms: int, retention_bytes: int) -> Generator[None, None, bool]:
        """Look whether `retain` would delete anything, in short steps. -1 is for ever and without bound.

        Also so where the oldest segment cannot be read to its end: to open it tells what that means.
        """
        paths = segment_paths(self._files, directory)
        if not paths:
            return False
        if retention_bytes >= 0:
            sizes = [_size(self._files, path) for path in paths]
            if (sizes[0] or len(paths) > 1) and sum(sizes) - retention_bytes >= sizes[0]:
                return True
        if retention_ms < 0:
            return False
        return (yield from self._look_for_age(directory, paths[0], now_ms - retention_ms, is_last=len(paths) == 1))

    def forget(self, directory: str) -> None:
        """Forget a log that is no more."""
        self._latest.pop(directory, None)

    def _look_for_age(
        self, directory: str, path: str, horizon_ms: int, *, is_last: bool
    ) -> Generator[None, None, bool]:
        """Read whether all of a segment is from before the horizon. Most are told by their first batch.

        The last one, which is appended to, stays while it is empty.
        """
        if (latest_ms := self._latest.get(directory, {}).get(path)) is not None:
            return 0 <= latest_ms < horizon_ms
        file = self._files.open(path, readonly=True)
        try:
            first = next(walk(file, checked=False), None)
            if (first is None and is_last) or (first is not None and first.header.max_timestamp >= horizon_ms):
                return False
            latest_ms = yield from _latest_ms(file)
            self._latest[directory] = {path: latest_ms}
        except BadBatch:
            return True
        finally:
            file.close()
        return 0 <= latest_ms < horizon_ms


def segments_size(files: Files, directory: str) -> int:
    """Return bytes of all segments of a log that is not open; 0 if there is no such log."""
    return sum([_size(files, path) for path in segment_paths(files, directory)])


def segment_paths(files: Files, directory: str) -> list[str]:
    """Return the paths of all segments of a log, the oldest first."""
    bases = [base for name in files.list(directory) if (base := base_offset_of(name)) is not None]
    return [f"{directory}/{file_name(base)}" for base in bases]


def _size(files: Files, path: str) -> int:
    file = files.open(path, readonly=True)
    try:
        return file.size()
    finally:
        file.close()


def _latest_ms(file: File) -> Generator[None, None, int]:
    latest_ms, step_end = -1, STEP_BYTES
    for found in walk(file, checked=False):
        latest_ms = max(latest_ms, found.header.max_timestamp)
        if found.position >= step_end:
            step_end = found.position + STEP_BYTES
            yield
    return latest_ms if latest_ms >= 0 else file.modified_ms()
