"""AlterConfigs: the settings of a resource become exactly those of the request. Old, and kept for old tools."""

from collections import Counter
from typing import Any

from coordinator.core.catalog import alterations
from coordinator.core.catalog.catalog import Catalog
from coordinator.core.catalog.records import CatalogRecord
from coordinator.core.refusal import Refusal
from coordinator.core.result import Call, Result
from protocol.errors import ErrorCode
from protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsRequestResource,
    AlterConfigsResponse,
    AlterConfigsResponseResource,
)


def alter_configs(catalog: Catalog, request: AlterConfigsRequest, call: Call) -> Result[Any]:
    """Replace the settings of each resource, all of them or none."""
    times = Counter((resource.resource_type, resource.resource_name) for resource in request.resources)
    results: list[AlterConfigsResponseResource] = []
    records: list[CatalogRecord] = []
    for asked in request.resources:
        resource = (asked.resource_type, asked.resource_name)
        wrong = _validate_resource(asked, times[resource])
        wanted = {config.name: config.value or "" for config in asked.configs}
        wrong = wrong or alterations.refusal(catalog, resource, wanted)
        error, message = (ErrorCode.NONE, None) if wrong is None else (wrong.error, wrong.message)
        results.append(AlterConfigsResponseResource(error, message, *resource))
        if wrong is None:
            kept = alterations.resource_key(catalog, resource)
            records += alterations.records(kept, catalog.configs.get(kept, {}), wanted)
    return Result(
        response=AlterConfigsResponse(responses=tuple(results)), records=() if request.validate_only else tuple(records)
    )


def _validate_resource(asked: AlterConfigsRequestResource, times: int) -> Refusal | None:
    if times > 1:
        return Refusal(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
    names = [config.name for config in asked.configs]
    if len(set(names)) != len(names):
        return Refusal(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    if nulls := [config.name for config in asked.configs if config.value is None]:
        return Refusal(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")
    return None
