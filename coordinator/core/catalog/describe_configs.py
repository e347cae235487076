"""DescribeConfigs: every setting of a topic, the broker or a group, and where its value comes from.

Shown by tests/core/catalog/test_configs.py and tests/conformance/stories/{broker_configs,group_configs}.py.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from coordinator.core.catalog import group_configs, topic_configs
from coordinator.core.catalog.catalog import BROKER, GROUP, RESOURCE_TYPES, TOPIC, Catalog
from coordinator.core.catalog.names import reason_invalid
from coordinator.core.catalog.settings import BrokerSetting
from coordinator.core.catalog.topic_configs import LONG_MAX
from coordinator.core.refusal import Refusal
from coordinator.core.response_budget import ResponseBudget
from coordinator.core.result import Call, Decisions, Result
from protocol.errors import ErrorCode
from protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    DescribeConfigsResponse,
    DescribeConfigsResponseResourceResult,
    DescribeConfigsResponseResult,
    DescribeConfigsResponseSynonym,
)

Entry = DescribeConfigsResponseResourceResult
Synonym = DescribeConfigsResponseSynonym

TOPIC_CONFIG, BROKER_CONFIG, DEFAULT_BROKER_CONFIG, FILE_CONFIG, DEFAULT_CONFIG, GROUP_CONFIG = 1, 2, 3, 4, 5, 8
STEP_RESOURCES: Final = 50  # that one step describes, each with all of its settings


def describe_configs(catalog: Catalog, request: DescribeConfigsRequest, call: Call) -> Decisions:
    """Describe each resource once; which of its settings, the request may say. One of no type refuses all."""
    wrong = next((_refuse_type(one) for one in request.resources if one.resource_type not in RESOURCE_TYPES), None)
    results: list[DescribeConfigsResponseResult] = []
    budget = ResponseBudget()
    for resource in dict.fromkeys(request.resources):
        results.append(_result(catalog, resource, request, wrong))
        budget.charge_elements(1 + len(results[-1].configs))
        if len(results) % STEP_RESOURCES == 0:
            yield Result()
    yield Result(response=DescribeConfigsResponse(results=tuple(results)))


def _refuse_type(resource: DescribeConfigsRequestResource) -> Refusal:
    message = f"Unexpected resource type {resource.resource_type} for resource {resource.resource_name}"
    return Refusal(ErrorCode.INVALID_REQUEST, message)


def _result(
    catalog: Catalog,
    resource: DescribeConfigsRequestResource,
    request: DescribeConfigsRequest,
    wrong: Refusal | None,
) -> DescribeConfigsResponseResult:
    describe = _DESCRIBED.get(resource.resource_type)
    found: Refusal | Iterable[Entry]
    if wrong is not None:
        found = wrong
    elif describe is None:
        found = Refusal(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {resource.resource_type}")
    else:
        found = describe(catalog, resource.resource_name)
    if isinstance(found, Refusal):
        return DescribeConfigsResponseResult(found.error, found.message, resource.resource_type, resource.resource_name)
    wanted = set(resource.configuration_keys or ())
    entries = [_filter_entry(entry, request) for entry in found if not wanted or entry.name in wanted]
    return DescribeConfigsResponseResult(
        resource_type=resource.resource_type, resource_name=resource.resource_name, configs=tuple(entries)
    )


def _filter_entry(entry: Entry, request: DescribeConfigsRequest) -> Entry:
    """Return the entry as far as the request asks for it."""
    return Entry(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        is_default=entry.config_source == DEFAULT_CONFIG,
        config_source=entry.config_source,
        is_sensitive=entry.is_sensitive,
        synonyms=entry.synonyms if request.include_synonyms else (),
        config_type=entry.config_type,
        documentation=entry.documentation if request.include_documentation else None,
    )


def _of_topic(catalog: Catalog, name: str) -> Refusal | Iterable[Entry]:
    if reason := reason_invalid(name):
        return Refusal(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
    if name not in catalog.topics_by_name:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
    own = catalog.configs.get((TOPIC, name), {})
    return [_topic_entry(catalog, own, config) for config in topic_configs.TOPIC_CONFIGS]


_DEFAULTS_OF_OTHERS: Final[Mapping[str, Synonym]] = {
    "log.retention.ms": Synonym("log.retention.hours", "168", DEFAULT_CONFIG),
    "log.roll.ms": Synonym("log.roll.hours", "168", DEFAULT_CONFIG),
    "log.roll.jitter.ms": Synonym("log.roll.jitter.hours", "0", DEFAULT_CONFIG),
    "log.flush.interval.ms": Synonym("log.flush.scheduler.interval.ms", str(LONG_MAX), DEFAULT_CONFIG),
}
"""Settings of the broker in milliseconds that have no default of their own. It is that of another setting, and shown
behind a value that the broker has been given."""


def _topic_entry(catalog: Catalog, own: Mapping[str, str], config: topic_configs.TopicConfig) -> Entry:
    value, source = catalog.inherited_value(config)
    synonyms = []
    if config.name in own:
        value, source = config.plain(own[config.name]), TOPIC_CONFIG
        synonyms.append(Synonym(config.name, value, source))
    if config.broker is not None:
        synonyms += _broker_synonyms(catalog, config.broker, config.default)
    return Entry(
        name=config.name,
        value=value,
        config_source=source,
        synonyms=tuple(synonyms),
        config_type=config.kind,
        documentation=config.doc,
    )


def _of_broker(catalog: Catalog, name: str) -> Refusal | Iterable[Entry]:
    if not name:
        changed = catalog.configs.get((BROKER, ""), {})
        return [
            _broker_entry(_as_broker_setting(catalog, key), [Synonym(key, value, DEFAULT_BROKER_CONFIG)])
            for key, value in changed.items()
        ]
    if (wrong := validate_broker(catalog, name)) is not None:
        return wrong
    known = {setting.name for setting in catalog.settings.broker}
    others = [_as_broker_setting(catalog, name) for name in topic_configs.BY_BROKER_NAME if name not in known]
    entries = [
        _broker_entry(setting, _broker_synonyms(catalog, setting.name, _ours(setting)))
        for setting in (*catalog.settings.broker, *others)
    ]
    return [_as_read(entry) for entry in entries]


def _as_read(entry: Entry) -> Entry:
    """Return a setting of one broker with its value as it is read. Synonyms are as they were written."""
    behind = topic_configs.BY_BROKER_NAME.get(entry.name)
    return entry if behind is None or not entry.value else replace(entry, value=behind.plain(entry.value))


def validate_broker(catalog: Catalog, name: str) -> Refusal | None:
    """Return why `name` is not the id of a broker here, or None when it is."""
    ids = catalog.settings.broker_ids
    if name.isdecimal() and name.isascii() and (name.lstrip("0") or "0") in map(str, ids):
        return None
    message = f"Unexpected broker id, expected {ids[0]} or empty string, but received {name}"
    return Refusal(ErrorCode.INVALID_REQUEST, message)


def _as_broker_setting(catalog: Catalog, name: str) -> BrokerSetting:
    """Return the broker's setting of that name; where it has none of its own, the default that topics have."""
    for setting in catalog.settings.broker:
        if setting.name == name:
            return setting
    behind = topic_configs.BY_BROKER_NAME[name]
    return BrokerSetting(name, behind.default, behind.kind, behind.doc)


def _ours(setting: BrokerSetting) -> str | None:
    """Return what a setting is that nobody has given, if it has a default."""
    return None if setting.default is None else setting.value


def _broker_entry(setting: BrokerSetting, synonyms: Sequence[Synonym]) -> Entry:
    value, source = (synonyms[0].value, synonyms[0].source) if synonyms else (setting.value or None, DEFAULT_CONFIG)
    return Entry(
        name=setting.name,
        value=None if setting.is_secret else value,
        read_only=setting.name not in topic_configs.BY_BROKER_NAME,
        config_source=source,
        is_sensitive=setting.is_secret,
        synonyms=tuple([Synonym(one.name, None, one.source) for one in synonyms] if setting.is_secret else synonyms),
        config_type=setting.kind,
        documentation=setting.doc,
    )


def _broker_synonyms(catalog: Catalog, name: str, default: str | None) -> list[Synonym]:
    """Return all values that a broker's setting has, the one that governs first: set at run time, from its file, built
    in, where it has a default."""
    found = [
        Synonym(name, catalog.configs[resource][name], source)
        for resource, source in (((BROKER, catalog.broker), BROKER_CONFIG), ((BROKER, ""), DEFAULT_BROKER_CONFIG))
        if name in catalog.configs.get(resource, {})
    ]
    setting = next((setting for setting in catalog.settings.broker if setting.name == name), None)
    if setting is not None and not setting.is_default:
        found.append(Synonym(name, setting.value, FILE_CONFIG))
        default = setting.default
    if (other := _DEFAULTS_OF_OTHERS.get(name)) is not None:
        return [*found, other] if found else []
    return found if default is None else [*found, Synonym(name, default, DEFAULT_CONFIG)]


def _of_group(catalog: Catalog, name: str) -> Refusal | Iterable[Entry]:
    """Return all that can be set on a group, whether there is such a group or not."""
    if not name:
        return Refusal(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
    own = catalog.configs.get((GROUP, name), {})
    return [_group_entry(catalog, own, config) for config in group_configs.GROUP_CONFIGS]


def _group_entry(catalog: Catalog, own: Mapping[str, str], config: topic_configs.TopicConfig) -> Entry:
    synonyms = []
    if config.name in own:
        synonyms.append(Synonym(config.name, config.plain(own[config.name]), GROUP_CONFIG))
    if config.broker is None:
        synonyms.append(Synonym(config.name, config.default, DEFAULT_CONFIG))
    else:
        synonyms += _broker_synonyms(catalog, config.broker, config.default)
    return Entry(
        name=config.name,
        value=synonyms[0].value,
        config_source=synonyms[0].source,
        synonyms=tuple(synonyms),
        config_type=config.kind,
        documentation=config.doc,
    )


_DESCRIBED: Final[Mapping[int, Callable[[Catalog, str], Refusal | Iterable[Entry]]]] = {
    TOPIC: _of_topic,
    BROKER: _of_broker,
    GROUP: _of_group,
}
