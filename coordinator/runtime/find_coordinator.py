"""FindCoordinator: every group and transactional id is coordinated here, at the address that the client came by."""

from collections.abc import Iterable
from typing import Final

from coordinator.dataplane.brokers import Broker
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
)

GROUP, TRANSACTION, SHARE = 0, 1, 2
_FROM_BATCHES: Final = 4  # the version that asks for many keys


def find_coordinator(request: FindCoordinatorRequest, version: int, broker: Broker) -> FindCoordinatorResponse:
    """`broker`, as the client reaches it, for each key; INVALID_REQUEST for types of keys that nobody here
    coordinates."""
    if version < _FROM_BATCHES:
        refused = _refusal(request.key_type)
        if refused:
            return FindCoordinatorResponse(
                error_code=ErrorCode.INVALID_REQUEST, error_message=refused, node_id=-1, host="", port=-1
            )
        return FindCoordinatorResponse(error_message="NONE", node_id=broker.node_id, host=broker.host, port=broker.port)
    return FindCoordinatorResponse(
        coordinators=tuple(_coordinators(request.coordinator_keys, request.key_type, broker))
    )


def _coordinators(keys: Iterable[str], key_type: int, broker: Broker) -> Iterable[FindCoordinatorResponseCoordinator]:
    refused = _refusal(key_type)
    for key in keys:
        if refused:
            told = "" if key_type == SHARE else refused  # as Kafka does
            yield FindCoordinatorResponseCoordinator(key, -1, "", -1, ErrorCode.INVALID_REQUEST, told)
        else:
            yield FindCoordinatorResponseCoordinator(key, broker.node_id, broker.host, broker.port, 0, "")


def _refusal(key_type: int) -> str:
    """Return why no coordinator can be found for keys of that type, "" where one can."""
    if key_type in (GROUP, TRANSACTION):
        return ""
    return "share groups are not coordinated here" if key_type == SHARE else f"key type {key_type} is not known"
