"""The table of handlers: those of consumer groups are added when one is needed."""

import subprocess
import sys

import pytest

from coordinator.core import dispatch
from coordinator.core.kinds.consumer import handlers, heartbeat
from coordinator.core.kinds.consumer.group import ConsumerGroup
from protocol.messages.heartbeat import HeartbeatRequest


@pytest.mark.parametrize("name", ["HANDLERS", "TIMERS", "RESTARTED"])
def test_no_handler_of_a_consumer_group_takes_the_place_of_another(name: str) -> None:
    """A key that is in the first table is never looked for in the second."""
    added = getattr(handlers, name)
    table = getattr(dispatch, name)
    assert table[next(iter(added))] is not None
    assert all(table[key] is handler for key, handler in added.items())


def test_a_consumer_group_has_its_own_handler_of_a_classic_request() -> None:
    assert dispatch.HANDLERS[HeartbeatRequest, ConsumerGroup] is heartbeat.heartbeat


def test_what_is_not_in_the_table_cannot_happen() -> None:
    with pytest.raises(KeyError):
        dispatch.HANDLERS[str, ConsumerGroup]


def test_a_server_without_consumer_groups_does_without_their_handlers() -> None:
    program = "import sys, coordinator.core.dispatch; print('coordinator.core.kinds.consumer.reconcile' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "False\n"
