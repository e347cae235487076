"""Which handler decides which request about topics and settings."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from coordinator.core.catalog.alter_configs import alter_configs
from coordinator.core.catalog.catalog import Catalog
from coordinator.core.catalog.create_partitions import create_partitions
from coordinator.core.catalog.create_topics import create_topics
from coordinator.core.catalog.delete_topics import delete_topics
from coordinator.core.catalog.describe_configs import describe_configs
from coordinator.core.catalog.incremental_alter_configs import incremental_alter_configs
from coordinator.core.catalog.list_config_resources import list_config_resources
from coordinator.core.catalog.outcome import Outcome
from coordinator.core.result import Call
from protocol.messages.alter_configs import AlterConfigsRequest
from protocol.messages.create_partitions import CreatePartitionsRequest
from protocol.messages.create_topics import CreateTopicsRequest
from protocol.messages.delete_topics import DeleteTopicsRequest
from protocol.messages.describe_configs import DescribeConfigsRequest
from protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from protocol.messages.list_config_resources import ListConfigResourcesRequest

HANDLERS: Final[Mapping[type, Callable[[Catalog, Any, Call], Outcome]]] = {
    AlterConfigsRequest: alter_configs,
    CreatePartitionsRequest: create_partitions,
    CreateTopicsRequest: create_topics,
    DeleteTopicsRequest: delete_topics,
    DescribeConfigsRequest: describe_configs,
    IncrementalAlterConfigsRequest: incremental_alter_configs,
    ListConfigResourcesRequest: list_config_resources,
}
