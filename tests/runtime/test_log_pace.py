"""A log is read in steps of so many records or bytes, of whatever the log is."""

import pytest

from coordinator.core.moves import StopBroker
from coordinator.core.share_state.values import StateBatch, StateKey, StateUpdate
from coordinator.runtime import log_pace
from tests.requests import commit
from tests.server.in_memory import WALL_MS, InMemory


@pytest.mark.parametrize(("limit", "value"), [("STEP_RECORDS", 1), ("STEP_BYTES", 1)])
def test_each_batch_is_a_step_where_one_is_enough(monkeypatch: pytest.MonkeyPatch, limit: str, value: int) -> None:
    server = InMemory(offsets_topic_num_partitions=1, share_coordinator_state_topic_num_partitions=1)
    states, key = (
        server.node.engine.share_states,
        StateKey("g", server.node.world.ledger.catalog.topics["orders"].id, 0),
    )
    states.initialize(key, 0, 0, WALL_MS)
    for number in range(20):
        server.connect().ask(commit("g", {"orders": {number % 4: number}}), 8)
        states.write(key, StateUpdate(-1, -1, 0, -1, (StateBatch(number, number, 2, 1),)), WALL_MS)
        server.node.engine.flush()
    server.node.close()

    def steps() -> list[int]:
        again = InMemory(server.files, is_loaded=False)
        found = [step.records for step in again.loading if step.records]
        assert sum(found) >= 40
        return found

    assert len(steps()) == 2, "one for each log"
    monkeypatch.setattr(log_pace, limit, value)
    assert set(steps()) == {1}


@pytest.mark.parametrize("limit", ["STEP_RECORDS", "STEP_BYTES"])
def test_transactional_ids_that_move_are_read_in_steps(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    def count() -> int:
        server = InMemory(virtual_brokers=2, topics={f"t{number}": 1 for number in range(40)})
        server.node.command(StopBroker(0), server.clock.now_ms(), str)
        steps = 0
        while server.node.engine.unfinished:
            server.node.engine.long_requests.step()
            steps += 1
        return steps

    few = count()
    monkeypatch.setattr(log_pace, limit, 1)
    assert count() > few
