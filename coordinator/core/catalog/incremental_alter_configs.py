"""IncrementalAlterConfigs: set, delete, append to or subtract from single settings (KIP-339)."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from coordinator.core.catalog import alterations, group_configs, topic_configs
from coordinator.core.catalog.catalog import BROKER, GROUP, TOPIC, Catalog, Resource
from coordinator.core.catalog.records import CatalogRecord
from coordinator.core.refusal import Refusal
from coordinator.core.result import Call, Result
from protocol.errors import ErrorCode
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestResource,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseResource,
)

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def incremental_alter_configs(catalog: Catalog, request: IncrementalAlterConfigsRequest, call: Call) -> Result[Any]:
    """Change each resource; all that is asked of one resource happens, or none of it."""
    times = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    results: list[IncrementalAlterConfigsResponseResource] = []
    records: list[CatalogRecord] = []
    for asked in request.resources:
        resource = (asked.resource_type, asked.resource_name)
        kept = alterations.resource_key(catalog, resource)
        before = catalog.configs.get(kept, {})
        wanted = _validate_resource(asked, times[resource]) or _apply_operations(catalog, resource, before, asked)
        wrong = wanted if isinstance(wanted, Refusal) else alterations.refusal(catalog, resource, wanted)
        error, message = (ErrorCode.NONE, None) if wrong is None else (wrong.error, wrong.message)
        results.append(IncrementalAlterConfigsResponseResource(error, message, *resource))
        if wrong is None:
            assert not isinstance(wanted, Refusal), "what is not refused is a set of settings"
            records += alterations.records(kept, before, wanted)
    response = IncrementalAlterConfigsResponse(responses=tuple(results))
    return Result(response=response, records=() if request.validate_only else tuple(records))


def _validate_resource(asked: IncrementalAlterConfigsRequestResource, times: int) -> Refusal | None:
    if times > 1:
        return Refusal(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    names = [config.name for config in asked.configs]
    if len(set(names)) != len(names):
        return Refusal(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    if nulls := [config.name for config in asked.configs if config.value is None and config.config_operation != DELETE]:
        return Refusal(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")
    if any(not SET <= config.config_operation <= SUBTRACT for config in asked.configs):
        if asked.resource_type == BROKER:
            return Refusal(ErrorCode.INVALID_REQUEST, "Unknown operations type")
        return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)  # as Kafka 4.3 answers it (K-337)
    return None


def _apply_operations(
    catalog: Catalog, resource: Resource, before: Mapping[str, str], asked: IncrementalAlterConfigsRequestResource
) -> Refusal | dict[str, str]:
    """Return the settings after the operations, not validated yet. APPEND and SUBTRACT need a LIST."""
    wanted = dict(before)
    for config in asked.configs:
        if config.config_operation == SET:
            wanted[config.name] = config.value or ""
        elif config.config_operation == DELETE:
            wanted.pop(config.name, None)
        else:
            changed = _alter_list(catalog, resource, before, config)
            if isinstance(changed, Refusal):
                return changed
            wanted[config.name] = changed
    return wanted


def _alter_list(
    catalog: Catalog,
    resource: Resource,
    before: Mapping[str, str],
    config: IncrementalAlterConfigsRequestAlterableConfig,
) -> Refusal | str:
    known = _KNOWN.get(resource[0], {}).get(config.name)
    if known is None or known.kind != topic_configs.LIST:
        verb = "APPEND" if config.config_operation == APPEND else "SUBTRACT"
        message = f"Can't {verb} to key {config.name} because its type is not LIST."
        return Refusal(ErrorCode.INVALID_CONFIG, message)
    now = before.get(config.name, known.default)
    words = (config.value or "").split(",")
    change = topic_configs.append_words if config.config_operation == APPEND else topic_configs.subtract_words
    return change(now, words)


_KNOWN: Final[Mapping[int, Mapping[str, topic_configs.TopicConfig]]] = {
    TOPIC: topic_configs.BY_NAME,
    BROKER: topic_configs.BY_BROKER_NAME,
    GROUP: group_configs.BY_NAME,
}
