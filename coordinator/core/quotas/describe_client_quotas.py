"""DescribeClientQuotas: the quotas that match a filter. Kafka: `ClientQuotasImage.describe`.

Shown by tests/core/quotas/test_*.py and tests/conformance/stories/admin_cluster.py.
"""

from typing import Final

from coordinator.core.catalog.catalog import Catalog
from coordinator.core.pace import Pace
from coordinator.core.quotas.entities import IP, TYPES, Entity
from coordinator.core.refusal import Refusal
from coordinator.core.response_budget import ResponseBudget
from coordinator.core.result import Call, Decisions, Result
from protocol.errors import ErrorCode
from protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasRequestComponentData,
    DescribeClientQuotasResponse,
    DescribeClientQuotasResponseEntityData,
    DescribeClientQuotasResponseEntryData,
    DescribeClientQuotasResponseValueData,
)

EXACT, DEFAULT, ANY_NAME = 0, 1, 2  # how a component matches the name of an entity
Components = tuple[DescribeClientQuotasRequestComponentData, ...]


def describe_client_quotas(catalog: Catalog, request: DescribeClientQuotasRequest, call: Call) -> Decisions:
    """Describe the quotas that match, or refuse the filter."""
    if (refusal := _validate(request.components)) is not None:
        refused = DescribeClientQuotasResponse(error_code=refusal.error, error_message=refusal.message, entries=None)
        yield Result(response=refused)
        return
    entries: list[DescribeClientQuotasResponseEntryData] = []
    budget, pace = ResponseBudget(), Pace()
    for entity, values in tuple(catalog.quotas.items()):
        if pace.is_due():
            yield Result()
        if _matches(entity, request.components, request.strict):
            entries.append(budget.add(_describe(entity, values)))
    yield Result(response=DescribeClientQuotasResponse(error_message="", entries=tuple(entries)))


def _matches(entity: Entity, components: Components, strict: bool) -> bool:
    """Return whether an entity has all components of the filter, and if the filter is strict no others."""
    names = dict(entity)
    if strict and len(names) != len(components):
        return False
    return all(one.entity_type in names and _matches_name(one, names[one.entity_type]) for one in components)


def _matches_name(one: DescribeClientQuotasRequestComponentData, name: str | None) -> bool:
    if one.match_type == ANY_NAME:
        return True
    return name == one.match if one.match_type == EXACT else name is None


def _describe(entity: Entity, values: dict[str, float]) -> DescribeClientQuotasResponseEntryData:
    return DescribeClientQuotasResponseEntryData(
        tuple([DescribeClientQuotasResponseEntityData(kind, name) for kind, name in entity]),
        tuple([DescribeClientQuotasResponseValueData(key, value) for key, value in values.items()]),
    )


def _validate(components: Components) -> Refusal | None:
    """Return what is wrong with the filter, None if it can be used."""
    seen: set[str] = set()
    for one in components:
        if not one.entity_type:
            return Refusal(ErrorCode.INVALID_REQUEST, "The entity type is empty.")
        if one.entity_type in seen:
            return Refusal(ErrorCode.INVALID_REQUEST, f"The entity type {one.entity_type} is there twice.")
        if one.entity_type not in TYPES:
            return Refusal(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {one.entity_type}")
        if (message := _validate_match(one)) is not None:
            return Refusal(ErrorCode.INVALID_REQUEST, message)
        seen.add(one.entity_type)
    if IP in seen and len(seen) > 1:
        return Refusal(ErrorCode.INVALID_REQUEST, "An address has no quota together with a user or a client id.")
    return None


def _validate_match(one: DescribeClientQuotasRequestComponentData) -> str | None:
    if one.match_type not in _MATCHES:
        return f"Unknown match type {one.match_type}"
    if one.match_type == EXACT and one.match is None:
        return "An exact match needs a name."
    if one.match_type != EXACT and one.match is not None:
        return "Only an exact match has a name."
    return None


_MATCHES: Final = frozenset({EXACT, DEFAULT, ANY_NAME})
