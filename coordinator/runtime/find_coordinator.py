"""FindCoordinator: the broker that coordinates a group or a transactional id, at an address that the client reaches.

Shown by tests/runtime/test_find_coordinator.py and tests/conformance/stories/find_coordinator.py.
"""

from functools import partial
from typing import Final

from coordinator.core.decision import Steps
from coordinator.core.pace import map_in_steps, name_units
from coordinator.core.result import Call
from coordinator.core.share_state.keys import read_coordinator_key
from coordinator.dataplane.brokers import Broker, Where
from coordinator.runtime.engine import Engine
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
)

GROUP, TRANSACTION, SHARE = 0, 1, 2
MANY_KEYS_SINCE: Final = 4  # version
SHARES_SINCE: Final = 6  # version
_NOT_AVAILABLE: Final = "The coordinator is not available."


def find_coordinator(
    request: FindCoordinatorRequest, call: Call, engine: Engine, where: Where
) -> Steps[FindCoordinatorResponse]:
    """Return the coordinator of each key, or INVALID_REQUEST for a type of key that has no coordinator here."""
    version = call.version
    if version < MANY_KEYS_SINCE:
        refused = _validate(request.key_type)
        if refused:
            return FindCoordinatorResponse(
                error_code=ErrorCode.INVALID_REQUEST, error_message=refused, node_id=-1, host="", port=-1
            )
        broker = _find(request.key, request.key_type, engine, where)
        if broker is None:
            return FindCoordinatorResponse(
                error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE, error_message=_NOT_AVAILABLE, node_id=-1, port=-1
            )
        return FindCoordinatorResponse(error_message="NONE", node_id=broker.node_id, host=broker.host, port=broker.port)
    if request.key_type == SHARE and version >= SHARES_SINCE:
        find = partial(_find_share_state, call=call, engine=engine, where=where)
    else:
        find = partial(_find_any, key_type=request.key_type, engine=engine, where=where)
    found = yield from map_in_steps(request.coordinator_keys, find, units=name_units)
    return FindCoordinatorResponse(coordinators=tuple(found))


def _find_any(key: str, *, key_type: int, engine: Engine, where: Where) -> FindCoordinatorResponseCoordinator:
    if refused := _validate(key_type):
        message = "" if key_type == SHARE else refused  # as in Kafka
        return FindCoordinatorResponseCoordinator(key, -1, "", -1, ErrorCode.INVALID_REQUEST, message)
    return _found(key, _find(key, key_type, engine, where))


def _find_share_state(name: str, *, call: Call, engine: Engine, where: Where) -> FindCoordinatorResponseCoordinator:
    """Return the coordinator of a share partition. The first client that asks makes `__share_group_state`."""
    states = engine.share_states
    if read_coordinator_key(name) is None:
        return FindCoordinatorResponseCoordinator(name, -1, "", -1, ErrorCode.INVALID_REQUEST, "")
    if not states.partitions:
        states.create_topic(call.now_ms)
        return _found(name, None)
    return _found(name, where.find(engine.world.coordinators.find_states_leader(states.partition_of_name(name))))


def _found(key: str, broker: Broker | None) -> FindCoordinatorResponseCoordinator:
    if broker is None:
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return FindCoordinatorResponseCoordinator(key, -1, "", -1, code, _NOT_AVAILABLE)
    return FindCoordinatorResponseCoordinator(key, broker.node_id, broker.host, broker.port, 0, "")


def _find(key: str, key_type: int, engine: Engine, where: Where) -> Broker | None:
    coordinators = engine.world.coordinators
    if coordinators.is_alone:
        return where.brokers[0]
    is_group = key_type == GROUP
    return where.find(coordinators.of_group(key) if is_group else coordinators.of_transaction(key))


def _validate(key_type: int) -> str:
    """Return why keys of this type have no coordinator, "" if they have one."""
    if key_type in (GROUP, TRANSACTION):
        return ""
    return (
        f"share groups are known from version {SHARES_SINCE} on"
        if key_type == SHARE
        else f"key type {key_type} is not known"
    )
