"""The entities that can have a quota, and the quotas that there are. Kafka: `ClientQuotaEntity`, `QuotaConfig`."""

from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import Final, Protocol

from coordinator.core.refusal import Refusal
from protocol.errors import ErrorCode

USER, CLIENT_ID, IP = "user", "client-id", "ip"
TYPES: Final = (USER, CLIENT_ID, IP)

PRODUCER, CONSUMER = "producer_byte_rate", "consumer_byte_rate"
REQUESTS, MUTATIONS, CONNECTIONS = "request_percentage", "controller_mutation_rate", "connection_creation_rate"

SAMPLES: Final = 11  # quota.window.num, of a second each: quota.window.size.seconds

Entity = tuple[tuple[str, str | None], ...]
"""Types and names, sorted by type; a name that is None is the default of its type."""

_OF_CLIENTS: Final = frozenset({PRODUCER, CONSUMER, REQUESTS, MUTATIONS})
_OF_ADDRESSES: Final = frozenset({CONNECTIONS})
_WHOLE: Final[Mapping[str, int]] = {PRODUCER: 2**63 - 1, CONSUMER: 2**63 - 1, CONNECTIONS: 2**31 - 1}
"""The keys whose values are whole numbers, with the largest."""
_WHOLE_WITHIN: Final = 1e-6  # of a whole number, for values that a client has worked out


class Part(Protocol):
    """A type and a name, as requests have them."""

    @property
    def entity_type(self) -> str: ...
    @property
    def entity_name(self) -> str | None: ...


def entity_of(parts: Iterable[Part]) -> Entity:
    """Return who is meant. A type that is there twice is there once."""
    return tuple(sorted({part.entity_type: part.entity_name for part in parts}.items()))


def refuse_entity(entity: Entity) -> Refusal | None:
    """Return why nobody can have a quota by that name, None if somebody can."""
    if not entity:
        return _invalid("Invalid empty client quota entity")
    for kind, name in entity:
        if kind not in TYPES:
            return _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            return _invalid(f"Empty {kind} not supported")
        if kind == IP and name is not None and not _is_address(name):
            return _invalid(f"{name} is not an address")
    if len(entity) > 1 and IP in dict(entity):
        return _invalid("An address has no quota together with a user or a client id.")
    return None


def refuse_value(entity: Entity, key: str, value: float | None) -> Refusal | None:
    """Return why an entity cannot have this quota, None if it can. A value that is None takes the quota back."""
    if value is None:
        return None
    if key not in (_OF_ADDRESSES if IP in dict(entity) else _OF_CLIENTS):
        return _invalid(f"Invalid configuration key {key}")
    if not value > 0:
        return _invalid(f"Quota {key} must be greater than 0")
    if key in _WHOLE:
        if not value <= _WHOLE[key] or abs(value - round(value)) > _WHOLE_WITHIN or round(value) < 1:
            return _invalid(f"{key} must be a whole number")
    return None


def stored_value(key: str, value: float) -> float:
    """Return a value as it is kept."""
    return float(round(value)) if key in _WHOLE else value


def _is_address(name: str) -> bool:
    if name == "localhost":
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, message)
