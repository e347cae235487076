"""Where groups and transactional ids are coordinated, when no broker runs."""

import pytest

from coordinator.core.moves import StopBroker
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.server.in_memory import InMemory


@pytest.mark.parametrize("key_type", [0, 1])
def test_nobody_is_found_while_no_broker_runs(key_type: int) -> None:
    server = InMemory(virtual_brokers=2)
    for node_id in (0, 1):
        server.node.command(StopBroker(node_id), server.clock.now_ms(), str)
    peer = server.connect()
    nobody = (ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator is not available.", -1, "", -1)
    one = peer.ask(FindCoordinatorRequest("g", key_type), 3)
    assert (one.error_code, one.error_message, one.node_id, one.host, one.port) == nobody
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=("g", "h"))
    several = peer.ask(request, 4).coordinators
    assert [(each.error_code, each.error_message, each.node_id, each.host, each.port) for each in several] == [
        nobody
    ] * 2
    assert [each.key for each in several] == ["g", "h"]
