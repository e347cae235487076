"""The logs of a data directory as a value: all that a node needs to start again as it was.

    {"orders-0/00000000000000000000.log": b"...", ...}

Only directories of partitions belong to it: locks, the reserve and the event log stay where they are.
"""

import io
from collections.abc import Iterator, Mapping

from storage.files import Files
from storage.names import partition_of

Snapshot = Mapping[str, bytes]


def read_logs(files: Files, data_dir: str) -> dict[str, bytes]:
    """Return every file of every partition. What is gathered must have been flushed."""
    found = {}
    for path in _paths(files, data_dir):
        file = files.open(f"{data_dir}/{path}", readonly=True)
        try:
            found[path] = file.pread(0, file.size())
        finally:
            file.close()
    return found


def remove_logs(files: Files, data_dir: str) -> None:
    """Remove every partition. No log may be open."""
    for path in list(_paths(files, data_dir)):
        files.remove(f"{data_dir}/{path}")
    for name in _directories(files, data_dir):
        files.remove_directory(f"{data_dir}/{name}")


def write_logs(files: Files, data_dir: str, snapshot: Snapshot) -> None:
    """Write the files of a snapshot into a directory without partitions."""
    for directory in sorted({path.partition("/")[0] for path in snapshot}):
        files.make_directory(f"{data_dir}/{directory}")
    for path, content in snapshot.items():
        file = files.open(f"{data_dir}/{path}", create=True)
        try:
            file.append(content)
        finally:
            file.close()


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


def _directories(files: Files, data_dir: str) -> Iterator[str]:
    return (name for name in files.list(data_dir) if partition_of(name) is not None)


def _paths(files: Files, data_dir: str) -> Iterator[str]:
    for directory in _directories(files, data_dir):
        for name in files.list(f"{data_dir}/{directory}"):
            yield f"{directory}/{name}"
