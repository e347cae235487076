"""AlterConfigs: the settings of a resource become exactly those of the request. Old, and kept for old tools.

Shown by tests/core/catalog/test_configs.py and tests/conformance/stories/{broker_configs,group_configs}.py.
"""

from coordinator.core.catalog.alterations import Settings, alter_resources
from coordinator.core.catalog.catalog import Catalog, Resource
from coordinator.core.refusal import Refusal
from coordinator.core.result import Call, Decisions
from protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsRequestResource,
    AlterConfigsResponse,
    AlterConfigsResponseResource,
)


def alter_configs(catalog: Catalog, request: AlterConfigsRequest, call: Call) -> Decisions:
    """Replace the settings of each resource, all of them or none."""
    return alter_resources(catalog, request, AlterConfigsResponseResource, _settings_of, AlterConfigsResponse)


def _settings_of(resource: Resource, before: Settings, asked: AlterConfigsRequestResource) -> Refusal | Settings:
    return {config.name: config.value or "" for config in asked.configs}
