"""The table of handlers: those that it has by name are found, and kept once they are."""

import subprocess
import sys

import pytest

from coordinator.core import dispatch
from coordinator.core.consumer import heartbeat
from coordinator.core.consumer.group import ConsumerGroup
from protocol.messages.heartbeat import HeartbeatRequest


@pytest.mark.parametrize("table", [dispatch.HANDLERS, dispatch.TIMERS, dispatch.RESTARTED])
def test_every_name_is_that_of_a_function(table: "dispatch.HandlerTable[object]") -> None:
    fresh = dispatch.HandlerTable(table._names)
    assert not fresh, "nothing is imported before it is called"
    found = {key: fresh[key] for key in table._names}
    assert found, "the handlers of consumer groups stand in the table by name"
    assert all(callable(handler) for handler in found.values()), found
    assert fresh == found, "what was found is kept"


def test_the_name_is_that_of_the_handler() -> None:
    assert dispatch.HANDLERS[HeartbeatRequest, ConsumerGroup] is heartbeat.heartbeat


def test_what_is_not_in_the_table_cannot_happen() -> None:
    with pytest.raises(KeyError):
        dispatch.HANDLERS[str, ConsumerGroup]


def test_a_server_without_consumer_groups_does_without_their_handlers() -> None:
    program = "import sys, coordinator.core.dispatch; print('coordinator.core.consumer.reconcile' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "False\n"
