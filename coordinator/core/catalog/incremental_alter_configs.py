"""IncrementalAlterConfigs: set, delete, append to or subtract from single settings (KIP-339).

Shown by tests/core/catalog/test_configs.py and tests/conformance/stories/{broker_configs,group_configs}.py.
"""

from collections.abc import Mapping
from typing import Final

from coordinator.core.catalog import group_configs, topic_configs
from coordinator.core.catalog.alterations import APPEND, DELETE, SET, SUBTRACT, Settings, alter_resources
from coordinator.core.catalog.catalog import BROKER, GROUP, TOPIC, Catalog, Resource
from coordinator.core.refusal import Refusal
from coordinator.core.result import Call, Decisions
from protocol.errors import ErrorCode
from protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestResource,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseResource,
)


def incremental_alter_configs(catalog: Catalog, request: IncrementalAlterConfigsRequest, call: Call) -> Decisions:
    """Change single settings of each resource."""
    return alter_resources(
        catalog, request, IncrementalAlterConfigsResponseResource, _settings_of, IncrementalAlterConfigsResponse
    )


def _settings_of(
    resource: Resource, before: Settings, asked: IncrementalAlterConfigsRequestResource
) -> Refusal | Settings:
    """Return the settings after the operations. APPEND and SUBTRACT need a LIST."""
    if any(not SET <= config.config_operation <= SUBTRACT for config in asked.configs):
        if asked.resource_type == BROKER:
            return Refusal(ErrorCode.INVALID_REQUEST, "Unknown operations type")
        return Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)  # as Kafka 4.3 answers it (K-337)
    wanted = dict(before)
    for config in asked.configs:
        if config.config_operation == SET:
            wanted[config.name] = config.value or ""
        elif config.config_operation == DELETE:
            wanted.pop(config.name, None)
        else:
            changed = _alter_list(resource, before, config)
            if isinstance(changed, Refusal):
                return changed
            wanted[config.name] = changed
    return wanted


def _alter_list(
    resource: Resource, before: Settings, config: IncrementalAlterConfigsRequestAlterableConfig
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
