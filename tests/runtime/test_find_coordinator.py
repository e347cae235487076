"""Where groups and transactional ids are coordinated, when no broker runs."""

import pytest

from coordinator.dataplane.brokers import NOBODY, Broker, Where
from coordinator.runtime.coordinators import Coordinators
from coordinator.runtime.find_coordinator import find_coordinator
from protocol.errors import ErrorCode
from protocol.messages.find_coordinator import FindCoordinatorRequest


@pytest.mark.parametrize("key_type", [0, 1])
def test_nobody_is_found_while_no_broker_runs(key_type: int) -> None:
    where = Where((Broker(0, "a", 1), Broker(1, "b", 2)))
    coordinators = Coordinators((0, 1), 2)
    coordinators.of_groups = coordinators.of_transactions = [NOBODY, NOBODY]
    nobody = (ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator is not available.", -1, "", -1)
    one = find_coordinator(FindCoordinatorRequest("g", key_type), 3, coordinators, where)
    assert (one.error_code, one.error_message, one.node_id, one.host, one.port) == nobody
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=("g", "h"))
    several = find_coordinator(request, 4, coordinators, where).coordinators
    assert [(each.error_code, each.error_message, each.node_id, each.host, each.port) for each in several] == [
        nobody
    ] * 2
    assert [each.key for each in several] == ["g", "h"]
