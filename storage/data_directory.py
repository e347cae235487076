"""The directory that holds all logs: one process at a time, no name that leads out of it, and room kept for the worst
day.

```
#   muster.lock       the pid of the process that holds the directory
# muster.reserve    a mebibyte of zeros: removed when the disk is full, so that a start has room to tidy up and to
# compact <topic>-<partition>/...
```
"""

from __future__ import annotations

from storage.files import Files, StorageFailed
from storage.log import Log, LogConfig
from storage.names import partition_directory, partition_of
from storage.recovery import Progress

LOCK = "muster.lock"
RESERVE = "muster.reserve"
RESERVE_BYTES = 1024 * 1024


class DataDirectory:
    """Held from its making to `close`. Raises `DirectoryLocked`, with the holder's pid, when another process has it."""

    def __init__(self, files: Files, path: str) -> None:
        self.files, self.path = files, path
        files.make_directory(path)
        self._lock = files.lock(f"{path}/{LOCK}")
        self.has_reserve = self._keep_reserve()
        """False: the disk was too full for it at the start, which an operator wants to be told."""

    def _keep_reserve(self) -> bool:
        path = f"{self.path}/{RESERVE}"
        file = self.files.open(path, create=True)
        try:
            if (missing := RESERVE_BYTES - file.size()) > 0:
                file.append(bytes(missing))
                file.sync()
        except StorageFailed as failure:
            if not failure.is_full:
                raise
            self.give_way()
            return False
        finally:
            file.close()
        return True

    def give_way(self) -> None:
        """Give the reserve back to a full disk. Called when an append has failed for want of room."""
        if self.files.exists(path := f"{self.path}/{RESERVE}"):
            self.files.remove(path)

    def partitions(self) -> list[tuple[str, int]]:
        """The topics and partitions that have a directory, by name and number."""
        return sorted(p for name in self.files.list(self.path) if (p := partition_of(name)) is not None)

    def log(
        self, topic: str, partition: int, config: LogConfig | None = None, on_progress: Progress | None = None
    ) -> Log:
        """Open the log of a partition, whether it is there or not. Raises ValueError for a name that Kafka would not
        take."""
        return Log.open(self.files, self.directory(topic, partition), config, on_progress)

    def directory(self, topic: str, partition: int) -> str:
        return f"{self.path}/{partition_directory(topic, partition)}"

    def remove(self, topic: str, partition: int) -> None:
        Log.remove(self.files, self.directory(topic, partition))

    def close(self) -> None:
        self._lock.release()
