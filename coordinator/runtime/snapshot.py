"""The logs of a data directory as a value: all that a node needs to start again as it was.

    {"orders-0/00000000000000000000.log": b"...", ...}

Only directories of partitions belong to it: locks, the reserve and the event log stay where they are.
`storage/replacement.py` puts a snapshot in the place of the logs that are there.
"""

import io
from collections.abc import Generator
from contextlib import ExitStack
from typing import Final

from protocol.steps import finish_steps
from storage.files import File, Files
from storage.replacement import Logs, find_files

Snapshot = Logs
STEP_BYTES: Final = 1 << 20
"""So much is read of a large segment in one step."""
OPEN_MAX: Final = 128
"""Segments that are held open meanwhile; further ones are read in the first step."""


def read_logs(files: Files, data_dir: str) -> dict[str, bytes]:
    """Return every file of every partition at once. What is gathered must have been flushed."""
    return finish_steps(read_logs_in_steps(files, data_dir))


def read_logs_in_steps(files: Files, data_dir: str) -> Generator[None, None, dict[str, bytes]]:
    """Return every file of every partition as it is now. What is gathered must have been flushed.

    The first step reads what is small, and opens large segments, to which no more than appends happen while they are
    open: what is there of them now is read in further steps.
    """
    found: dict[str, bytes] = {}
    with ExitStack() as opened:
        large: list[tuple[str, File, int]] = []
        for path in find_files(files, data_dir):
            file = files.open(f"{data_dir}/{path}", readonly=True)
            with ExitStack() as this:
                this.callback(file.close)
                size = file.size()
                if size > STEP_BYTES and path.endswith(".log") and len(large) < OPEN_MAX:
                    large.append((path, file, size))
                    opened.push(this.pop_all())
                else:
                    found[path] = file.pread(0, size)
        for path, file, size in large:
            parts: list[bytes] = []
            for start in range(0, size, STEP_BYTES):
                yield
                parts.append(file.pread(start, min(STEP_BYTES, size - start)))
            found[path] = b"".join(parts)
    return dict(sorted(found.items()))


def to_tar(snapshot: Snapshot) -> bytes:
    """Return a snapshot as a tar file, the same bytes for the same snapshot."""
    import tarfile  # only a download needs it

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path, content in sorted(snapshot.items()):
            entry = tarfile.TarInfo(path)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
