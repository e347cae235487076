"""Whether the records of the coordinator's own logs can be read, judged as a start does: decoded and replayed. And
which logs should be there by what the catalog says."""

from collections.abc import Callable, Mapping
from typing import Final

from coordinator.config import Config, limits
from coordinator.core import records
from coordinator.core.catalog import records as catalog_records
from coordinator.core.catalog.catalog import Catalog
from coordinator.core.catalog.names import CATALOG_TOPIC, OFFSETS_TOPIC, SHARE_STATE_TOPIC
from coordinator.core.kinds.kind import Inconsistent
from coordinator.core.shard import Shard
from coordinator.core.share_state import records as state_records
from coordinator.core.topics import Topics
from coordinator.core.transactions.transactions import Transactions
from coordinator.dataplane.settings import catalog_settings
from coordinator.runtime.ledger import DIRECTORY
from protocol.errors import ProtocolError
from protocol.record_batch import BatchHeader
from protocol.records import Record, read_end_marker
from protocol.steps import finish_steps
from storage import layout
from storage.files import Files
from storage.names import partition_directory, partition_of
from storage.repair import Check, survey


def check_of(topic: str) -> Check | None:
    """Return a check for one log of that topic; None for a topic whose records are its clients' own matter."""
    make = _CHECKS.get(topic)
    return None if make is None else make()


def _check_groups() -> Check:
    shard = Shard(0, limits(Config()), Topics(()))

    def check(header: BatchHeader, batch: list[Record]) -> Mapping[int, str]:
        reasons: dict[int, str] = {}
        facts: list[records.Record] = []
        try:
            if header.is_control:
                if (marker := read_end_marker(batch[0])) is not None:
                    finish_steps(shard.end_transaction(header.producer_id, marker.commits))
                return reasons
            for record in batch:
                try:
                    facts.append(records.decode(record.key or b"", record.value))
                except ProtocolError as error:
                    reasons[record.offset] = str(error)
            shard.replay_batch(facts, header.producer_id if header.is_transactional else -1)
        except (ProtocolError, Inconsistent) as error:
            return {record.offset: str(error) for record in batch} | reasons
        return reasons

    return check


def missing_logs(files: Files, data_dir: str) -> list[str]:
    """Return the directories of the logs that were written to and are gone, by what of the catalog can be read."""
    catalog, directory = Catalog(), f"{data_dir}/{DIRECTORY}"
    if files.list(directory):
        survey(files, directory, layout.look(files, directory, is_repair=True), _check_catalog(catalog))
    stored = {found for name in files.list(data_dir) if (found := partition_of(name)) is not None}
    return [f"{data_dir}/{partition_directory(*one)}" for one in catalog.missing_logs(stored)]


def _check_catalog(catalog: Catalog | None = None) -> Check:
    settings = catalog_settings(Config(), (0,))
    catalog, transactions = catalog or Catalog(settings), Transactions(settings)

    def check(header: BatchHeader, batch: list[Record]) -> Mapping[int, str]:
        reasons: dict[int, str] = {}
        for record in batch:
            try:
                fact = catalog_records.decode(record.key, record.value)
                transactions.replay(fact)
                catalog.replay(fact)
            except (ProtocolError, ValueError) as error:
                reasons[record.offset] = str(error)
        return reasons

    return check


def _check_share_states() -> Check:
    def check(header: BatchHeader, batch: list[Record]) -> Mapping[int, str]:
        reasons: dict[int, str] = {}
        for record in batch if not header.is_control else ():
            try:
                state_records.decode(record.key or b"", record.value)
            except ProtocolError as error:
                reasons[record.offset] = str(error)
        return reasons

    return check


_CHECKS: Final[Mapping[str, Callable[[], Check]]] = {
    OFFSETS_TOPIC: _check_groups,
    CATALOG_TOPIC: _check_catalog,
    SHARE_STATE_TOPIC: _check_share_states,
}
