"""FindCoordinator: the broker that coordinates a group or a transactional id, at an address that the client reaches."""

from collections.abc import Iterable
from typing import Final

from coordinator.dataplane.brokers import Broker, Where
from coordinator.runtime.coordinators import Coordinators
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
)

GROUP, TRANSACTION, SHARE = 0, 1, 2
MANY_KEYS_SINCE: Final = 4  # version
_NOT_AVAILABLE: Final = "The coordinator is not available."


def find_coordinator(
    request: FindCoordinatorRequest, version: int, coordinators: Coordinators, where: Where
) -> FindCoordinatorResponse:
    """Return the coordinator of each key, or INVALID_REQUEST for a type of key that has no coordinator here."""
    if version < MANY_KEYS_SINCE:
        refused = _validate(request.key_type)
        if refused:
            return FindCoordinatorResponse(
                error_code=ErrorCode.INVALID_REQUEST, error_message=refused, node_id=-1, host="", port=-1
            )
        broker = _find(request.key, request.key_type, coordinators, where)
        if broker is None:
            return FindCoordinatorResponse(
                error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, error_message=_NOT_AVAILABLE, node_id=-1, port=-1
            )
        return FindCoordinatorResponse(error_message="NONE", node_id=broker.node_id, host=broker.host, port=broker.port)
    found = _find_all(request.coordinator_keys, request.key_type, coordinators, where)
    return FindCoordinatorResponse(coordinators=tuple(found))


def _find_all(
    keys: Iterable[str], key_type: int, coordinators: Coordinators, where: Where
) -> Iterable[FindCoordinatorResponseCoordinator]:
    refused = _validate(key_type)
    for key in keys:
        if refused:
            message = "" if key_type == SHARE else refused  # as in Kafka
            yield FindCoordinatorResponseCoordinator(key, -1, "", -1, ErrorCode.INVALID_REQUEST, message)
        elif (broker := _find(key, key_type, coordinators, where)) is None:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            yield FindCoordinatorResponseCoordinator(key, -1, "", -1, code, _NOT_AVAILABLE)
        else:
            yield FindCoordinatorResponseCoordinator(key, broker.node_id, broker.host, broker.port, 0, "")


def _find(key: str, key_type: int, coordinators: Coordinators, where: Where) -> Broker | None:
    if coordinators.is_alone:
        return where.brokers[0]
    is_group = key_type == GROUP
    return where.find(coordinators.of_group(key) if is_group else coordinators.of_transaction(key))


def _validate(key_type: int) -> str:
    """Return why keys of this type have no coordinator, "" if they have one."""
    if key_type in (GROUP, TRANSACTION):
        return ""
    return "share groups are not coordinated here" if key_type == SHARE else f"key type {key_type} is not known"
