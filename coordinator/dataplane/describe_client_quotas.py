"""DescribeClientQuotas: no quota is set. A wrong filter is refused as in Kafka (`ClientQuotasImage.describe`)."""

from typing import Final

from coordinator.core.refusal import Refusal
from coordinator.dataplane.state import Env, State
from protocol.errors import ErrorCode
from protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasRequestComponentData,
    DescribeClientQuotasResponse,
)

EXACT, DEFAULT, SPECIFIED = 0, 1, 2  # how a component matches the name of an entity
USER, CLIENT_ID, IP = "user", "client-id", "ip"
_TYPES: Final = (USER, CLIENT_ID, IP)


def describe_client_quotas(
    state: State, request: DescribeClientQuotasRequest, env: Env
) -> DescribeClientQuotasResponse:
    """Describe no quota, or say what is wrong with the filter."""
    if (wrong := _refusal(request.components)) is not None:
        return DescribeClientQuotasResponse(error_code=wrong.error, error_message=wrong.message, entries=None)
    return DescribeClientQuotasResponse(error_message="")


def _refusal(components: tuple[DescribeClientQuotasRequestComponentData, ...]) -> Refusal | None:
    seen: set[str] = set()
    for one in components:
        if not one.entity_type:
            return Refusal(ErrorCode.INVALID_REQUEST, "The entity type is empty.")
        if one.entity_type in seen:
            return Refusal(ErrorCode.INVALID_REQUEST, f"The entity type {one.entity_type} is there twice.")
        if one.entity_type not in _TYPES:
            return Refusal(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {one.entity_type}")
        if (wrong := _wrong_match(one)) is not None:
            return Refusal(ErrorCode.INVALID_REQUEST, wrong)
        seen.add(one.entity_type)
    if IP in seen and len(seen) > 1:
        return Refusal(ErrorCode.INVALID_REQUEST, "An address has no quota together with a user or a client id.")
    return None


def _wrong_match(one: DescribeClientQuotasRequestComponentData) -> str | None:
    if one.match_type not in (EXACT, DEFAULT, SPECIFIED):
        return f"Unknown match type {one.match_type}"
    if one.match_type == EXACT and one.match is None:
        return "An exact match needs a name."
    if one.match_type != EXACT and one.match is not None:
        return "Only an exact match has a name."
    return None
