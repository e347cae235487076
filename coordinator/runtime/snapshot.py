"""The logs of a data directory as a value: all that a node needs to start again as it was.

    {"orders-0/00000000000000000000.log": b"...", ...}

Only directories of partitions belong to it: locks, the reserve and the event log stay where they are.
`storage/replacement.py` puts a snapshot in the place of the logs that are there.
"""

import io

from storage.files import Files
from storage.replacement import Logs, find_files

Snapshot = Logs


def read_logs(files: Files, data_dir: str) -> dict[str, bytes]:
    """Return every file of every partition. What is gathered must have been flushed."""
    found = {}
    for path in find_files(files, data_dir):
        file = files.open(f"{data_dir}/{path}", readonly=True)
        try:
            found[path] = file.pread(0, file.size())
        finally:
            file.close()
    return found


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
