"""All quotas, and which of them counts for a client. Changed by records of the catalog alone."""

from collections.abc import ItemsView, Mapping
from math import inf
from typing import Final

from coordinator.core.addresses import address_of
from coordinator.core.quotas.entities import CLIENT_ID, IP, SAMPLES, USER, Entity

_NOTHING: Final[Mapping[str, float]] = {}
_NO_NAMES: Final[dict[str, None]] = {}


class QuotaRules:
    """Quotas by entity and key."""

    def __init__(self) -> None:
        self.version = 0  # is raised by each change
        self.count = 0  # of quotas
        self._by_entity: dict[Entity, dict[str, float]] = {}
        self._named: dict[str, dict[str, None]] = {}  # by address: how those who have set its quotas have written it

    def __len__(self) -> int:
        return self.count

    def items(self) -> ItemsView[Entity, dict[str, float]]:
        """Give each entity with its quotas."""
        return self._by_entity.items()

    def of(self, entity: Entity) -> Mapping[str, float]:
        """Return the quotas of one entity."""
        return self._by_entity.get(entity, _NOTHING)

    def put(self, entity: Entity, key: str, value: float | None) -> None:
        """Set a quota, or with None take it back."""
        self.version += 1
        values = self._by_entity.setdefault(entity, {})
        self.count -= key in values
        if value is None:
            values.pop(key, None)
        else:
            values[key] = value
            self.count += 1
        if not values:
            del self._by_entity[entity]
        if (name := dict(entity).get(IP)) is not None:
            self._note_name(name, has_quota=bool(values))

    def _note_name(self, name: str, *, has_quota: bool) -> None:
        names = self._named.setdefault(address_of(name), {})
        names.pop(name, None)
        if has_quota:
            names[name] = None
        if not names:
            del self._named[address_of(name)]

    def find(self, key: str, user: str, client_id: str) -> tuple[Entity, float] | None:
        """Return the quota that counts for a client, with those who share it: the most precise one.

        Kafka: `DefaultQuotaCallback.quotaMetricTags`. A quota of a default name is one for each name.
        """
        for user_named, client_named in _PRECEDENCE:
            parts: list[tuple[str, str | None]] = []
            shared: list[tuple[str, str | None]] = []
            for kind, named, name in ((CLIENT_ID, client_named, client_id), (USER, user_named, user)):
                if named is not None:
                    parts.append((kind, name if named else None))
                    shared.append((kind, name))
            value = self.of(tuple(parts)).get(key)
            if value is not None:
                return tuple(shared), value
        return None

    def find_most_at_once(self, key: str, user: str, client_id: str) -> float:
        """Return how much a client may use at once if it has used nothing lately: infinity without a quota.

        Kafka: `ClientQuotaManager.maxValueInQuotaWindow`.
        """
        found = self.find(key, user, client_id) if self.count else None
        return inf if found is None else found[1] * (SAMPLES - 1)

    def find_address(self, key: str, host: str) -> float | None:
        """Return the quota of an address, which is a `literal_address`, else that of all addresses.

        Of several that are written in different ways, the one that was set last counts.
        """
        for name in reversed(self._named.get(host, _NO_NAMES)):
            own = self.of(((IP, name),)).get(key)
            if own is not None:
                return own
        return self.of(((IP, None),)).get(key)


_PRECEDENCE: Final[tuple[tuple[bool | None, bool | None], ...]] = (
    # whether the user and the client id are named; False is the default, None is any
    (True, True),
    (True, False),
    (True, None),
    (False, True),
    (False, False),
    (False, None),
    (None, True),
    (None, False),
)
