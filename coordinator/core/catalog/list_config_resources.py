"""ListConfigResources: the names of what has, or can have, settings of its own (KIP-1142).

Shown by tests/conformance/stories/broker_configs.py.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from coordinator.core.catalog.catalog import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC, Catalog
from coordinator.core.pace import Pace
from coordinator.core.response_budget import ResponseBudget
from coordinator.core.result import Call, Decisions, Result
from protocol.errors import ErrorCode
from protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
    ListConfigResourcesResponseConfigResource,
)

TYPES_SINCE: Final = 1  # before, the API listed client metrics alone


def list_config_resources(catalog: Catalog, request: ListConfigResourcesRequest, call: Call) -> Decisions:
    """Return names by type: of all types, or of those asked for."""
    if call.version < TYPES_SINCE:
        wanted: Iterable[int] = (CLIENT_METRICS,)
    else:
        wanted = sorted(set(request.resource_types)) or _NAMES
    if any(kind not in _NAMES for kind in wanted):
        yield Result(response=ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION))
        return
    found: list[ListConfigResourcesResponseConfigResource] = []
    pace, budget = Pace(), ResponseBudget()
    for kind in wanted:
        for name in sorted(_NAMES[kind](catalog)):
            if pace.is_due():
                yield Result()
            budget.charge_elements(1)
            found.append(ListConfigResourcesResponseConfigResource(name, kind))
    yield Result(response=ListConfigResourcesResponse(config_resources=tuple(found)))


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
