"""What the state of the catalog takes in memory, by kind, and whether there is room for more of it.

Whatever outlives its request is in a record. Each type of record has a row in `CATALOG`: the kind that it counts for,
and what it takes beside its own strings. What is held is the weight of the latest record of each key, noted as records
are applied, new ones and those of the log. The server does not start with a type that has no row (`check_rows`).
"""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

from coordinator.core.catalog.records import (
    KEY_TYPES,
    AclKey,
    CatalogRecord,
    ConfigKey,
    Key,
    LogKey,
    ProducerIdKey,
    QuotaKey,
    ScramKey,
    TopicKey,
    TransactionKey,
)
from coordinator.core.refusal import Refusal
from coordinator.core.weights import ENTRY_BYTES, weigh
from protocol.errors import ErrorCode

_GROUP: Final = 32  # Kafka's number of resources that are groups


class Kind(StrEnum):
    """What memory is held for. The value is what metrics and settings call it."""

    TOPICS = "topics"  # and their settings
    GROUP_CONFIGS = "group configs"
    TRANSACTIONAL_IDS = "transactional ids"
    CREDENTIALS = "credentials"
    ACLS = "acls"
    QUOTAS = "quotas"
    OWN = "own"  # of which there is no more than a client has made of something else

    @property
    def setting(self) -> str:
        """The setting that bounds it."""
        return f"{self.value.replace(' ', '.')}.max.bytes"


BOUNDED: Final = tuple(kind for kind in Kind if kind != Kind.OWN)


class Price(Struct, frozen=True):
    """What a type of record counts for, and the bytes of memory that it takes beside what is in it."""

    kind: Callable[[Any], Kind]
    bytes: int


def _always(kind: Kind) -> Callable[[Any], Kind]:
    return lambda key: kind


def _of_config(key: ConfigKey) -> Kind:
    return Kind.GROUP_CONFIGS if key.resource_type == _GROUP else Kind.TOPICS


CATALOG: Final[Mapping[type, Price]] = {
    TopicKey: Price(_always(Kind.TOPICS), 512),
    ConfigKey: Price(_of_config, 256),
    ProducerIdKey: Price(_always(Kind.OWN), 0),
    TransactionKey: Price(_always(Kind.TRANSACTIONAL_IDS), 256),
    ScramKey: Price(_always(Kind.CREDENTIALS), 128),
    AclKey: Price(_always(Kind.ACLS), 768),
    QuotaKey: Price(_always(Kind.QUOTAS), 512),
    LogKey: Price(_always(Kind.OWN), 0),
}


def check_rows(rows: Mapping[type, Price], types: Iterable[type]) -> None:
    """Raise unless each type of record has a price, and each price is of a type of record."""
    assert set(rows) == set(types), f"without a price, or none: {set(rows) ^ set(types)}"


check_rows(CATALOG, KEY_TYPES)


def weigh_record(record: CatalogRecord) -> int:
    """Return the bytes of memory that the latest record of a key takes."""
    return CATALOG[type(record.key)].bytes + ENTRY_BYTES + weigh(record.key) + weigh(record.value)


class Held:
    """The memory that the records take which hold, by kind, and how much each kind may take."""

    def __init__(self, bounds: Mapping[Kind, int] | None = None) -> None:
        self.bounds = bounds or {}
        self.bytes: dict[Kind, int] = dict.fromkeys(Kind, 0)
        self._sizes: dict[int, int] = {}  # by the hash of the key, which takes less than the key

    def note(self, record: CatalogRecord) -> None:
        """Note that a record holds instead of the one before of its key, or that this one holds no longer."""
        key = hash(record.key)
        size = 0 if record.value is None else weigh_record(record)
        change = size - self._sizes.get(key, 0)
        if not change:
            return
        self.bytes[CATALOG[type(record.key)].kind(record.key)] += change
        if size:
            self._sizes[key] = size
        else:
            del self._sizes[key]

    def forget(self, key: Key) -> None:
        """Note that no record of a key holds."""
        self.note(CatalogRecord(key, None))

    def refuse(self, *records: CatalogRecord) -> Refusal | None:
        """Return why there is no room for new records, None if there is. What makes less of something is never
        refused."""
        return Room(self).take(records)

    def measure(self, records: Iterable[CatalogRecord]) -> dict[Kind, int]:
        """Return how many bytes more of each kind there were if these records held."""
        growth: dict[Kind, int] = {}
        for record in records:
            if record.value is not None:
                kind = CATALOG[type(record.key)].kind(record.key)
                more = weigh_record(record) - self._sizes.get(hash(record.key), 0)
                growth[kind] = growth.get(kind, 0) + more
        return growth


class Room:
    """The room that is left while the entries of one request are decided, whose records hold only at the end of the
    step."""

    def __init__(self, held: Held) -> None:
        self._held = held
        self._taken: dict[Kind, int] = {}

    def take(self, records: Iterable[CatalogRecord]) -> Refusal | None:
        """Take room for the records of an entry. Returns why there is not enough, and takes none then."""
        growth = self._held.measure(records)
        for kind, more in growth.items():
            bound = self._held.bounds.get(kind)
            if bound is not None and more > 0 and self._held.bytes[kind] + self._taken.get(kind, 0) + more > bound:
                message = f"There is no room for more {kind.value}: {kind.setting} is {bound}."
                return Refusal(ErrorCode.POLICY_VIOLATION, message)
        for kind, more in growth.items():
            self._taken[kind] = self._taken.get(kind, 0) + more
        return None

    def begin_step(self) -> None:
        """Note that what was taken is held now."""
        self._taken.clear()
