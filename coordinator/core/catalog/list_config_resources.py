"""ListConfigResources: the names of what has, or can have, settings of its own (KIP-1142)."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from coordinator.core.catalog.catalog import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC, Catalog
from coordinator.core.result import Call, Result
from protocol.errors import ErrorCode
from protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
    ListConfigResourcesResponseConfigResource,
)

TYPES_SINCE: Final = 1  # before, the API listed client metrics alone


def list_config_resources(catalog: Catalog, request: ListConfigResourcesRequest, call: Call) -> Result[Any]:
    """Return names by type: of all types, or of those asked for."""
    if call.version < TYPES_SINCE:
        wanted: Iterable[int] = (CLIENT_METRICS,)
    else:
        wanted = sorted(set(request.resource_types)) or _NAMES
    if any(kind not in _NAMES for kind in wanted):
        return Result(response=ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
    found = [(name, kind) for kind in wanted for name in sorted(_NAMES[kind](catalog))]
    resources = tuple(ListConfigResourcesResponseConfigResource(name, kind) for name, kind in found)
    return Result(response=ListConfigResourcesResponse(config_resources=resources))


def _topics(catalog: Catalog) -> Iterable[str]:
    return catalog.topics_by_name


def _brokers(catalog: Catalog) -> Iterable[str]:
    return map(str, catalog.settings.broker_ids)


def _groups(catalog: Catalog) -> Iterable[str]:
    """Return groups that have settings of their own, whether they exist or not."""
    return [name for kind, name in catalog.configs if kind == GROUP]


def _nothing(catalog: Catalog) -> Iterable[str]:
    return ()


_NAMES: Final[Mapping[int, Callable[[Catalog], Iterable[str]]]] = {
    TOPIC: _topics,
    BROKER: _brokers,
    BROKER_LOGGER: _brokers,
    CLIENT_METRICS: _nothing,
    GROUP: _groups,
}
