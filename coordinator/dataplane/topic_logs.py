"""The logs of topics' partitions: opened when first asked for, made when first written to, removed with their topic.

A log that is damaged, or that the disk fails, is closed until the next start: its partition answers
KAFKA_STORAGE_ERROR, and everything else is served.
"""

import errno
import itertools
import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Set
from typing import Final

from msgspec import Struct

from coordinator.core.catalog.names import CATALOG_TOPIC, OFFSETS_TOPIC
from coordinator.core.catalog.settings import TopicSettings
from coordinator.dataplane.unopened import UnopenedLogs
from protocol.steps import Steps, finish_steps
from storage import removal
from storage.files import File, Files, StorageError
from storage.layout import DamagedLog
from storage.log import Log, LogConfig
from storage.names import partition_directory, partition_of
from storage.outdated import OutdatedRecords, segments_size
from storage.producers import ProducerCount

log = logging.getLogger("muster.dataplane")

TopicPartition = tuple[str, int]

_TRANSIENT: Final = frozenset({errno.EMFILE, errno.ENFILE})
RETIRED_AT_ONCE: Final = 200  # directories of deleted topics that are renamed in one step: ten milliseconds, or many
FILES_MAX: Final = 256  # files that are kept open to be appended to; more topics than descriptors is no reason to fail


class SegmentBegin(Struct, frozen=True, gc=False):
    """How the active segment of a log has begun."""

    base_offset: int
    timestamp: int  # of the first batch; -1: it has none
    at_ms: int  # when that batch was appended, or found by the first append after a start


class Opening(Struct, eq=False):
    """A log that is being opened."""

    steps: Steps[Log]  # that are left
    waiting: int = 0  # those that wait for it, and do its steps


class TopicLogs:
    """Logs by topic and partition. `on_open` is told of each that is opened, before anyone reads from it."""

    def __init__(
        self,
        files: Files,
        data_dir: str,
        settings_of: Callable[[str], TopicSettings],
        on_open: Callable[[TopicPartition, Log], None],
        unremoved: set[str],
        producers_max: int,
    ) -> None:
        self._files = files
        self._data_dir = data_dir
        self._settings_of = settings_of
        self._on_open = on_open
        self._unremoved = unremoved  # deleted topics whose directories could not be taken from the disk
        self._stored: dict[str, dict[int, None]] | None = None  # by topic, what has a directory; None: not listed
        self._retired: removal.RetiredLogs | None = None  # None: not listed either
        self._retiring: dict[str, list[str]] = {}  # by deleted topic, the directories that are still to be renamed
        self.producers = ProducerCount(producers_max)  # of all open logs
        self._open: dict[TopicPartition, Log] = {}
        self._opening: dict[TopicPartition, Opening] = {}
        self.opened = 0  # logs, since the start: each took long
        self._dirty: dict[TopicPartition, Log] = {}
        self.appends = 0  # since this was last looked at
        self.closed_partitions: dict[TopicPartition, str] = {}
        """The partitions whose logs are closed until the next start, each with the reason."""
        self.losses = 0
        """How many times a partition was closed before what had been appended to it was synced."""
        self._loss_of: dict[TopicPartition, int] = {}  # the number of its latest one
        self._syncing: dict[TopicPartition, Log] = {}  # what was appended to them is being synced
        self._lost: set[TopicPartition] = set()  # since this was last asked
        self._held: dict[TopicPartition, None] = {}  # whose file is open, the one that was written to longest ago first
        self._begun: dict[TopicPartition, SegmentBegin] = {}
        self._new: list[tuple[str, int, int]] = []  # with the time at which the first batch was appended
        self.interrupted: set[TopicPartition] = set()  # that lacked a descriptor once, and may have been opened since
        self._outdated = OutdatedRecords(files)
        self._unopened = UnopenedLogs(files, self._list_unopened, self._directory)

    def log(self, topic: str, partition: int) -> Log:
        """Return the log of a partition that exists, opened and recovered. Raises DamagedLog."""
        found = self._open.get((topic, partition))
        if found is None:
            key = topic, partition
            opening = self._opening.pop(key, None)
            found = finish_steps(self._begin_to_open(key) if opening is None else opening.steps)
            self._note_opened(key, found)
        return found

    def open_in_steps(self, topic: str, partition: int) -> Steps[None]:
        """Open the log of a partition that exists, in steps, if it is not open: it is read as a whole.

        Those that wait for one log do its steps in turn. Raises DamagedLog or StorageError, to one of them.
        """
        key = topic, partition
        if key in self._open:
            return
        opening = self._opening.get(key)
        if opening is None:
            opening = self._opening[key] = Opening(self._begin_to_open(key))
        opening.waiting += 1
        try:
            while self._opening.get(key) is opening:
                if not self._open_further(key, opening.steps):
                    yield
        finally:
            opening.waiting -= 1
            if not opening.waiting and self._opening.get(key) is opening:  # its clients have left
                self._opening.pop(key).steps.close()

    def _open_further(self, partition: TopicPartition, steps: Steps[Log]) -> bool:
        """Do a step. Return whether it was the last."""
        try:
            next(steps)
        except StopIteration as end:
            del self._opening[partition]
            self._note_opened(partition, end.value)
        except (DamagedLog, StorageError):
            del self._opening[partition]
            raise
        else:
            return False
        return True

    def try_open_in_steps(self, topic: str, partition: int) -> Steps[None]:
        """Open a log in steps, so that a `try_open` that follows at once, and says whether it is open, need not."""
        if (topic, partition) not in self.closed_partitions:
            try:
                yield from self.open_in_steps(topic, partition)
            except (DamagedLog, StorageError) as failure:
                self.close_failed_partition((topic, partition), failure)

    def _begin_to_open(self, partition: TopicPartition) -> Steps[Log]:
        config = log_config(self._settings_of(partition[0]))
        return Log.open_in_steps(self._files, self._directory(*partition), config)

    def _note_opened(self, partition: TopicPartition, log: Log) -> None:
        self._open[partition] = log
        log.producers.share(self.producers)
        self.opened += 1
        self._unopened.forget(partition)
        self._hold(partition)
        self._on_open(partition, log)

    def are_open(self, partitions: Iterable[TopicPartition]) -> bool:
        """Return whether all of these logs are open."""
        return self._open.keys() >= set(partitions)

    def find_open(self, partition: TopicPartition) -> Log | None:
        """Return the log of a partition if it is open."""
        return self._open.get(partition)

    def try_open(self, topic: str, partition: int) -> bool:
        """Open the log, if it is closed. Return False if it is damaged: it stays closed until the next start."""
        if (topic, partition) in self._open:
            return True
        if (topic, partition) in self.closed_partitions:
            return False
        try:
            self.log(topic, partition)
        except (DamagedLog, StorageError) as failure:
            self.close_failed_partition((topic, partition), failure)
            return False
        return True

    def close_failed_partition(self, partition: TopicPartition, failure: DamagedLog | StorageError) -> None:
        """Close a partition that cannot be read or written, and leave its files as they are.

        It stays closed until the next start, unless all that was missing is a descriptor.
        """
        extra = {"topic": partition[0], "partition": partition[1]}
        if partition in self._dirty or partition in self._syncing:
            self._note_lost(partition)
        if (found := self._forget(partition)) is not None:
            found.abandon()
        if isinstance(failure, StorageError) and failure.errno in _TRANSIENT:
            log.warning("a log could not be used: %s", failure, extra=extra)
            self.interrupted.add(partition)
            return
        self.closed_partitions[partition] = str(failure)
        log.error("a log is closed until the next start: %s", failure, extra=extra)

    def _forget(self, partition: TopicPartition) -> Log | None:
        self._dirty.pop(partition, None)
        self._syncing.pop(partition, None)
        self._begun.pop(partition, None)
        self._held.pop(partition, None)
        gone = self._open.pop(partition, None)
        if gone is not None:
            gone.producers.share(ProducerCount())
        return gone

    def look_for_upkeep(self, partition: TopicPartition, now_ms: int) -> Generator[None, None, bool]:
        """Look whether the log is open, or may hold records past their time or beyond their size; in short steps."""
        if partition in self._open:
            return True
        settings = self._settings_of(partition[0])
        if not settings.is_deleted:
            return False
        directory = self._directory(*partition)
        return (yield from self._outdated.look(directory, now_ms, settings.retention_ms, settings.retention_bytes))

    def note_upkeep(self, partition: TopicPartition) -> None:
        """Upkeep is done with a log. If that has begun a segment its file is open, and counts among those that are."""
        found = self._open.get(partition)
        if found is not None and found.has_file_open and partition not in self._held:
            self._hold(partition)

    def _hold(self, partition: TopicPartition) -> None:
        """Note that a partition's file was just used; close the least recently used one beyond `FILES_MAX`."""
        self._held.pop(partition, None)
        self._held[partition] = None
        if len(self._held) > FILES_MAX:
            oldest = next(iter(self._held))
            del self._held[oldest]
            self._open[oldest].release()

    def append(self, partition: TopicPartition, log: Log, batch: bytes, timestamp: int, now_ms: int) -> int:
        """Append a batch whose latest record is of `timestamp` (ms; -1: none), and return the offset of its first.

        A segment holds records of `segment.ms` at most, counted from its first batch: so old ones can go as a whole.
        Where that has no time, the time since it was appended counts, as in Kafka (`LogSegment.timeWaitedForRoll`).
        """
        is_new, settings = not log.segments, self.configure(partition, log)
        if not is_new and log.segments[-1].size:
            begun = self._find_begin(partition, log, now_ms)
            waited_ms = timestamp - begun.timestamp if begun.timestamp >= 0 else now_ms - begun.at_ms
            if waited_ms > settings.segment_ms:
                log.roll()
        if is_new and self._stored is not None:
            self._stored.setdefault(partition[0], {})[partition[1]] = None
        offset = log.append(batch)
        active = log.segments[-1]
        active.modified_ms = now_ms
        if active.size == len(batch):
            self._begun[partition] = SegmentBegin(active.base_offset, timestamp, now_ms)
        if is_new:
            self._new.append((*partition, now_ms))
        self._dirty[partition] = log
        self.appends += 1
        self._hold(partition)
        return offset

    def _find_begin(self, partition: TopicPartition, log: Log, now_ms: int) -> SegmentBegin:
        """Return how the active segment has begun; read once for each segment that is found at start."""
        active = log.segments[-1]
        begun = self._begun.get(partition)
        if begun is None or begun.base_offset != active.base_offset:
            timestamp = next(active.batches()).header.max_timestamp
            begun = self._begun[partition] = SegmentBegin(active.base_offset, timestamp, now_ms)
        return begun

    def take_begun(self) -> list[tuple[str, int, int]]:
        """Return the logs that were begun since this was last asked: topic, partition, and when.

        The times of their records are no times to write elsewhere: a producer may choose any.
        """
        begun, self._new = self._new, []
        return begun

    @property
    def has_written(self) -> bool:
        """Whether a log was written to since `begin_sync`."""
        return bool(self._dirty)

    @property
    def has_begun(self) -> bool:
        """Whether a log was begun since `take_begun`."""
        return bool(self._new)

    def forget_writes(self) -> None:
        """Forget what was written since the last sync: no sync of it is needed."""
        self._dirty.clear()

    def begin_sync(self) -> dict[TopicPartition, File]:
        """Return the files that are to be synced, of the logs that were written to since this was last asked."""
        written, self._dirty = self._dirty, {}
        files: dict[TopicPartition, File] = {}
        for partition, log in written.items():
            try:
                files[partition] = log.file_to_sync()
            except StorageError as failure:
                self._syncing[partition] = log
                self.close_failed_partition(partition, failure)
            else:
                self._syncing[partition] = log
        return files

    def end_sync(self, failures: Mapping[TopicPartition, StorageError]) -> None:
        """Close the partitions that could not be synced; the syncs of these files have ended."""
        for partition, failure in failures.items():
            if partition in self._syncing:  # else it is closed already, or its topic is gone
                self.close_failed_partition(partition, failure)
        self._syncing.clear()

    def take_lost(self) -> frozenset[TopicPartition]:
        """Return the partitions that were closed before all that had been appended to them was synced, since this was
        last asked: nobody may be told of it."""
        lost, self._lost = frozenset(self._lost), set()
        return lost

    def _note_lost(self, partition: TopicPartition) -> None:
        self._lost.add(partition)
        self.losses += 1
        self._loss_of[partition] = self.losses

    def lost_since(self, losses: int) -> set[TopicPartition]:
        """Return the partitions that were closed so since there were `losses`."""
        return {partition for partition, number in self._loss_of.items() if number > losses}

    def configure(self, partition: TopicPartition, log: Log) -> TopicSettings:
        """Let a log have the settings of its topic as they are now, and return them.

        Each use begins with it: a change of settings, which may be those of all topics, then needs no log to be told.
        """
        settings = self._settings_of(partition[0])
        log.config = log_config(settings)
        return settings

    def drop(self, topics: Set[str]) -> bool:
        """Forget all logs of topics that are no more. Returns whether there are files to `purge`."""
        self._stop_opening(topics)
        for partition in [key for key in self._open if key[0] in topics]:
            if (gone := self._forget(partition)) is not None:
                gone.abandon()
        self._new = [new for new in self._new if new[0] not in topics]
        self.interrupted = {partition for partition in self.interrupted if partition[0] not in topics}
        self._loss_of = {partition: number for partition, number in self._loss_of.items() if partition[0] not in topics}
        self.closed_partitions = {
            partition: reason for partition, reason in self.closed_partitions.items() if partition[0] not in topics
        }
        try:
            return self._retire(topics)
        except StorageError as failure:
            self._unremoved |= topics
            _report_failed_removal(failure)
            return False

    def _stop_opening(self, topics: Set[str] | None = None) -> None:
        """Leave the logs of topics as they are that are being opened; None: all of them."""
        for partition in [key for key in self._opening if topics is None or key[0] in topics]:
            self._opening.pop(partition).steps.close()

    def _retire(self, topics: Set[str]) -> bool:
        """Rename the directories of topics, so many now and the others in `purge`. Returns whether there are any."""
        has_any, stored = False, self._list_stored()
        for topic in sorted(topics & stored.keys()):
            for partition in stored.pop(topic):
                self._outdated.forget(self._directory(topic, partition))
                self._unopened.forget((topic, partition))
                self._retiring.setdefault(topic, []).append(partition_directory(topic, partition))
                has_any = True
        if has_any or topics & self._unremoved:  # of these the directory may not be synced
            self._retire_some()
        return has_any

    def _retire_some(self) -> None:
        """Rename some of the directories that are to be, durably. Topics of which that fails are tried again later."""
        names: list[str] = []
        topics = set(self._retiring)
        while self._retiring and len(names) < RETIRED_AT_ONCE:
            topic, left = next(iter(self._retiring.items()))
            count = RETIRED_AT_ONCE - len(names)
            names += left[-count:]
            del left[-count:]
            if not left:
                del self._retiring[topic]
        try:
            self._list_retired().retire(names)
        except StorageError:
            self._unremoved |= topics
            self._retiring.clear()
            self._stored = self._retired = None  # what is there is known by another look alone
            raise

    def finish_retiring(self, topics: Iterable[str]) -> None:
        """Rename all directories of topics that were deleted, before there are others of their names.

        Raises StorageError.
        """
        for topic in topics:
            while topic in self._retiring:
                self._retire_some()

    def purge(self, *, is_retry: bool = False) -> Generator[None, None, None]:
        """Remove the files of deleted topics, some in each step. A retry does not log what fails again."""
        try:
            if self._unremoved:
                self._retire(self._unremoved)
                self._unremoved.clear()
            while self._retiring:
                yield
                self._retire_some()
            for failures in self._list_retired().purge():
                for failure in failures if not is_retry else ():
                    _report_failed_removal(failure)
                yield
        except StorageError as failure:
            if not is_retry:
                _report_failed_removal(failure)

    def on_disk(self) -> list[TopicPartition]:
        """Return the partitions that have anything on the disk."""
        return [(topic, index) for topic, stored in self._list_stored().items() for index in stored]

    def _list_unopened(self) -> list[TopicPartition]:
        """Return the partitions whose logs are not open from the start on, as the coordinator's own are, which grow."""
        return [found for found in self.on_disk() if found[0] not in (OFFSETS_TOPIC, CATALOG_TOPIC)]

    def open_logs(self) -> list[tuple[TopicPartition, Log]]:
        """Return the logs that are open, with their partitions."""
        return list(self._open.items())

    @property
    def path(self) -> str:
        """The absolute path of the directory that holds the logs."""
        return self._files.absolute(self._data_dir)

    def space(self) -> tuple[int, int]:
        """Return bytes of the volume, and those that are free; -1 where that is unknown."""
        return self._files.space(self._data_dir)

    def size(self, topic: str, partition: int) -> int:
        """Return bytes of a partition's segments. One that is not open is measured on the disk, and stays as it is."""
        if (found := self._open.get((topic, partition))) is not None:
            return found.size
        return segments_size(self._files, self._directory(topic, partition))

    def sizes(self) -> dict[str, int]:
        """Return bytes by topic, of the logs that are open or have been measured."""
        sizes: dict[str, int] = {}
        for (topic, _), log in self._open.items():
            sizes[topic] = sizes.get(topic, 0) + log.size
        for (topic, _), extent in self._unopened.known.items():
            sizes[topic] = sizes.get(topic, 0) + extent.size
        return sizes

    def end_offset(self, partition: TopicPartition) -> int | None:
        """Return the offset of the next record; None while that is not known without opening the log."""
        found = self._open.get(partition)
        if found is not None:
            return found.end_offset
        extent = self._unopened.known.get(partition)
        return None if extent is None else extent.end_offset

    def measure(self, has_time: Callable[[], bool]) -> None:
        """Measure logs that are not open, while there is time."""
        self._unopened.look(has_time, self._open.__contains__)

    def close(self) -> None:
        """Leave everything on the disk."""
        self._stop_opening()
        for log in self._open.values():
            log.close()

    def abandon(self) -> None:
        """Let go of every log, for its files are about to be removed."""
        self._retiring.clear()
        self._stop_opening()
        for log in self._open.values():
            log.abandon()

    def _directory(self, topic: str, partition: int) -> str:
        return f"{self._data_dir}/{partition_directory(topic, partition)}"

    def _list_stored(self) -> dict[str, dict[int, None]]:
        """Return the partitions that have a directory, by topic, but for those that are being removed.

        The data directory is listed once, for it may have very many: after that, nobody else makes any.
        """
        if self._stored is None:
            self._stored = {}
            for _, (topic, index) in _directories(self._files, self._data_dir):
                if topic not in self._retiring:
                    self._stored.setdefault(topic, {})[index] = None
        return self._stored

    def _list_retired(self) -> removal.RetiredLogs:
        if self._retired is None:
            self._retired = removal.RetiredLogs(self._files, self._data_dir)
        return self._retired


def remove_topics(files: Files, data_dir: str, topics: Set[str]) -> Set[str]:
    """Remove the logs of topics that are no more. Return those whose logs are still there: they are tried again.

    What fails is logged.
    """
    left, failures = topics, list[StorageError]()
    try:
        removal.retire(files, data_dir, [name for name, found in _directories(files, data_dir) if found[0] in topics])
        left = frozenset()
        failures += itertools.chain.from_iterable(removal.purge(files, data_dir))
    except StorageError as failure:
        failures.append(failure)
    for reason in failures:
        _report_failed_removal(reason)
    return left


def _report_failed_removal(reason: StorageError) -> None:
    log.warning("a deleted topic could not be removed from the disk: %s", reason)


def _directories(files: Files, data_dir: str) -> Iterator[tuple[str, TopicPartition]]:
    for name in files.list(data_dir):
        if (found := partition_of(name)) is not None:
            yield name, found


def log_config(settings: TopicSettings) -> LogConfig:
    """Derive the settings of a topic's logs."""
    return LogConfig(
        segment_bytes=settings.segment_bytes,
        delete_retention_ms=settings.delete_retention_ms,
        min_cleanable_dirty_ratio=settings.min_cleanable_dirty_ratio,
    )
