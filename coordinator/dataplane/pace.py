"""When a request over many partitions gives way to others.

A handler that visits many partitions is a generator. It yields between two partitions once its work reaches
`STEP_WORK`: each partition, each log that it opens, and each read or write adds to the work.
"""

from typing import Final

from coordinator.dataplane.topic_logs import TopicLogs

STEP_WORK: Final = 400  # counted in partitions that are looked up: one or two milliseconds
READ_WORK: Final = 20  # to read from a log's file
OPEN_WORK: Final = 50  # to open a log
APPEND_WORK: Final = 10  # to append a batch to a log that there is
WRITE_WORK: Final = STEP_WORK  # to write to the disk and wait for it: a step of its own


class PartitionPace:
    """The work since the last step of one request."""

    def __init__(self, logs: TopicLogs) -> None:
        self._logs = logs
        self._opened = logs.opened
        self._work = 0

    def add(self, work: int) -> None:
        """Note work beside looking the partition up."""
        self._work += work

    def count_partition(self) -> bool:
        """Count one more partition. Returns whether others are to have their turn before it."""
        opened = self._logs.opened
        self.add(OPEN_WORK * (opened - self._opened))
        self._opened = opened
        return self.count_entry()

    def count_entry(self) -> bool:
        """Count one more entry of a partition. Returns whether others are to have their turn before it."""
        self._work += 1
        if self._work <= STEP_WORK:
            return False
        self._work = 1
        return True
