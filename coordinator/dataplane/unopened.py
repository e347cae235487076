"""The extents of the logs that nobody has asked for since the start, for metrics: found out a little at a time.

Nobody appends to a log that is not open, so what was found once stays true until the log is opened.
"""

from collections.abc import Callable, Generator, Iterable

from storage.extent import Extent, measure
from storage.files import Files, StorageError

TopicPartition = tuple[str, int]


class UnopenedLogs:
    """Extents by partition, of logs that are not open."""

    def __init__(
        self, files: Files, list_partitions: Callable[[], Iterable[TopicPartition]], path: Callable[..., str]
    ) -> None:
        """`list_partitions` lists the logs on the disk, `path` returns the directory of one."""
        self._files = files
        self._list_partitions = list_partitions
        self._path = path
        self._left: dict[TopicPartition, Generator[None, None, Extent] | None] | None = None
        self.known: dict[TopicPartition, Extent] = {}

    def look(self, has_time: Callable[[], bool], is_open: Callable[[TopicPartition], bool]) -> None:
        """Measure logs while there is time, one step at least."""
        if self._left is None:
            self._left = dict.fromkeys(one for one in self._list_partitions() if not is_open(one))
        while self._left:
            partition, steps = next(iter(self._left.items()))
            if steps is None:
                steps = self._left[partition] = measure(self._files, self._path(*partition))
            try:
                next(steps)
            except StopIteration as end:
                self.known[partition] = end.value
                del self._left[partition]
            except StorageError:  # the client that has it opened is told why
                del self._left[partition]
            if not has_time():
                return

    def forget(self, partition: TopicPartition) -> None:
        """Forget a log, which is open now, or is no more."""
        self.known.pop(partition, None)
        if self._left:
            self._left.pop(partition, None)
