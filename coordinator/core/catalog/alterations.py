"""What AlterConfigs and IncrementalAlterConfigs have in common: new settings of resources, validated, as records."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, Final

from coordinator.core.catalog import group_configs, topic_configs
from coordinator.core.catalog.catalog import BROKER, GROUP, TOPIC, Catalog, Resource
from coordinator.core.catalog.describe_configs import validate_broker
from coordinator.core.catalog.names import OFFSETS_TOPIC, SHARE_STATE_TOPIC, reason_invalid
from coordinator.core.catalog.records import CatalogRecord, ConfigKey, ConfigValue
from coordinator.core.prices import Room
from coordinator.core.refusal import Refusal
from coordinator.core.result import STEP_ENTRIES, Decisions, Result
from protocol.bounds import TEXT_BYTES_MAX
from protocol.errors import ErrorCode

SET, DELETE, APPEND, SUBTRACT = range(4)  # what is done with a setting
COMPACT: Final = "compact"
MIN_ISR: Final = "min.insync.replicas"
"""What Kafka's `eligible.leader.replicas.version` 1 takes as set for all brokers alike."""
REMOVE: Final = "delete"
_POLICIES: Final[Mapping[str, str]] = {OFFSETS_TOPIC: COMPACT, SHARE_STATE_TOPIC: REMOVE}
"""The one `cleanup.policy` by which nothing is lost of a topic of the coordinator."""
_ENTRY_CHARACTERS: Final = 200
"""To look at the words of so long a value costs as much as an entry."""

Settings = Mapping[str, str]
SettingsOf = Callable[[Resource, Settings, Any], "Refusal | Settings"]
"""Returns what the settings of a resource shall be: by what they are, and by the resource's entry in the request."""


def alter_resources(
    catalog: Catalog,
    request: Any,
    entry: type,
    settings_of: SettingsOf,
    response: Callable[..., Any],
) -> Decisions:
    """Alter each resource: all that is asked of it happens, or none of it. The response has an `entry` for each."""
    times = Counter((asked.resource_type, asked.resource_name) for asked in request.resources)
    entries: list[Any] = []
    records: list[CatalogRecord] = []
    work, room = 0, Room(catalog.held)
    for asked in request.resources:
        price = _price_of(asked)
        if entries and work + price > STEP_ENTRIES:
            yield Result(records=tuple(records))
            records.clear()
            room.begin_step()
            work = 0
        work += price
        resource = (asked.resource_type, asked.resource_name)
        kept = _resource_key(catalog, resource)
        before = catalog.configs.get(kept, {})
        refused = refuse_shape(asked, times[resource]) or _refuse_type(asked.resource_type)
        wanted = refused or settings_of(resource, before, asked)
        changed: tuple[CatalogRecord, ...] = ()
        if isinstance(wanted, Refusal):
            wrong: Refusal | None = wanted
        else:
            changed = _records(kept, before, wanted)
            wrong = _refuse_settings(catalog, resource, wanted) or _refuse_min_isr(asked) or room.take(changed)
        error, message = (ErrorCode.NONE, None) if wrong is None else (wrong.error, wrong.message)
        entries.append(entry(error, message, *resource))
        if wrong is None and not request.validate_only:
            assert not isinstance(wanted, Refusal), "what is not refused is a set of settings"
            records += changed
            work += sum(map(len, wanted.values())) // _ENTRY_CHARACTERS
    yield Result(response=response(responses=tuple(entries)), records=tuple(records))


def _price_of(asked: Any) -> int:
    """Return what it costs to look at one resource, counted in short entries."""
    return 1 + sum([len(config.value or "") for config in asked.configs]) // _ENTRY_CHARACTERS


def refuse_shape(asked: Any, times: int) -> Refusal | None:
    """Refuse what makes no sense whatever the resource is: one that is there several times, a setting that is, and
    settings that are null and not to be deleted."""
    if times > 1:
        return Refusal(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    if len({config.name for config in asked.configs}) != len(asked.configs):
        return Refusal(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [one.name for one in asked.configs if one.value is None and getattr(one, "config_operation", SET) != DELETE]
    message = f"Null value not supported for : {', '.join(nulls)}"
    return Refusal(ErrorCode.INVALID_REQUEST, message) if nulls else None


def _refuse_type(kind: int) -> Refusal | None:
    return None if kind in _CHECKS else Refusal(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")


def _refuse_settings(catalog: Catalog, resource: Resource, wanted: Settings) -> Refusal | None:
    """Return why the resource cannot have exactly the settings `wanted`, or None when it can."""
    return _CHECKS[resource[0]](catalog, resource[1], wanted) or _refuse_long_values(wanted)


def _refuse_long_values(wanted: Settings) -> Refusal | None:
    """Refuse a value that no record can hold, before anything of it is decided: an APPEND may have made it so long."""
    for name, value in wanted.items():
        if 3 * len(value) > TEXT_BYTES_MAX and (size := len(value.encode())) > TEXT_BYTES_MAX:
            message = f"The value of {name} takes {size} bytes, of at most {TEXT_BYTES_MAX}"
            return Refusal(ErrorCode.INVALID_CONFIG, message)
    return None


def _resource_key(catalog: Catalog, resource: Resource) -> Resource:
    """Return the key under which the settings of a resource are stored. All broker ids of one process share a key."""
    kind, name = resource
    return (BROKER, catalog.broker) if kind == BROKER and name else resource


def _records(resource: Resource, before: Settings, wanted: Settings) -> tuple[CatalogRecord, ...]:
    """Return the facts that turn the settings `before` into `wanted`."""
    gone = [CatalogRecord(ConfigKey(*resource, name), None) for name in before if name not in wanted]
    new = [
        CatalogRecord(ConfigKey(*resource, name), ConfigValue(value))
        for name, value in wanted.items()
        if before.get(name) != value
    ]
    return (*gone, *new)


def _of_topic(catalog: Catalog, name: str, wanted: Settings) -> Refusal | None:
    if not name:
        return Refusal(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    if reason := reason_invalid(name):
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
    if reason := topic_configs.reason_invalid(wanted):
        return Refusal(ErrorCode.INVALID_CONFIG, reason)
    if name not in catalog.topics_by_name:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    policy = _POLICIES.get(name)
    if policy is not None and wanted.get("cleanup.policy", REMOVE).strip() != policy:
        # Kafka takes any policy, and then deletes the offsets that are older than retention.ms, or what states changed.
        return Refusal(ErrorCode.INVALID_CONFIG, f"The cleanup.policy of the internal topic {name} must be {policy}.")
    return None


def _of_broker(catalog: Catalog, name: str, wanted: Settings) -> Refusal | None:
    """Only what stands behind topics' settings can change while the server runs."""
    if name and (wrong := validate_broker(catalog, name)):
        return wrong
    if fixed := [key for key in wanted if key not in topic_configs.BY_BROKER_NAME]:
        message = f"Cannot update these configs dynamically: [{', '.join(fixed)}]"
        return Refusal(ErrorCode.INVALID_REQUEST, message)
    for key, value in wanted.items():
        if reason := topic_configs.BY_BROKER_NAME[key].reason_invalid(value):
            return Refusal(ErrorCode.INVALID_REQUEST, reason)
    if not name and MIN_ISR in catalog.configs.get((BROKER, ""), {}) and MIN_ISR not in wanted:
        return Refusal(ErrorCode.INVALID_CONFIG, f"{MIN_ISR} of all brokers cannot be removed.")
    return None


def _refuse_min_isr(asked: Any) -> Refusal | None:
    """Refuse whatever is asked of MIN_ISR for one broker, as Kafka does, also to remove what it cannot have."""
    if asked.resource_type != BROKER or not asked.resource_name or all(one.name != MIN_ISR for one in asked.configs):
        return None
    return Refusal(ErrorCode.INVALID_CONFIG, f"{MIN_ISR} can be set for all brokers or a topic, not for a broker.")


def _of_group(catalog: Catalog, name: str, wanted: Settings) -> Refusal | None:
    """Validate the settings of a group, which need not exist."""
    if not name:
        return Refusal(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    if reason := group_configs.reason_invalid(wanted, catalog.settings):
        return Refusal(ErrorCode.INVALID_CONFIG, reason)
    return None


_CHECKS: Final[Mapping[int, Callable[[Catalog, str, Settings], Refusal | None]]] = {
    TOPIC: _of_topic,
    BROKER: _of_broker,
    GROUP: _of_group,
}
