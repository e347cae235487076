"""The catalog and the transactions with the log that both are kept in, `__muster_catalog-0`.

A transaction's end is written in three steps that a crash may part, so each is in its log before the next begins: here
that it is decided, in each of its partitions the marker, here that it is complete. `Ledger.record` therefore appends at
once where markers follow, and `settle` only when the markers are in their logs.
"""

from collections.abc import Callable, Container, Iterable
from typing import Any, Final

from coordinator.core.catalog import records
from coordinator.core.catalog.catalog import Catalog, Change
from coordinator.core.catalog.names import CATALOG_TOPIC
from coordinator.core.catalog.records import CatalogRecord, TransactionKey
from coordinator.core.catalog.settings import Settings
from coordinator.core.result import Markers, Result
from coordinator.core.transactions.transactions import Transactions
from coordinator.runtime.damage import describe_damage, read_log
from protocol import record_batch
from protocol.errors import ProtocolError
from protocol.records import Record as LogRecord
from storage import checkpoint
from storage.files import Files
from storage.layout import SWAP, DamagedLog
from storage.log import Log
from storage.names import partition_directory, partition_of

DIRECTORY: Final = partition_directory(CATALOG_TOPIC, 0)


class Ledger:
    """The catalog and the open transactions. Only records change them."""

    def __init__(self, settings: Settings, open_log: Callable[[], Log]) -> None:
        self.catalog = Catalog(settings)
        self.transactions = Transactions(settings, self.catalog.held)
        self._open = open_log
        self._log: Log | None = None
        self._waiting: list[LogRecord] = []
        self._appends = self._synced = 0  # how many appends there were, and how many of them are on the disk
        self._syncing = 0  # how many of them are, once the sync that was begun last has ended
        self._last: list[tuple[CatalogRecord, LogRecord]] = []  # records to append after the sync of other logs
        self._resting: list[tuple[CatalogRecord, LogRecord]] = []  # those of them that the running sync covers

    @property
    def log(self) -> Log:
        if self._log is None:
            self._log = self._open()
        return self._log

    def load(self, log: Log | None = None) -> None:
        """Read the log from its beginning, or another one, which is the log from now on. It is short: what exists, not
        what happened.

        Raises `DamagedLog` for a fact that cannot be read, or that cannot be true: a transaction in no known state. And
        for a catalog that is missing beside logs of Muster: without it `__consumer_offsets` would be made anew, with
        another number of partitions, and nobody would find its groups.
        """
        self._log = log or self._log
        data_dir = self.log.directory.rpartition("/")[0]
        if not self.log.segments and (missing := missing_catalog(self.log.files, data_dir)) is not None:
            raise missing
        for _, facts in read_log(self.log):
            for fact in facts:
                try:
                    self._apply(records.decode(fact.key, fact.value))
                except (ProtocolError, ValueError) as error:
                    raise describe_damage(self.log, fact.offset, error) from error

    def record(self, result: Result[Any], now_ms: int) -> tuple[Change, ...]:
        """Encode a result's records for the log, and apply them. Returns the topics that came, grew or went.

        Raises for what cannot be encoded, and then has changed nothing.
        """
        self._waiting += _write(result.records, now_ms)
        changes = [change for one in result.records if (change := self._apply(one)) is not None]
        if any(type(effect) is Markers for effect in result.effects):
            self.flush()
        return tuple(changes)

    def complete(self, result: Result[Any], now_ms: int) -> None:
        """Gather what rests on other logs, to be true and appended once they are: that a transaction is complete,
        behind its markers, and that a partition has a log.

        Until then a transaction is prepared, and who asks is told to come back: what is true and what the log says keep
        one order.
        """
        self._last += zip(result.records, _write(result.records, now_ms), strict=True)

    def flush(self) -> bool:
        """Append what was gathered; whether there was anything. Raises StorageError."""
        if not self._waiting:
            return False
        waiting, self._waiting = self._waiting, []
        self._appends += 1
        self.log.append(record_batch.encode(waiting))
        return True

    def sync(self) -> None:
        """Return when all that was appended is on the disk, whenever in the turn that was. Raises StorageError."""
        if self._synced < self._appends:
            self.log.sync()
            self._synced = self._appends

    @property
    def has_gathered(self) -> bool:
        """Whether something was gathered, or appended, that no sync covers which has begun."""
        if self._waiting or self._last:
            return True
        return self._synced < self._appends and self._syncing < self._appends

    def begin_sync(self) -> Log | None:
        """Note that a sync of all logs begins, which covers what was given to `complete`.

        Returns the log if it is to be synced as well.
        """
        self._resting += self._last
        self._last = []
        if max(self._synced, self._syncing) == self._appends:
            return None
        self._syncing = self._appends
        return self.log

    def end_sync(self) -> None:
        """Note that the sync that began last has ended."""
        self._synced = max(self._synced, self._syncing)

    def leave_transactions_prepared(self, lost: Container[tuple[str, int]]) -> None:
        """Forget that the transactions are complete of which a marker may be lost: the next start writes it again."""
        self._last = self._without(self._last, lost)
        self._resting = self._without(self._resting, lost)

    def _without(
        self, some: list[tuple[CatalogRecord, LogRecord]], lost: Container[tuple[str, int]]
    ) -> list[tuple[CatalogRecord, LogRecord]]:
        known = self.transactions.by_id
        return [
            (one, written)
            for one, written in some
            if type(one.key) is not TransactionKey
            or not any(partition in lost for partition in known[one.key.transactional_id].partitions)
        ]

    def settle(self) -> bool:
        """Apply and append the records of `complete` that the sync covers which has ended; whether there were any."""
        if not self._resting:
            return False
        resting, self._resting = self._resting, []
        for one, written in resting:
            self._apply(one)
            self._waiting.append(written)
        return self.flush()

    def _apply(self, one: CatalogRecord) -> Change | None:
        self.transactions.replay(one)
        return self.catalog.replay(one)


def missing_catalog(files: Files, data_dir: str) -> DamagedLog | None:
    """Return the damage of a data directory that has logs which Muster has written, and no catalog of them. A copy of
    another broker's logs has no checkpoints."""
    directory = f"{data_dir}/{DIRECTORY}"
    if any(name.endswith((".log", SWAP)) for name in files.list(directory)):
        return None
    names = [name for name in files.list(data_dir) if partition_of(name) is not None and name != DIRECTORY]
    written = next((one for name in names if files.exists(one := f"{data_dir}/{name}/{checkpoint.NAME}")), None)
    if written is None:
        return None
    return DamagedLog(directory, 0, f"the catalog is missing, though {written} is of this server")


def _write(facts: Iterable[CatalogRecord], now_ms: int) -> list[LogRecord]:
    return [LogRecord(*records.encode(fact), timestamp=now_ms) for fact in facts]
